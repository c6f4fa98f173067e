"""Format stamps: newer and unknown ones are refused, older ones migrated in place."""

from __future__ import annotations

import os
import signal
import zipfile
from functools import partial
from pathlib import Path

import migration_step
import pytest
from migration_step import OLDER

from omnigraph.commit import migration as migrations
from omnigraph.errors import FormatTooNew, FormatUnknown
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph, restore_graph
from omnigraph.manifest.branch_state import CURRENT_FORMAT
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.graph_helpers import together
from omnigraph_testing.invariants import assert_at_rest, assert_history_readable, content

FIRST_RELEASED = 2
FIXTURES = Path(__file__).parents[1] / "fixtures"
ONE_NOTE = {"Note": {"insert": [{"id": "n1", "text": "x"}]}}


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_format_asks_for_an_upgrade(graph: Graph, uri: str, read_only: bool) -> None:
    migration_step.set_stamp(uri, str(CURRENT_FORMAT + 1))
    with pytest.raises(FormatTooNew, match="upgrade omnigraph first") as caught:
        open_graph(uri, read_only=read_only)
    assert (caught.value.found, caught.value.supported) == (CURRENT_FORMAT + 1, CURRENT_FORMAT)


def test_an_open_handle_stops_when_the_graph_was_upgraded(graph: Graph, uri: str) -> None:
    versions = {p.name for p in Path(uri).glob("nodes/*/_versions/*")}
    migration_step.set_stamp(uri, str(CURRENT_FORMAT + 1))
    for use in (lambda: graph.apply(ONE_NOTE), lambda: graph.read("Note"), graph.commits.list):
        with pytest.raises(FormatTooNew):
            use()
    assert {p.name for p in Path(uri).glob("nodes/*/_versions/*")} == versions
    assert list(Path(uri, "__recovery").iterdir()) == []
    migration_step.set_stamp(uri, str(CURRENT_FORMAT))
    assert graph.apply(ONE_NOTE).commit is not None


@pytest.mark.parametrize("stamp", [None, "", "banana", "-1", "1.0", "²"])
@pytest.mark.parametrize("read_only", [False, True])
def test_an_unknown_stamp_is_refused(
    graph: Graph, uri: str, stamp: str | None, read_only: bool
) -> None:
    migration_step.set_stamp(uri, stamp)
    with pytest.raises(FormatUnknown, match="stamp"):
        open_graph(uri, read_only=read_only)


def test_a_manifest_with_other_rows_is_refused(graph: Graph, uri: str) -> None:
    import lance
    import pyarrow as pa

    rows = pa.table({"x": [1]}).replace_schema_metadata({"omnigraph:format": "1"})
    lance.write_dataset(rows, f"{uri}/__manifest", mode="overwrite")
    reader = open_graph(uri, read_only=True)
    with pytest.raises(FormatUnknown, match="manifest"):
        reader.snapshot()


@pytest.mark.parametrize("stamp", range(FIRST_RELEASED))
def test_an_older_format_without_a_way_up_is_refused(graph: Graph, uri: str, stamp: int) -> None:
    migration_step.set_stamp(uri, str(stamp))
    with pytest.raises(FormatUnknown, match=f"format {stamp}"):
        open_graph(uri)


def test_an_older_format_is_migrated_by_a_write_open_only(graph: Graph, uri: str) -> None:
    before = content(graph)
    migration_step.set_stamp(uri, str(OLDER))
    assert content(open_graph(uri, read_only=True)) == before
    assert migration_step.stamp_of(uri) == str(OLDER), "reads never write"
    writer = open_graph(uri, settings=workloads.settings())
    assert migration_step.stamp_of(uri) == str(CURRENT_FORMAT)
    assert content(writer) == before
    assert writer.apply(ONE_NOTE).commit is not None
    assert_at_rest(writer)


def test_a_graph_that_the_first_release_wrote(uri: str) -> None:
    """`format-2.zip` is a backup that format 2 wrote: branches, a merge, a tag, a key."""
    backup = f"{uri}-backup"
    with zipfile.ZipFile(FIXTURES / "format-2.zip") as archive:
        archive.extractall(backup)
    restore_graph(backup, uri)
    old = open_graph(uri, read_only=True)
    branches = [branch.name for branch in old.branches.list()]
    assert sorted(branches) == ["draft", "idle", "main"]
    before = {branch: content(old, branch) for branch in branches}
    log = old.commits.list(limit=None)
    assert migration_step.stamp_of(uri) == "2", "reads never write"
    graph = open_graph(uri, actor="tester", settings=workloads.settings())
    for branch in branches:
        ref, _ = graph.engine.reader.branch(branch)
        assert migration_step.stamp_of(uri, ref.physical_branch) == str(CURRENT_FORMAT)
        assert content(graph, branch) == before[branch]
        assert_history_readable(graph, branch)
    assert graph.commits.list(limit=None) == log
    assert set(content(graph, at="before")["Note"]) == {"n0", "n1"}
    ada = {"Person": {"upsert": [{"name": "ada", "age": 9}]}}
    assert graph.apply(ada, idempotency_key="k").repeated
    writes = [
        partial(graph.apply, {"Note": {"insert": [{"id": f"g{n}", "text": "x"}]}}) for n in "ab"
    ]
    made = together(graph, *writes)
    assert len({receipt.commit.graph_manifest_version for receipt in made}) == 1
    assert set(content(graph)["Note"]) == {"n0", "n1", "ga", "gb"}
    assert graph.verify(full=True).ok
    assert_at_rest(graph)


@pytest.mark.crash
@pytest.mark.parametrize("branches", [1, 2, 3])
def test_a_migration_killed_half_way_is_finished(older: Graph, uri: str, branches: int) -> None:
    before = content(open_graph(uri, read_only=True))
    point = f"migration.after_branch=kill@{branches}"
    child = start("omnigraph_testing.workloads:only_open", {"uri": uri}, failpoints=point)
    code, reports, stderr = child.finish()
    assert (code, reports) == (-signal.SIGKILL, []), stderr
    main = CURRENT_FORMAT if branches == 3 else OLDER
    assert migration_step.stamp_of(uri) == str(main), "main is stamped last"
    assert content(open_graph(uri, read_only=True)) == before
    writer = open_graph(uri, settings=workloads.settings())
    for branch in ("main", "draft", "idle"):
        ref, _ = writer.engine.reader.branch(branch)
        assert migration_step.stamp_of(uri, ref.physical_branch) == str(CURRENT_FORMAT)
    assert content(writer) == before
    assert writer.apply({"Note": {"insert": [{"text": "x"}]}}).commit is not None
    assert_at_rest(writer)


@pytest.fixture
def older(graph: Graph) -> Graph:
    """Two branches written to, one only created, a merge, a tag: all with the older stamp."""
    graph.branches.create("draft")
    graph.apply(ONE_NOTE, branch="draft")
    graph.branches.create("idle")
    graph.tags.create("before", "draft")
    graph.merge("draft", "main")
    for branch in ("main", "draft", "idle"):
        migration_step.write_as_older(graph, branch)
    return graph


def test_an_older_graph_is_read_unchanged_and_stamped_on_every_branch(
    older: Graph, uri: str
) -> None:
    old = open_graph(uri, read_only=True)
    before = {branch: content(old, branch) for branch in ("main", "draft", "idle")}
    assert before["main"] == before["draft"] != before["idle"]
    assert migration_step.stamp_of(uri) == str(OLDER), "reads never write"
    graph = open_graph(uri, settings=workloads.settings())
    for branch in ("main", "draft", "idle"):
        ref, _ = graph.engine.reader.branch(branch)
        assert migration_step.stamp_of(uri, ref.physical_branch) == str(CURRENT_FORMAT)
        assert content(graph, branch) == before[branch]
        assert_history_readable(graph, branch)
    assert content(graph, at="before") == before["draft"]
    graph.apply({"Note": {"insert": [{"id": "n2", "text": "y"}]}}, branch="draft")
    graph.merge("draft", "main")
    assert content(graph) == content(graph, "draft")
    assert_at_rest(graph)


@pytest.mark.crash
def test_two_processes_migrate_at_once(older: Graph, uri: str) -> None:
    before = content(open_graph(uri, read_only=True))
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    openers = [
        start(
            "migration_step:open_for_writing",
            {"uri": uri},
            environment={"PYTHONPATH": ":".join(paths)},
        )
        for _ in range(2)
    ]
    ends = [opener.finish() for opener in openers]
    assert [code for code, _, _ in ends] == [0, 0], [stderr for _, _, stderr in ends]
    assert ends[0][1] == ends[1][1], "both saw the same head"
    graph = open_graph(uri, settings=workloads.settings())
    assert content(graph) == before
    assert_at_rest(graph)


def test_a_step_that_forgets_its_stamp_does_not_run_for_ever(
    graph: Graph, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration_step.set_stamp(uri, str(OLDER))
    ran = []
    monkeypatch.setattr(migrations, "MIGRATIONS", {OLDER: ran.append})
    with pytest.raises(FormatUnknown, match="did not write its stamp"):
        open_graph(uri)
    assert len(ran) == 1
