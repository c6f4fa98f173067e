from __future__ import annotations

import datetime as dt
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from omnigraph import failpoints
from omnigraph.cli.main import app
from omnigraph.commit.arming import IntentHold, hold_intent
from omnigraph.commit.intents import GC
from omnigraph.errors import Contention, InvalidArgument, ReadOnlyGraph, SnapshotReclaimed
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.maintain.garbage import Retention
from omnigraph.manifest.layout import RECOVERY
from omnigraph.manifest.records import MAIN_REF
from omnigraph.settings.models import HistorySettings, MaintenanceSettings, Settings, WriteSettings
from omnigraph_testing import crash
from omnigraph_testing.graph_helpers import meanwhile
from omnigraph_testing.invariants import assert_at_rest, content
from omnigraph_testing.workloads import create_small_graph

AT_ONCE = Settings(
    write=WriteSettings(lease_seconds=2.0, wait_limit_seconds=1.0),
    maintenance=MaintenanceSettings(minimum_age_seconds=0),
)


@pytest.fixture
def graph(uri: str) -> Graph:
    create_small_graph(uri)
    return open_graph(uri, settings=AT_ONCE)


def write(graph: Graph, number: int, branch: str = "main") -> str:
    edits = {"Note": {"upsert": [{"id": f"n{number % 3}", "text": str(number)}]}}
    receipt = graph.apply(edits, branch)
    assert receipt.commit is not None
    return receipt.commit.graph_commit_id


def test_without_confirm_nothing_changes(graph: Graph, uri: str) -> None:
    for number in range(5):
        write(graph, number)
    before = {p: p.stat().st_mtime_ns for p in Path(uri).rglob("*")}
    report = open_graph(uri, read_only=True, settings=AT_ONCE).cleanup(keep=1)
    assert not report.confirmed
    assert report.bytes > 0
    assert {p: p.stat().st_mtime_ns for p in Path(uri).rglob("*")} == before
    done = graph.cleanup(keep=1, confirm=True)
    assert (done.files, done.bytes) == (report.files, report.bytes)
    assert graph.cleanup(keep=1).files == 0


def test_kept_commits_read_exactly_and_others_say_that_they_are_gone(graph: Graph) -> None:
    commits = [write(graph, number) for number in range(10)]
    wanted = {c: content(graph, at=c) for c in commits}
    graph.optimize()
    graph.cleanup(keep=4, confirm=True)
    for reader in (graph, open_graph(graph.uri, read_only=True)):
        for commit in commits[-4:]:
            assert content(reader, at=commit) == wanted[commit]
        for commit in commits[:-4]:
            with pytest.raises(SnapshotReclaimed):
                content(reader, at=commit)
        assert len(reader.commits.list(limit=None)) == 12
    assert_at_rest(graph)


def test_an_old_commit_cannot_be_tagged_once_it_is_gone(graph: Graph) -> None:
    old = write(graph, 1)
    write(graph, 2)
    graph.cleanup(keep=1, confirm=True)
    with pytest.raises(SnapshotReclaimed):
        graph.tags.create("late", old)
    assert graph.tags.list() == []


def test_what_branches_inherit_and_tags_name_stays(graph: Graph) -> None:
    graph.branches.create("lazy")
    tagged = write(graph, 1)
    graph.tags.create("t", tagged)
    lazy, at_tag = content(graph, "lazy"), content(graph, at="t")
    for number in range(5, 10):
        write(graph, number)
    graph.optimize()
    graph.cleanup(keep=1, confirm=True)
    fresh = open_graph(graph.uri, settings=AT_ONCE)
    assert content(fresh, "lazy") == lazy
    assert content(fresh, at="t") == at_tag
    write(fresh, 9, "lazy")
    assert_at_rest(fresh)


def test_without_a_policy_every_commit_stays(graph: Graph) -> None:
    commits = [write(graph, number) for number in range(5)]
    wanted = {c: content(graph, at=c) for c in commits}
    graph.optimize()
    graph.cleanup(confirm=True)
    fresh = open_graph(graph.uri)
    assert {c: content(fresh, at=c) for c in commits} == wanted


def test_a_deleted_branch_leaves_nothing_but_what_its_children_read(graph: Graph) -> None:
    graph.branches.create("parent")
    write(graph, 1, "parent")
    graph.branches.create("child", "parent")
    write(graph, 2, "child")
    wanted = content(graph, "child")
    graph.branches.delete("parent")
    graph.cleanup(keep=1, confirm=True)
    assert content(open_graph(graph.uri), "child") == wanted
    graph.branches.delete("child")
    graph.cleanup(keep=1, confirm=True)
    assert not list(Path(graph.uri).rglob("tree/*"))
    assert_at_rest(graph)


def test_the_minimum_age_protects_readers(uri: str) -> None:
    graph = create_small_graph(uri)
    old = write(graph, 1)
    write(graph, 2)
    graph.branches.create("gone")
    write(graph, 3, "gone")
    graph.branches.delete("gone")
    assert graph.cleanup(keep=1).files == 0
    content(graph, at=old)


def test_a_dead_writers_files_go(graph: Graph, uri: str) -> None:
    for point in ("commit.after_stage", "commit.after_fork_branch"):
        child = crash.start(
            "omnigraph_testing.workloads:write_three_tables",
            {"uri": uri, "branch": "main" if point.endswith("stage") else "b"},
            failpoints=f"{point}=kill",
        )
        if point.endswith("branch") and "b" not in [b.name for b in graph.branches.list()]:
            graph.branches.create("b")
        child.finish()
    graph.cleanup(keep=1, confirm=True)
    before = {p for p in Path(uri).rglob("*") if p.is_file()}
    graph.cleanup(keep=1, confirm=True)
    assert {p for p in Path(uri).rglob("*") if p.is_file()} == before
    assert not list(Path(uri, "nodes").rglob("tree/*"))
    assert_at_rest(graph)


def test_a_killed_cleanup_harms_nothing_and_is_finished_by_the_next(graph: Graph, uri: str) -> None:
    commits = [write(graph, number) for number in range(6)]
    wanted = {c: content(graph, at=c) for c in commits[-2:]}
    for point in failpoints.CLEANUP_POINTS:
        child = crash.start(
            "omnigraph_testing.workloads:cleanup_at_once", {"uri": uri}, failpoints=f"{point}=kill"
        )
        assert child.finish()[0] < 0
        fresh = open_graph(uri, settings=AT_ONCE)
        assert {c: content(fresh, at=c) for c in commits[-2:]} == wanted
        assert_at_rest(fresh)
    graph.cleanup(keep=2, confirm=True)
    assert graph.cleanup(keep=2).files == 0


def test_cleanup_and_long_staging_exclude_each_other(graph: Graph) -> None:
    engine = graph.engine
    intent = hold_intent(MAIN_REF, None, "01HZZZZZZZZZZZZZZZZZZZZZZ0", AT_ONCE.write)
    assert GC in intent.resources.shared
    with IntentHold(engine.board, intent), pytest.raises(Contention):
        graph.cleanup(keep=1, confirm=True)
    graph.cleanup(keep=1, confirm=True)


@pytest.mark.crash
def test_what_a_writer_in_flight_has_staged_stays(graph: Graph, uri: str) -> None:
    """Whatever the age: its intent names the tables, and nothing in them is taken for nobody's."""
    child = crash.start(
        "omnigraph_testing.workloads:write_three_tables",
        {"uri": uri, "lease": 30.0},
        failpoints="commit.after_revalidate=sleep:4",
    )
    assert child.wait_for_report() == "open"
    while not graph.engine.store.files.list(RECOVERY):
        time.sleep(0.01)
    removed = graph.engine.cleanup.preview(Retention(1, None)).removals
    staged = [r for r in removed if r.kind == "orphans" and r.place.startswith(("nodes", "edges"))]
    assert staged == [], "files of the writer in flight"
    graph.cleanup(keep=1, confirm=True)
    code, (commit,), errors = child.finish()
    assert code == 0, errors
    fresh = open_graph(uri)
    assert fresh.commits.list(limit=1)[0].graph_commit_id == commit
    assert content(fresh)["Person"]["cy"]["age"] == 3
    assert fresh.verify().ok
    assert_at_rest(fresh)


def test_change_lists_of_a_writer_in_flight_stay(
    graph: Graph, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are written before the commit that names them: only the intent does so far."""
    found: list[tuple[set[str], set[str]]] = []

    def look() -> None:
        removals = graph.engine.cleanup.preview(Retention(1, None)).removals
        goes = {file for removal in removals for file in removal.files}
        found.append(({f"__history/{p.name}" for p in lists.glob("*.arrow")}, goes))

    lists = Path(uri, "__history")
    meanwhile(monkeypatch, "commit.after_revalidate", look)
    writer = open_graph(uri, settings=replace(AT_ONCE, history=HistorySettings(inline_ids=0)))
    write(writer, 1)
    ((made, goes),) = found
    assert made
    assert not made & goes


def test_branches_and_tags_made_meanwhile_wait_and_are_whole(graph: Graph) -> None:
    for number in range(4):
        write(graph, number)
    patient = open_graph(
        graph.uri, settings=Settings(maintenance=MaintenanceSettings(minimum_age_seconds=0))
    )
    wanted = content(graph)
    failpoints.arm("cleanup.after_find", "sleep:0.3")
    cleaner = threading.Thread(target=lambda: graph.cleanup(keep=1, confirm=True))
    cleaner.start()
    patient.branches.create("b")
    patient.tags.create("t", "main")
    write(patient, 7, "b")
    cleaner.join()
    fresh = open_graph(graph.uri)
    assert content(fresh, at="t") == wanted
    assert content(fresh, "b")["Note"]["n1"]["text"] == "7"


def test_a_path_is_not_used_twice(graph: Graph) -> None:
    """Version numbers would start over, and old commits would read new rows."""
    location = graph.snapshot().tables
    path = next(pin.location for key, pin in location.items() if key.type_name == "Note")
    stray = path.replace(path.split("/")[1], "0123456789abcdef")
    store = graph.engine.store
    for file in store.files.walk(path):
        data = store.files.get(file.path)
        assert data is not None
        store.files.put(file.path.replace(path, stray), data)
    report = graph.cleanup(confirm=True)
    assert [r.place for r in report.removals if r.kind == "table"] == [stray]
    assert [f.path for f in store.files.walk(stray)] == [f"{stray}/_reclaimed"]
    assert not [r for r in graph.cleanup(confirm=True).removals if r.kind == "table"]


@pytest.mark.parametrize("bad", [{"keep": 0}, {"keep": True}, {"older_than": "soon"}])
def test_bad_arguments(graph: Graph, bad: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        graph.cleanup(**bad)  # type: ignore[arg-type]


def test_age_policy(graph: Graph) -> None:
    old = write(graph, 1)
    write(graph, 2)
    graph.cleanup(older_than="1h", confirm=True)
    content(graph, at=old)
    graph.cleanup(older_than=dt.timedelta(0), confirm=True)
    with pytest.raises(SnapshotReclaimed):
        content(open_graph(graph.uri), at=old)


def test_a_read_only_graph_only_previews(uri: str) -> None:
    create_small_graph(uri)
    with pytest.raises(ReadOnlyGraph):
        open_graph(uri, read_only=True).cleanup(confirm=True)


def test_the_command(graph: Graph, uri: str) -> None:
    write(graph, 1)
    shown = CliRunner().invoke(app, ["cleanup", uri, "--keep", "1"])
    assert shown.exit_code == 0
    assert shown.output.startswith("nothing to remove")  # all of it is young
    done = CliRunner().invoke(app, ["cleanup", uri, "--older-than", "7d", "--confirm", "--json"])
    assert '"confirmed": true' in done.output
    bad = CliRunner().invoke(app, ["cleanup", uri, "--older-than", "x"])
    assert bad.exit_code == 1
