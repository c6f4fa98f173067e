"""`omnigraph.aio`: the same suite and the same errors, on a store and on a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph import aio
from omnigraph.remote import streamed_rows
from omnigraph_testing.graph_suite import LINES, NAMES, SCHEMA
from omnigraph_testing.http_server import ThreadServer

Work = Callable[[aio.AsyncGraph], Coroutine[Any, Any, Any]]
Run = Callable[[Work], Any]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("aio")
    for name in ("store", "served"):
        with omnigraph.init(folder / name, SCHEMA) as graph:
            graph.load([json.loads(line) for line in LINES.splitlines()])
    with ThreadServer({"people": str(folder / "served")}) as server:
        yield {"store": str(folder / "store"), "server": f"{server.url}/graphs/people"}


@pytest.fixture(params=["store", "server"])
def run(places: dict[str, str], request: pytest.FixtureRequest) -> Run:
    async def opened(work: Work) -> Any:
        async with await aio.open(places[request.param]) as graph:
            return await work(graph)

    return lambda work: asyncio.run(opened(work))


def test_reads_and_writes_side_by_side(run: Run, tmp_path: Path) -> None:
    async def work(graph: aio.AsyncGraph) -> None:
        await graph.branches.create("a")
        names, commits, plan = await asyncio.gather(
            graph.query(NAMES), graph.commits.list(limit=1), graph.explain(NAMES)
        )
        assert [row["name"] for row in names] == ["Ada", "Bob", "Cleo"]
        assert (len(commits), plan.query_name) == (1, names.query_name)
        written = [graph.mutate(f'insert Person {{ name: "P{n}" }}', branch="a") for n in range(4)]
        assert [receipt.affected_nodes for receipt in await asyncio.gather(*written)] == [1] * 4
        loaded = await graph.load([{"name": "L"}], branch="a", type="Person")
        assert loaded.total_entities == 1
        page = await graph.diff("main", "a", limit=2)
        assert (len(page), page.next_cursor is None) == (2, False)
        receipt = await graph.export(tmp_path / "out.ndjson", "a")
        assert receipt.total_entities == 11
        assert (tmp_path / "out.ndjson").read_text().count("\n") == 11
        assert (await graph.export(tmp_path / "csv", "a", format="csv")).total_entities == 11
        merged = await graph.merge("a", delete_branch=True)
        assert merged.to_dict()["outcome"] == "fast_forward"
        blob = await graph.blob("node", "Person", "Cleo", "photo")
        assert (blob.size, await blob.read(1, 2)) == (5, b"\x01\x02")
        counts = [batch.num_rows async for batch in graph.batches(NAMES, rows=5)]
        assert counts == [5, 3]

    run(work)


def test_errors_are_the_same(run: Run) -> None:
    async def work(graph: aio.AsyncGraph) -> None:
        with pytest.raises(omnigraph.TypeCheckError) as wrong:
            await graph.query("match { $p: Persn } return { $p.name }")
        assert wrong.value.diagnostics[0]["help"] == "did you mean 'Person'?"
        with pytest.raises(omnigraph.KeyConflict) as there:
            await graph.apply({"Person": {"insert": [{"name": "Ada"}]}})
        assert there.value.ids == ["Ada"]
        with pytest.raises(omnigraph.NotFound):
            await graph.branches.show("nowhere")
        await graph.close()
        await graph.close()
        for call in (graph.branches.list(), graph.blob("node", "Person", "Cleo", "photo")):
            with pytest.raises(omnigraph.GraphClosed):
                await call

    run(work)


def test_reading_only(places: dict[str, str]) -> None:
    async def work(place: str) -> None:
        async with await aio.open(place, read_only=True) as graph:
            assert await graph.query(NAMES)
            with pytest.raises(omnigraph.ReadOnlyGraph):
                await graph.mutate('insert Person { name: "X" }')

    for place in places.values():
        asyncio.run(work(place))


def test_a_cancelled_task_lets_others_go_on(run: Run) -> None:
    async def work(graph: aio.AsyncGraph) -> None:
        task = asyncio.create_task(graph.query(NAMES))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(await graph.query(NAMES)) >= 3

    run(work)


def test_opening_says_what_is_wrong(places: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(omnigraph.NotFound):
        asyncio.run(aio.open(places["server"].replace("people", "nowhere")))
    with pytest.raises(omnigraph.NotFound):
        asyncio.run(aio.open(tmp_path / "nowhere.omni"))
    with pytest.raises(omnigraph.ServerUnavailable):
        asyncio.run(aio.open("http://127.0.0.1:9/graphs/people"))
    with pytest.raises(omnigraph.InvalidArgument):
        asyncio.run(aio.open(places["store"], threads=0))


def test_large_answers_are_read_as_they_are_asked_for(
    places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second pass asks again for the same commit, also after another commit."""
    monkeypatch.setattr(streamed_rows, "KEPT_BYTES", 1000)
    with omnigraph.open(places["server"]) as graph:
        graph.branches.create("large")
        graph.load([{"name": f"n{n:05}"} for n in range(20_000)], branch="large", type="Company")
        text = "match { $c: Company } return { $c.name as name } order { $c.name asc }"
        found = graph.query(text, branch="large")
        assert isinstance(found.rows, streamed_rows.StreamedRows)
        assert (len(found), found.columns) == (20_001, ["name"])
        first = [batch.num_rows for batch in found.batches(7000)]
        assert first == [7000, 7000, 6001]
        graph.mutate('delete Company where name = "n00001"', branch="large")
        assert found[2] == {"name": "n00001"}
        assert found[19_999:] == [{"name": "n19998"}, {"name": "n19999"}]
        assert found.to_arrow().num_rows == 20_001
        assert len(graph.query(text, branch="large")) == 20_000


def test_half_of_a_surrogate_pair_is_refused(run: Run) -> None:
    """It cannot be sent, so that a server says nothing about it."""

    async def load(graph: aio.AsyncGraph) -> None:
        with pytest.raises((omnigraph.InvalidArgument, omnigraph.ValidationFailed), match="half"):
            await graph.load([{"name": "\ud800"}], type="Person")

    async def mutate(graph: aio.AsyncGraph) -> None:
        text = "query q($n: String) { insert Person { name: $n } }"
        with pytest.raises((omnigraph.InvalidArgument, omnigraph.ValidationFailed)):
            await graph.mutate(text, params={"n": "\ud800"})

    run(load)
    run(mutate)
