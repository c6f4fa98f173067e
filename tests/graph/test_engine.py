"""Parts of an engine: made on demand, once, by whoever comes first."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import omnigraph
from omnigraph.graph.engine import built_once


class Whole:
    def __init__(self) -> None:
        self.made: list[str] = []

    @built_once
    def inner(self) -> object:
        time.sleep(0.01)
        self.made.append("inner")
        return object()

    @built_once
    def outer(self) -> tuple[object]:
        self.made.append("outer")
        return (self.inner,)


def test_one_part_for_all_threads() -> None:
    whole, together = Whole(), Barrier(8)

    def ask(_: int) -> object:
        together.wait()
        return whole.outer

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert all(part is found[0] for part in found)
    assert whole.made == ["outer", "inner"]
    assert Whole().outer is not found[0]


def test_threads_that_open_with_different_first_calls(tmp_path) -> None:
    uri = tmp_path / "g.omni"
    omnigraph.init(uri, "node P { name: String @key }")
    for _ in range(3):
        graph, together = omnigraph.open(uri), Barrier(6)

        def first(n: int, graph=graph, together=together) -> int:
            together.wait()
            if n % 3 == 0:
                graph.apply({"P": {"upsert": [{"name": f"p{n}"}]}})
            if n % 3 == 1:
                graph.mutate(f'query q() {{ insert P {{ name: "p{n}" }} }}')
            return graph.query("query q() { match { $p: P } return { $p.name } }").row_count

        with ThreadPoolExecutor(6) as pool:
            assert max(pool.map(first, range(6))) <= 4
        assert graph.read("P").num_rows == 4
