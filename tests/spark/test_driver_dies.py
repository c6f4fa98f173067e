"""The process of a load or merge on Spark is killed or interrupted, whatever its workers did."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.graph.open import open_graph
from omnigraph.settings.models import MaintenanceSettings
from omnigraph_testing import workloads
from omnigraph_testing.crash import Child, start
from omnigraph_testing.invariants import assert_at_rest, content

pytestmark = [
    pytest.mark.crash,
    pytest.mark.xdist_group("alone_spark"),
    pytest.mark.timeout(900),
]

LINES = "".join(f'{{"type":"Person","data":{{"name":"p{i}"}}}}\n' for i in range(20))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "in.ndjson"
    path.write_text(LINES)
    return path


def load(uri: str, data: Path, failpoints: str) -> Child:
    arguments = {"uri": uri, "path": str(data), "mode": "append", "engine": "spark"}
    workload = "omnigraph_testing.workloads:load_file"
    return start(workload, arguments, failpoints=failpoints, new_interpreter=True)


def children_of(process: int) -> set[int]:
    """Every process below this one: the JVM, and the Python workers below that."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = {process}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {process}


def fragments(uri: str) -> set[Path]:
    return set(Path(uri).glob("nodes/**/data/*.lance"))


def until(condition: object) -> None:
    deadline = time.monotonic() + 400
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def assert_unchanged(uri: str, data: Path, before: object, stored: set[Path]) -> None:
    """Nothing is to be seen of the load, its files go with cleanup, and it can be repeated."""
    at_once = MaintenanceSettings(automatic=False, minimum_age_seconds=0)
    graph = open_graph(uri, settings=replace(workloads.settings(), maintenance=at_once))
    graph.refresh()
    assert content(graph) == before
    assert_at_rest(graph)
    graph.cleanup(confirm=True)
    assert fragments(uri) <= stored
    assert graph.load(data, engine="local").total_entities == 20
    assert graph.verify().ok


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGKILL, id="killed"),
        pytest.param(signal.SIGINT, id="Ctrl-C", marks=pytest.mark.slow),
    ],
)
def test_while_workers_hold_what_they_wrote(uri: str, data: Path, how: signal.Signals) -> None:
    before = content(workloads.create_small_graph(uri))
    stored = fragments(uri)
    child = load(uri, data, "spark.task_written=sleep:600")
    until(lambda: fragments(uri) - stored)
    below = children_of(child.process.pid)
    assert below
    child.process.send_signal(how)
    code, reports, stderr = child.finish(400)
    assert code == -how, stderr
    assert reports == ["open"]
    assert stderr.count("Traceback") <= (how is signal.SIGINT), (
        "only Python's own, of the interrupt"
    )
    assert "py4j" not in stderr
    until(lambda: not any(Path(f"/proc/{process}").exists() for process in below))
    assert_unchanged(uri, data, before, stored)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["load.after_check", "load.after_write", "commit.after_advance"])
def test_when_the_workers_are_done(uri: str, data: Path, point: str) -> None:
    before = content(workloads.create_small_graph(uri))
    stored = fragments(uri)
    code, _, stderr = load(uri, data, f"{point}=kill").finish(400)
    assert code == -signal.SIGKILL, stderr
    if point != "commit.after_advance":
        assert_unchanged(uri, data, before, stored)
        return
    graph = open_graph(uri, settings=workloads.settings())
    graph.refresh()
    assert len(content(graph)["Person"]) == 22
    assert_at_rest(graph)


@pytest.mark.slow
def test_while_workers_hold_the_rows_of_a_merge(uri: str) -> None:
    graph = workloads.create_small_graph(uri)
    graph.branches.create("review")
    graph.apply(workloads.THREE_TABLES, "review")
    graph.apply({"Note": {"insert": [{"id": "own", "text": "of main"}]}})
    before, stored = content(graph), fragments(uri)
    workload = "omnigraph_testing.workloads:merge_review_on_spark"
    child = start(
        workload,
        {"uri": uri},
        failpoints="spark.task_written=sleep:600",
        new_interpreter=True,
    )
    until(lambda: fragments(uri) - stored)
    child.process.send_signal(signal.SIGKILL)
    code, reports, stderr = child.finish(400)
    assert (code, reports) == (-signal.SIGKILL, ["open"]), stderr
    at_once = MaintenanceSettings(automatic=False, minimum_age_seconds=0)
    reopened = open_graph(uri, settings=replace(workloads.settings(), maintenance=at_once))
    reopened.refresh()
    assert content(reopened) == before
    reopened.cleanup(confirm=True)
    assert fragments(uri) <= stored
    assert reopened.merge("review").outcome == "merged"
    assert reopened.verify().ok
