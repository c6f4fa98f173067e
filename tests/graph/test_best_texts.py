"""A ranking of texts with a limit: the first rows of the whole ranking, with many equal scores."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init

SCHEMA = "node Doc { name: String @key\n part: I64\n body: String? @index }"
WORDS = ("rare", "often", "often", "often", "x", "y")


def docs(chance: random.Random, count: int) -> pa.Table:
    names = [f"d{n:06}" for n in chance.sample(range(10**6), count)]
    texts = [" ".join(chance.choices(WORDS, k=3)) if chance.random() < 0.9 else None for _ in names]
    parts = [chance.randrange(3) for _ in names]
    return pa.table({"name": names, "part": pa.array(parts, pa.int64()), "body": texts})


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return init(tmp_path / "g", SCHEMA)


def ranking(graph: Graph, query: str, where: str, limit: int | None) -> list[dict[str, Any]]:
    text = (
        f"query q($q: String) {{ match {{ $d: Doc {where} }} "
        "return { $d.name as name, bm25($d.body, $q) as score } "
        f"order {{ bm25($d.body, $q) desc }} {'' if limit is None else f'limit {limit}'} }}"
    )
    found: list[dict[str, Any]] = graph.query(text, params={"q": query}).to_pylist()
    return found


def check(graph: Graph) -> None:
    for where in ("", "$d.part = 1", '$d.name in ["d000001", "d500000"]'):
        for query in ("rare", "often y", "x y rare often", "unknown"):
            whole = ranking(graph, query, where, None)
            assert whole == sorted(whole, key=lambda row: (-row["score"], row["name"]))
            # The first search of a version names rows by their ids, the later ones by numbers.
            for limit in (0, 1, 7, 100, 1000, 5000):
                assert ranking(graph, query, where, limit) == whole[:limit], (where, query, limit)


def test_a_limit_keeps_the_first_rows_of_the_whole_ranking(graph: Graph) -> None:
    chance = random.Random(11)
    rows = docs(chance, 3000)
    graph.apply({"Doc": {"insert": rows}})
    graph.ensure_indices()
    check(graph)
    names = rows.column("name").to_pylist()
    graph.apply({"Doc": {"delete": names[:500]}})
    moved = rows.slice(500, 700)
    moved = moved.set_column(2, "body", moved.column("body").take(pa.array(range(699, -1, -1))))
    graph.apply({"Doc": {"upsert": moved}})
    check(graph)
    graph.ensure_indices()
    graph.optimize()
    check(graph)
