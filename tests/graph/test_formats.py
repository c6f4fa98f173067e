"""Format stamps: newer and unknown ones are refused, older ones migrated in place."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import migration_step
import pytest

from omnigraph.errors import FormatTooNew, FormatUnknown
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.manifest import format_stamp
from omnigraph.testing import workloads
from omnigraph.testing.crash import start
from omnigraph.testing.invariants import assert_at_rest, content

ONE_NOTE = {"Note": {"insert": [{"id": "n1", "text": "x"}]}}


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_format_asks_for_an_upgrade(graph: Graph, uri: str, read_only: bool) -> None:
    migration_step.set_stamp(uri, "2")
    with pytest.raises(FormatTooNew, match="upgrade omnigraph first") as caught:
        open_graph(uri, read_only=read_only)
    assert (caught.value.found, caught.value.supported) == (2, 1)


def test_an_open_handle_stops_when_the_graph_was_upgraded(graph: Graph, uri: str) -> None:
    versions = {p.name for p in Path(uri).glob("nodes/*/_versions/*")}
    migration_step.set_stamp(uri, "2")
    for use in (lambda: graph.apply(ONE_NOTE), lambda: graph.read("Note"), graph.commits.list):
        with pytest.raises(FormatTooNew):
            use()
    assert {p.name for p in Path(uri).glob("nodes/*/_versions/*")} == versions
    assert list(Path(uri, "__recovery").iterdir()) == []
    migration_step.set_stamp(uri, "1")
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


def test_an_older_format_without_a_way_up_is_refused(graph: Graph, uri: str) -> None:
    migration_step.set_stamp(uri, "0")
    with pytest.raises(FormatUnknown, match="format 0"):
        open_graph(uri)


@pytest.fixture
def migration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(format_stamp, "MIGRATIONS", {0: migration_step.from_zero_to_one})


def test_an_older_format_is_migrated_by_a_write_open_only(
    graph: Graph, uri: str, migration: None
) -> None:
    before = content(graph)
    migration_step.set_stamp(uri, "0")
    assert content(open_graph(uri, read_only=True)) == before
    assert migration_step.stamp_of(uri) == "0", "reads never write"
    writer = open_graph(uri, settings=workloads.settings())
    assert migration_step.stamp_of(uri) == "1"
    assert content(writer) == before
    assert writer.apply(ONE_NOTE).commit is not None
    assert_at_rest(writer)


@pytest.mark.crash
def test_a_migration_killed_half_way_is_finished(graph: Graph, uri: str, migration: None) -> None:
    before = content(graph)
    migration_step.set_stamp(uri, "0")
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    child = start(
        "migration_step:open_and_die", {"uri": uri}, environment={"PYTHONPATH": ":".join(paths)}
    )
    code, reports, stderr = child.finish()
    assert (code, reports) == (-signal.SIGKILL, []), stderr
    assert Path(uri, migration_step.FIRST_HALF).exists()
    assert migration_step.stamp_of(uri) == "0"
    assert content(open_graph(uri, read_only=True)) == before
    writer = open_graph(uri, settings=workloads.settings())
    assert migration_step.stamp_of(uri) == "1"
    assert content(writer) == before
    assert writer.apply(ONE_NOTE).commit is not None


def test_a_step_that_forgets_its_stamp_does_not_run_for_ever(
    graph: Graph, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration_step.set_stamp(uri, "0")
    ran = []
    monkeypatch.setattr(format_stamp, "MIGRATIONS", {0: ran.append})
    with pytest.raises(FormatUnknown, match="did not write its stamp"):
        open_graph(uri)
    assert len(ran) == 1
