from __future__ import annotations

import pyarrow as pa

from omnigraph.graph.handle import Graph
from omnigraph.lance_store.advance import HeadMoved, advance
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.testing.index_steps import staged_indexes
from omnigraph.testing.invariants import assert_at_rest
from omnigraph.values.identifiers import node_table
from omnigraph.values.indexes import IndexKind, IndexSpec

ID_INDEX = (IndexSpec("id", IndexKind.SORTED),)


def fragmented(store: Store, rows) -> DatasetVersion:
    at = rows.create(a=1)
    for number in range(4):
        at = advance(store, rows.append(at, **{f"x{number}": number}))
    return at


def test_indexes_are_extended_only_where_needed(store: Store, rows) -> None:
    at = fragmented(store, rows)
    staged = staged_indexes(store, at, ID_INDEX)
    assert staged is not None
    after = advance(store, staged)
    assert after == DatasetVersion(at.location, None, at.version + 1)
    assert staged_indexes(store, after, ID_INDEX) is None, "nothing is left to do"
    covered = {
        f for i in store.open(after).describe_indices() for s in i.segments for f in s.fragment_ids
    }
    assert covered == {f.fragment_id for f in store.open(after).get_fragments()}
    assert rows.read(after) == rows.read(at)
    found = find_rows(store.open(after), pa.array(["x2", "a", "none"]), ["n"])
    assert sorted(found["id"].to_pylist()) == ["a", "x2"]


def test_compaction_keeps_rows_and_ids(store: Store, rows) -> None:
    at = fragmented(store, rows)
    at = advance(store, staged_indexes(store, at, ID_INDEX))
    columns = ("id", "_rowid"), ("id", "n")
    before = [rows.read(at, pair) for pair in columns]
    staged = rows.compact(at)
    assert staged is not None
    assert staged.row_count == 5
    after = advance(store, staged)
    assert after == DatasetVersion(at.location, None, staged.result_version)
    assert len(store.open(after).get_fragments()) == 1
    assert [rows.read(after, pair) for pair in columns] == before
    assert rows.compact(after) is None, "nothing is left to do"


def test_a_compacted_table_does_not_carry_its_past(store: Store, rows) -> None:
    """The manifest of a table is written anew by every commit: it must not grow with them."""
    at = rows.create(a=1)
    sizes = []
    for number in range(300):
        at = advance(store, rows.append(at, **{f"x{number}": number}))
        if number % 100 == 99:
            at = advance(store, staged_indexes(store, at, ID_INDEX))
            at = advance(store, rows.compact(at))
            folder = store.location.path / at.location / "_versions"
            sizes.append(max(folder.iterdir(), key=lambda f: f.stat().st_mtime_ns).stat().st_size)
    assert sizes[-1] < 1.2 * sizes[0]
    versions = rows.read(at, ("id", "_row_created_at_version"))
    assert set(versions.values()) == {1}
    assert len(rows.read(at)) == 301


def test_a_write_staged_before_a_compaction_fails(store: Store, rows) -> None:
    at = fragmented(store, rows)
    write = rows.append(at, late=1)
    after = advance(store, rows.compact(at))
    assert isinstance(after, DatasetVersion)
    assert isinstance(advance(store, write), HeadMoved)


def test_a_compaction_that_loses_to_a_write_is_told(store: Store, rows) -> None:
    """It may leave a reserved version above the write: HEAD is not where anyone expects it."""
    at = fragmented(store, rows)
    compaction = rows.compact(at)
    written = advance(store, rows.rewrite(at, a=10))
    lost = advance(store, compaction)
    assert isinstance(lost, HeadMoved)
    assert lost.head >= written.version
    head = int(store.open_head(at.location, None).version)
    assert rows.read(DatasetVersion(at.location, None, head))["a"] == 10


def test_compaction_of_a_branch_with_inherited_indexes_stays_readable(graph: Graph) -> None:
    """Lance 14 looks for the carried-over index below the original: found by the state machine."""
    graph.apply({"Person": {"insert": [{"name": f"p{n}"} for n in range(4)]}})
    graph.optimize()
    graph.branches.create("review")
    graph.apply({"Person": {"delete": ["p0"]}}, "review")
    graph.apply({"Person": {"insert": [{"name": "new"}]}}, "review")
    assert graph.optimize("review") == []
    found = graph.read("Person", "review", ids=["p0", "p1", "new"])
    assert sorted(found.column("id").to_pylist()) == ["new", "p1"]
    graph.apply({"Person": {"delete": ["p1"]}}, "review")
    assert graph.optimize("review") == []
    assert graph.read("Person", "review", ids=["p1", "p2"]).num_rows == 1
    pin = graph.snapshot("review").tables[node_table("Person")]
    indexes = graph.engine.store.open(pin.at).describe_indices()
    rows = {i.name: i.num_rows_indexed for i in indexes}
    assert rows["id_idx"] == pin.row_count, "the branch has indexes of its own now"
    assert_at_rest(graph)
