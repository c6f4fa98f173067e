"""Format stamps: newer and unknown ones are refused, older ones migrated in place."""

from __future__ import annotations

import os
import signal
import zipfile
from dataclasses import replace
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
from omnigraph.settings.models import HistorySettings
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.graph_helpers import together
from omnigraph_testing.invariants import assert_at_rest, assert_history_readable, content

FIRST_RELEASED = 2
FIXTURES = Path(__file__).parents[1] / "fixtures"
ONE_NOTE = {"Note": {"insert": [{"id": "n1", "text": "x"}]}}


def restore_written_by(release: int, uri: str) -> None:
    """A backup that the older code wrote: branches, a merge, a tag, a key.

    That of format 3 has pages of history of two levels, files of changed ids and a group, too.
    """
    backup = f"{uri}-backup"
    with zipfile.ZipFile(FIXTURES / f"format-{release}.zip") as archive:
        archive.extractall(backup)
    restore_graph(backup, uri)


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


@pytest.mark.parametrize("written", [2, 3])
def test_a_graph_that_an_older_release_wrote(uri: str, written: int) -> None:
    restore_written_by(written, uri)
    old = open_graph(uri, read_only=True)
    branches = [branch.name for branch in old.branches.list()]
    assert sorted(branches) == ["draft", "idle", "main"]
    before = {branch: content(old, branch) for branch in branches}
    log = old.commits.list(limit=None)
    assert migration_step.stamp_of(uri) == str(written), "reads never write"
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
    graph.apply({"Note": {"insert": [{"id": "n2", "text": "y"}]}}, branch="draft")
    graph.merge("draft", "main")
    assert set(content(graph)["Note"]) == {"n0", "n1", "n2", "ga", "gb"}
    assert graph.verify(full=True).ok
    assert_at_rest(graph)


@pytest.mark.crash
@pytest.mark.parametrize("branches", [1, 2, 3])
def test_a_migration_killed_half_way_is_finished(uri: str, branches: int) -> None:
    restore_written_by(OLDER, uri)
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


@pytest.mark.crash
def test_two_processes_migrate_at_once(uri: str) -> None:
    restore_written_by(OLDER, uri)
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


def test_the_data_files_of_old_heads_go(uri: str) -> None:
    """Format 4 has none, and a publication still removes those of versions that it trims."""
    restore_written_by(OLDER, uri)
    assert list(Path(uri, "__manifest", "data").iterdir())
    kept = HistorySettings(kept_manifest_versions=2)
    graph = open_graph(uri, settings=replace(workloads.settings(), history=kept))
    for number in range(6):
        graph.apply({"Note": {"insert": [{"id": f"t{number}", "text": "x"}]}})
    forked = {int(ref["parent_version"]) for ref in manifest_branches(uri).values()}
    assert len(list(Path(uri, "__manifest", "data").iterdir())) <= len(forked)
    assert_at_rest(graph)
    for branch in ("main", "draft", "idle"):
        assert_history_readable(graph, branch)


def manifest_branches(uri: str) -> dict[str, dict[str, int]]:
    import lance

    found: dict[str, dict[str, int]] = lance.dataset(f"{uri}/__manifest").branches.list()
    return found
