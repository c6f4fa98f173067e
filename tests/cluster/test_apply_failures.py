"""Failures in the middle of an apply: their codes, what is left out, how the next one ends it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from omnigraph.cluster import apply as apply_module
from omnigraph.cluster import commands, graph_work
from omnigraph.cluster.root import CREATE, ClusterIntent, ClusterRoot, open_root
from omnigraph.cluster.serving import read_revision
from omnigraph.errors import ClusterRefused, StorageFailure
from omnigraph.lance_store.objects.control_files import LocalFiles
from omnigraph_testing.cluster_kit import (
    BY_NAME,
    PEOPLE,
    apply,
    call,
    codes,
    declare,
    dispositions,
    plan,
    write,
)

WIDER = PEOPLE.replace("age", "email: String?\n  age")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An applied cluster whose config creates two graphs, changes one and deletes one."""
    folder = tmp_path_factory.mktemp("failures") / "config"
    write(folder, people_pg=PEOPLE, more_pg=PEOPLE, people_gq=BY_NAME)
    declare(folder, "graphs:\n  people: {schema: people.pg}\n  old: {schema: more.pg}")
    assert apply(folder).body["converged"]
    write(folder, people_pg=WIDER)
    declare(
        folder,
        "graphs:",
        "  people: {schema: people.pg, queries: people.gq}",
        "  a: {schema: more.pg, queries: people.gq}",
        "  b: {schema: more.pg}",
    )
    assert commands.approve(call(folder, "bob"), "graph.old").ok
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "config"))


def fail(*_: Any, **__: Any) -> None:
    raise StorageFailure("the disk is full")


def recoveries(folder: Path) -> list[Path]:
    return list((folder / "__cluster" / "recoveries").iterdir())


def test_a_failed_creation_leaves_out_further_work_on_graphs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply_module, "create_graph", fail)
    report = apply(folder)
    assert not report.ok
    found = {(each.code, each.path) for each in report.diagnostics}
    assert found >= {
        ("graph_create_failed", "graph.a"),
        ("graph_create_skipped", "graph.b"),
        ("schema_apply_skipped", "schema.people"),
        ("graph_delete_skipped", "graph.old"),
        ("apply_dependency_blocked", "query.a.by_name"),
    }
    assert report.body["applied_count"] == 0
    assert not recoveries(folder), "a refusal leaves no intent"
    assert report.body["resource_statuses"]["graph.a"]["conditions"] == ["graph_create_failed"]
    monkeypatch.undo()
    done = apply(folder)
    assert done.body["converged"], "the approval was not used up"
    assert plan(folder).changes == []


def test_a_failed_delete_is_taken_up_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterRoot, "delete_graph", fail)
    report = apply(folder)
    assert "graph_delete_failed" in codes(report)
    assert dispositions(report)["schema.people"][1] == "applied", "deletes come last"
    revision = read_revision(open_root(str(folder)), {})
    assert revision.graphs["old"].refusal is not None, "a part of it may be gone"
    assert revision.graphs["people"].refusal is None
    monkeypatch.undo()
    done = apply(folder)
    assert "graph_delete_incomplete" in codes(done)
    assert done.body["converged"]
    assert not recoveries(folder)


def test_a_text_that_cannot_be_written_records_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "__cluster/resources/query/people/by_name"
    before = (folder / "__cluster" / "state.json").read_bytes()
    put = LocalFiles.put
    monkeypatch.setattr(
        LocalFiles, "put", lambda self, at, data: not at.startswith(key) and put(self, at, data)
    )
    monkeypatch.setattr(LocalFiles, "get", lambda self, at: b"other" if key in at else None)
    root = open_root(str(folder))
    monkeypatch.setattr(LocalFiles, "replace_exactly", lambda *_: False)
    with pytest.raises(ClusterRefused, match="cannot be replaced") as caught:
        root.put_payload("query.people.by_name", BY_NAME.encode())
    assert caught.value.reason == "resource_payload_write_error"
    monkeypatch.undo()
    monkeypatch.setattr(ClusterRoot, "put_payload", fail)
    report = apply(folder)
    assert codes(report) == ["storage_failure"]
    assert (folder / "__cluster" / "state.json").read_bytes() == before
    monkeypatch.undo()
    done = apply(folder)
    assert codes(done).count("cluster_recovery_rolled_forward") == 3
    assert done.body["converged"]


def test_a_creation_that_left_something_else(folder: Path) -> None:
    """The intent is kept, and blocks this graph alone, until a person has looked."""
    root = open_root(str(folder))
    place = folder / "graphs" / "a.omni"
    shutil.copytree(folder / "graphs" / "people.omni", place)
    for file in (place / "__manifest" / "_versions").iterdir():
        file.write_bytes(b"broken")
    root.write_intent(ClusterIntent("op", "now", CREATE, "a", str(place), "digest"))
    report = apply(folder)
    assert "cluster_recovery_pending" in codes(report)
    assert dispositions(report)["graph.a"][1:] == ("blocked", "cluster_recovery_pending")
    assert dispositions(report)["graph.b"][1] == "applied"
    status = json.loads((folder / "__cluster" / "state.json").read_text())["resource_statuses"]
    assert status["graph.a"]["conditions"] == ["graph_create_incomplete"]
    shutil.rmtree(place)
    assert apply(folder).body["converged"]


def test_a_plan_without_a_preview(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_work, "open_graph", fail)
    report = plan(folder)
    assert codes(report) == ["schema_preview_unavailable"]
    assert report.ok
    assert dispositions(report)["schema.people"][:2] == ("update", "applied")


def test_refresh_needs_a_ledger(tmp_path: Path) -> None:
    write(tmp_path, people_pg=PEOPLE)
    declare(tmp_path, "graphs:\n  people: {schema: people.pg}")
    assert codes(commands.refresh(call(tmp_path))) == ["state_missing"]
    status = commands.status(call(tmp_path))
    assert codes(status) == ["state_missing"]
    assert status.ok, "for status it is only a warning"
