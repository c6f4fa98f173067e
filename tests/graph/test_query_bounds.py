"""Cancel, time, memory and large answers: a query never takes more than it may."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.errors import OmnigraphError, ResourceLimit
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.settings.models import ReadSettings, Settings

PEOPLE = 400
PAIRS = "query q() { match { $a: Person $b: Person } return { $a.name as a, $b.name as b } }"
TRAILS = (
    'query q() { match { $p: Person { name: "n0000" } $t = $p knows{1,30} $f } '
    "return { count($f) as n } }"
)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Everybody knows twelve others: paths explode, products do too."""
    graph = init(
        tmp_path_factory.mktemp("crowd") / "g.omni",
        "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person",
    )
    names = [f"n{i:04}" for i in range(PEOPLE)]
    ends = [(i, (i * 7 + step) % PEOPLE) for i in range(PEOPLE) for step in range(12)]
    graph.apply(
        {
            "Person": {"insert": [{"name": n, "age": i} for i, n in enumerate(names)]},
            "Knows": {
                "insert": [
                    {"id": f"k{k:05}", "from": names[a], "to": names[b]}
                    for k, (a, b) in enumerate(ends)
                ]
            },
        }
    )
    return graph


def tight(graph: Graph, memory_bytes: int) -> Graph:
    settings = Settings(read=ReadSettings(memory_bytes=memory_bytes))
    return open_graph(graph.uri, read_only=True, settings=settings)


def test_a_query_called_off_before_it_starts(crowd: Graph) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(ResourceLimit, match="cancelled") as stopped:
        crowd.query(PAIRS, cancel=cancel)
    assert stopped.value.limit == "cancelled"


def test_a_running_query_is_called_off_from_another_thread(crowd: Graph) -> None:
    """Twelve ways at each of thirty hops: without the cancel this would not end."""
    cancel = threading.Event()
    threading.Timer(0.2, cancel.set).start()
    with pytest.raises(ResourceLimit) as stopped:
        crowd.query(TRAILS, cancel=cancel)
    assert stopped.value.limit == "cancelled"


def test_a_running_query_stops_at_its_deadline(crowd: Graph) -> None:
    with pytest.raises(ResourceLimit) as late:
        crowd.query(TRAILS, timeout=0.2)
    assert late.value.limit == "timeout"


@pytest.mark.parametrize(
    "text",
    [
        PAIRS,
        "query q() { match { $p: Person $p knows $f $f knows $g $g knows $h } "
        "return { $p.name, $h.name } }",
        "query q() { match { $p: Person $p knows{1,6} $f } return { $p.name, $f.name } }",
        TRAILS,
    ],
    ids=["product", "hops", "reach", "trails"],
)
def test_rows_that_do_not_fit_are_refused_before_they_are_made(crowd: Graph, text: str) -> None:
    with pytest.raises(ResourceLimit, match="budget") as refused:
        tight(crowd, 200_000).query(text)
    assert refused.value.limit == "memory"


def test_more_rows_than_a_number_can_count_are_refused(crowd: Graph) -> None:
    """Counted without being made: twelve to the power of the hops, from everybody."""

    def counted(hops: int) -> int:
        ways = " ".join(f"$p knows $f{n}" for n in range(hops))
        text = f"query q() {{ match {{ $p: Person {ways} }} return {{ count($p) as n }} }}"
        return int(crowd.query(text).to_pylist()[0]["n"])

    assert counted(14) == PEOPLE * 12**14
    with pytest.raises(ResourceLimit, match="64-bit") as refused:
        counted(17)
    assert refused.value.limit == "rows"


@pytest.mark.parametrize("path", ["", "$t = "], ids=["nodes", "paths"])
def test_an_open_range_ends_somewhere(tmp_path: Path, path: str) -> None:
    graph = init(tmp_path / "g", "node P { name: String @key }\nedge Knows: P -> P")
    names = [f"p{i:04}" for i in range(1100)]
    pairs = [{"from": a, "to": b} for a, b in pairwise(names)]
    graph.apply({"P": {"insert": [{"name": n} for n in names]}, "Knows": {"insert": pairs}})
    text = f'query q() {{ match {{ $p: P {{ name: "p0000" }} {path}$p knows{{1,}} $f }} '
    with pytest.raises(ResourceLimit, match="1000 hops; give it an upper bound") as refused:
        graph.query(text + "return { count($f) as n } }")
    assert refused.value.limit == "hops"


def test_a_large_answer_is_read_in_parts(crowd: Graph) -> None:
    result = crowd.query(PAIRS)
    assert (result.row_count, result.columns) == (PEOPLE**2, ["a", "b"])
    before = pa.total_allocated_bytes()
    most, seen = 0, 0
    parts = []
    for batch in result.batches(4096):
        most = max(most, pa.total_allocated_bytes() - before)
        seen += batch.num_rows
        parts.append(batch.slice(0, 1).to_pylist()[0])
        del batch
    table = result.to_arrow()
    assert seen == PEOPLE**2
    assert most < table.nbytes / 5, "more than a few batches were in memory at once"
    assert parts == [table.slice(i, 1).to_pylist()[0] for i in range(0, seen, 4096)]
    assert table.equals(pa.Table.from_batches(result.batches()).cast(table.schema))


def test_a_large_answer_keeps_its_order_and_can_be_called_off(crowd: Graph) -> None:
    cancel = threading.Event()
    result = crowd.query(PAIRS, cancel=cancel)
    rows = result.to_arrow()
    order = np.lexsort((rows["b"].to_numpy(), rows["a"].to_numpy()))
    assert np.array_equal(order, np.arange(len(order)))
    batches = crowd.query(PAIRS, cancel=cancel).batches(1000)
    next(batches)
    cancel.set()
    with pytest.raises(ResourceLimit):
        next(batches)


def test_readers_keep_their_snapshot_while_others_write_and_optimize(tmp_path: Path) -> None:
    """The commit of the answer decides its rows, whatever happens meanwhile."""
    graph = init(tmp_path / "g.omni", "node Item { name: String @key  batch: I64 }")
    graph.apply({"Item": {"insert": [{"name": "i0", "batch": 0}]}})
    stop, wrong = threading.Event(), list[object]()

    def read() -> None:
        text = "query q() { match { $i: Item } return { $i.name, $i.batch } }"
        try:
            while not stop.is_set():
                at = graph.query(text)
                again = graph.query(text, at=at.graph_commit_id).to_pylist()
                batches = {row["i.batch"] for row in at.to_pylist()}
                if at.to_pylist() != again or len(batches) != 1:
                    wrong.append(at.to_pylist())
        except OmnigraphError as error:
            wrong.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for batch in range(1, 16):
        rows = [{"name": f"i{n}", "batch": batch} for n in range(batch + 1)]
        graph.apply({"Item": {"upsert": rows}})
        if batch % 4 == 0:
            graph.optimize()
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
