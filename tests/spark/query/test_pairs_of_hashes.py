"""Two nodes that an edge must connect are found by one number, and compared by both of theirs."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph import Edit, init
from omnigraph.spark.query import expand
from omnigraph.spark.query.edge_pairs import End, Pairs
from omnigraph.spark.query.rows import EntityColumns

pytestmark = [pytest.mark.xdist_group("spark_reads"), pytest.mark.timeout(900)]

FIRST_BIT = -(2**63)
SCHEMA = """
node Person { name: String @key }
node Firm { name: String @key }
edge Knows: Person -> Person
edge WorksAt: Person -> Firm
"""
TRIANGLES = [
    "$p: Person $p knows $f $p worksAt $c $f worksAt $c",
    "$p: Person $p knows $f $f knows $g $g knows $p",
]


def test_pairs_with_one_mixed_number_are_told_apart(spark: Any) -> None:
    """The mixed number leaves out the first bit of the end, so (1, 0) and (1, first) share it."""
    nodes = [(1, 0), (1, FIRST_BIT), (0, 3), (6, 0), (None, 0), (1, None)]
    ends = [(1, 0), (6, 0), (6, 0), (1, 7)]
    rows = spark.createDataFrame(nodes, "a bigint, b bigint")
    start, end = End(("Person",), "s", None), End(("Person",), "e", None)
    pairs = Pairs(spark.createDataFrame(ends, "s bigint, e bigint"), start, end)
    source, target = (EntityColumns(("Person",), name, None, {}) for name in ("a", "b"))
    joined = rows.join(pairs.frame, expand._is_pair(pairs, source, target))
    assert sorted(map(tuple, joined.collect())) == [(1, 0, 1, 0), (6, 0, 6, 0), (6, 0, 6, 0)]


@pytest.mark.usefixtures("many_tasks")
@pytest.mark.parametrize("pattern", TRIANGLES)
def test_triangles_are_those_of_the_local_engine(
    spark: Any, pattern: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = init(tmp_path / "g", SCHEMA)
    names = "abcdef"
    knows = ["ab", "ba", "bc", "ca", "cd", "dd", "de", "ed", "ed"]
    works = ["a1", "b1", "b2", "c2", "d1", "d2", "e2", "e2"]
    graph.apply(
        {
            "Person": Edit(insert=[{"name": name} for name in names]),
            "Firm": Edit(insert=[{"name": name} for name in "12"]),
            "Knows": Edit(insert=[{"from": a, "to": b} for a, b in knows]),
            "WorksAt": Edit(insert=[{"from": a, "to": b} for a, b in works]),
        }
    )
    called = []
    made = expand._is_pair
    monkeypatch.setattr(expand, "_is_pair", lambda *args: called.append(1) or made(*args))
    text = f"query q() {{ match {{ {pattern} }} return {{ count($p) as n }} }}"
    assert graph.query(text, engine="spark").to_pylist() == graph.query(text).to_pylist()
    assert called
