"""Counting in workers: hashes that stand for ids, products of degrees, the best rows of a task."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph import init
from omnigraph.errors import InvalidArgument
from omnigraph.graph.handle import Graph
from omnigraph.spark.query import edge_counts, hashed_keys
from omnigraph.spark.query.best_rows import BestRows
from omnigraph.spark.query.edge_counts import count_parts, unmatched_parts
from omnigraph.writes.shape import Edit

Pair = tuple[int, int]
PAIRS = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), max_size=30)


def counted(hops: list[list[Pair]], parts: int) -> dict[int, int]:
    """What the tasks of one job find, for edges that a first task has read."""
    split = []
    for number, pairs in enumerate(hops):
        ends = np.array(pairs, np.int64).reshape(-1, 2) << 61  # parts are cut by the first bits
        columns = [np.ascontiguousarray(ends[:, 0]), np.ascontiguousarray(ends[:, 1])]
        split.append(edge_counts._split(number, columns, parts))
    found = {}
    for part in range(parts):
        rows = [batch.slice(part, 1) for batch in split]
        for batch in count_parts(len(hops), "node", "n")(iter(rows)):
            for row in batch.to_pylist():
                found[row["node"] >> 61] = row["n"]
    return found


@given(hops=st.lists(PAIRS, min_size=1, max_size=3), parts=st.integers(1, 7))
def test_counts_are_those_of_distinct_pairs(hops: list[list[Pair]], parts: int) -> None:
    degrees = [Counter(start for start, _ in set(pairs)) for pairs in hops]
    expected = {}
    for node in set.intersection(*(set(each) for each in degrees)):
        product = 1
        for each in degrees:
            product *= each[node]
        expected[node] = product
    assert counted(hops, parts) == expected


NODES = st.lists(st.integers(-4, 3), max_size=12)


@given(
    nodes=NODES.map(lambda found: list(dict.fromkeys(found))), starts=NODES, parts=st.integers(1, 7)
)
def test_nodes_without_edges_are_those_that_no_edge_starts_from(
    nodes: list[int], starts: list[int], parts: int
) -> None:
    # Parts are cut by the first bits.
    read = [[np.array(each, np.int64) << 61] for each in (nodes, starts)]
    split = [edge_counts._split(number, each, parts) for number, each in enumerate(read)]
    found = [
        row["node"] >> 61
        for part in range(parts)
        for batch in unmatched_parts("node")(batch.slice(part, 1) for batch in split)
        for row in batch.to_pylist()
    ]
    assert sorted(found) == sorted(set(nodes) - set(starts))


def test_a_product_that_does_not_fit_is_an_error() -> None:
    many = (np.array([1]), np.array([2**40]))
    with pytest.raises(InvalidArgument, match="out of range"):
        edge_counts._product(many, many)


@given(
    values=st.lists(st.lists(st.none() | st.integers(0, 5), max_size=8), max_size=6),
    count=st.integers(1, 6),
    descending=st.booleans(),
    last=st.booleans(),
)
def test_the_best_rows_hold_the_first_of_every_order(
    values: list[list[int | None]], count: int, descending: bool, last: bool
) -> None:
    nulls_last = descending or last
    best = BestRows("v0_id", "n", count, descending, nulls_last)
    tables = [pa.table({"n": pa.array(part, pa.int64())}) for part in values]

    def rank(value: int | None) -> tuple[int, int]:
        if value is None:
            return (1 if nulls_last else -1, 0)
        return (0, -value if descending else value)

    kept = [n for table in best.among(tables) for n in table["n"].to_pylist()]
    every = [n for part in values for n in part]
    first = sorted(map(rank, every))[:count]
    assert sorted(map(rank, kept))[:count] == first
    if first and first[-1][0] == 0:
        # Ties of the last one are settled by other columns, so all of them are kept.
        assert sum(rank(n) == first[-1] for n in kept) == sum(rank(n) == first[-1] for n in every)


def collide(columns: Any) -> np.ndarray[Any, Any]:
    return np.full(len(columns[0]), 7, np.uint64)


def people(path: Path) -> Graph:
    graph = init(path / "people.omni", "node Person { name: String @key }")
    graph.apply({"Person": Edit(insert=[{"name": "a"}, {"name": "b"}])})
    return graph


def tell_apart(graph: Graph) -> bool:
    snapshot = graph.snapshot()
    return hashed_keys.hashes_tell_apart(graph.engine.store, snapshot.tables.values(), None)


def test_ids_with_one_hash_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = people(tmp_path)
    assert tell_apart(graph)
    monkeypatch.setattr("omnigraph.load.proofs.row_hashes", collide)
    assert tell_apart(graph), "one version is compared once"
    graph.apply({"Person": Edit(insert=[{"name": "c"}])})
    assert not tell_apart(graph)


def test_ids_that_are_too_long_are_not_hashed(tmp_path: Path) -> None:
    graph = people(tmp_path)
    graph.apply({"Person": Edit(insert=[{"name": "x" * 300}])})
    assert not tell_apart(graph)
