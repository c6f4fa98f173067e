"""Loads that outlive leases and the commits of others."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from omnigraph import init, open
from omnigraph.manifest.layout import RECOVERY
from omnigraph.settings.models import MaintenanceSettings, PipelineSettings, Settings, WriteSettings
from omnigraph.spark.load import spark_load
from omnigraph.spark.load.load_tasks import run_tasks
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.load_engines import SCHEMA

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

LEASE = 1.0
SETTINGS = Settings(
    write=WriteSettings(lease_seconds=LEASE),
    pipeline=PipelineSettings(task_bytes=300),
    maintenance=MaintenanceSettings(automatic=False, minimum_age_seconds=0),
)


def test_the_intent_is_renewed_and_cleanup_keeps_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lingering(plan: Any, pieces: Any) -> Any:
        run = run_tasks(plan, pieces)

        def late(batches: Any) -> Any:
            import time

            for result in run(batches):
                time.sleep(4)
                yield result

        return late

    graph = init(tmp_path / "g", SCHEMA, settings=SETTINGS)
    data = tmp_path / "data.ndjson"
    rows = [{"type": "Person", "data": {"name": f"p{i}"}} for i in range(9)]
    data.write_text("\n".join(json.dumps(row) for row in rows))
    monkeypatch.setattr(spark_load, "run_tasks", lingering)
    epochs: set[str] = set()
    cleanups: list[Any] = []

    def clean_up() -> None:
        cleanups.append(open(tmp_path / "g", settings=SETTINGS).cleanup(keep=1, confirm=True))

    other = threading.Thread(target=clean_up)
    began = time.monotonic()

    def watch(_bytes: int, _rows: int) -> None:
        names = graph.engine.store.files.list(RECOVERY)
        epochs.update(name for name in names if ".epoch." in name)
        if time.monotonic() > began + 2 * LEASE and other.ident is None:
            other.start()

    graph.load(data, engine="spark", progress=watch)
    other.join()
    assert len(epochs) > 2, "several leases passed, and each was renewed"
    assert len(cleanups) == 1
    assert graph.read("Person").num_rows == 9
    assert graph.verify().ok
    assert_at_rest(graph)


def test_a_commit_between_the_checks_and_the_publish_writes_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = init(tmp_path / "g", "node P { name: String @key } edge K: P -> P", settings=SETTINGS)
    graph.apply({"P": {"insert": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}})
    checks, jobs = [], []
    load_check, run_workers = spark_load.LoadBuild._check, spark_load._LoadJob._run_workers

    def check(load: Any, snapshot: Any) -> None:
        load_check(load, snapshot)
        checks.append(1)
        if len(checks) == 1:
            graph.apply({"P": {"insert": [{"name": "other"}], "delete": ["c"]}})

    def workers(job: Any, plan: Any) -> Any:
        jobs.append(1)
        return run_workers(job, plan)

    monkeypatch.setattr(spark_load.LoadBuild, "_check", check)
    monkeypatch.setattr(spark_load._LoadJob, "_run_workers", workers)
    data = tmp_path / "data.ndjson"
    data.write_text('{"type":"P","data":{"name":"d"}}\n{"edge":"K","from":"a","to":"d"}\n')
    graph.load(data, engine="spark")
    assert (len(checks), len(jobs)) == (1, 1)
    assert sorted(graph.read("P")["id"].to_pylist()) == ["a", "b", "d", "other"]
    checks.clear()
    data.write_text('{"edge":"K","from":"a","to":"b"}\n')
    monkeypatch.setattr(
        spark_load.LoadBuild, "_check", lambda load, at: _and_delete(load, at, graph, checks)
    )
    with pytest.raises(Exception, match="there is no P 'b'"):
        graph.load(data, engine="spark")
    assert len(jobs) == 2
    assert graph.read("K").num_rows == 1
    assert_at_rest(graph)


CHECK = spark_load.LoadBuild._check


def _and_delete(load: Any, snapshot: Any, graph: Any, checks: list[int]) -> None:
    """The endpoint goes away right after it was looked at."""
    CHECK(load, snapshot)
    checks.append(1)
    if len(checks) == 1:
        graph.apply({"P": {"delete": ["b"]}})
