from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from lance import LanceOperation, Transaction
from lance.optimize import RewriteResult

from omnigraph import init
from omnigraph.errors import StorageFailure
from omnigraph.graph.handle import Graph
from omnigraph.lance_store.advance import HeadMoved, advance
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.staging.compaction import plan_compaction, run_compaction
from omnigraph.lance_store.staging.stage import StagedWrite
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.values.identifiers import node_table
from omnigraph.values.indexes import IndexKind, IndexSpec
from omnigraph_testing.graph_helpers import staged_indexes
from omnigraph_testing.invariants import assert_at_rest

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
    assert len(rows.read(at)) == 301


def test_compacted_rows_are_as_old_as_the_oldest_of_them(store: Store, rows) -> None:
    """An index that is younger than a row may have an entry of it."""

    def created(at: DatasetVersion) -> dict[str, int]:
        return rows.read(at, ("id", "_row_created_at_version"))

    at = advance(store, rows.append(rows.create(a=1), b=1))
    at = advance(store, staged_indexes(store, at, ID_INDEX))
    for name in "cd":
        at = advance(store, rows.append(at, **{name: 1}))
    before = created(at)
    assert before["a"] < before["b"] < before["c"] < before["d"]
    at = advance(store, rows.compact(at))
    assert created(at) == dict.fromkeys("ab", before["a"]) | dict.fromkeys("cd", before["c"])


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


def test_compaction_of_a_branch_whose_text_index_came_in_pieces(tmp_path: Path) -> None:
    """Rewriting both pieces at once, with their indexes in place, made Lance panic."""
    graph = init(str(tmp_path / "g"), "node D { name: String @key  t: String @index }")
    for first in (0, 30):
        for start in range(first, first + 30, 10):
            words = [{"name": f"d{i}", "t": f"word{i} all"} for i in range(start, start + 10)]
            graph.apply({"D": {"insert": words}})
        graph.ensure_indices()
    graph.branches.create("review")
    gone = [f"d{i}" for i in range(0, 60, 3)]
    graph.apply({"D": {"delete": gone, "insert": [{"name": "new", "t": "word3 all"}]}}, "review")
    assert graph.optimize("review") == []

    def found(word: str, branch: str) -> list[str]:
        text = "query q($w: String) { match { $d: D search($d.t, $w) } return { $d.name } }"
        rows = graph.query(text, params={"w": word}, branch=branch).to_pylist()
        return sorted(row["d.name"] for row in rows)

    assert (found("word3", "review"), found("word4", "review")) == (["new"], ["d4"])
    assert len(found("all", "review")) == 41
    assert (found("word3", "main"), len(found("all", "main"))) == (["d3"], 60)
    assert_at_rest(graph)


def test_a_panic_of_lance_is_an_error_that_says_so(tmp_path: Path) -> None:
    """pyo3's panics are no exceptions: nobody would catch them."""
    graph = init(str(tmp_path / "g"), "node D { name: String @key  t: String @index }")
    for first in ("a", "b"):
        for number in range(2):
            graph.apply({"D": {"insert": [{"name": f"{first}{number}", "t": "x"}]}})
        graph.ensure_indices()
    store, at = graph.engine.store, graph.snapshot().pin(node_table("D")).at
    done = [run_compaction(store, at, task) for task in plan_compaction(store, at)]
    parts = [RewriteResult.from_json(result) for result in done]
    groups = [LanceOperation.RewriteGroup(p.original_fragments, p.new_fragments) for p in parts]
    assert len(groups) == 2
    transaction = Transaction(at.version, LanceOperation.Rewrite(groups, []))
    with pytest.raises(StorageFailure, match=r"while committing .*: not implemented"):
        advance(store, StagedWrite(at, transaction, transaction.uuid, 4))
    assert int(store.open_head(at.location, at.branch).version) == at.version
