"""Many agents at once, agents whose server dies, and agents that give up."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

import omnigraph
from omnigraph_testing.http_server import ProcessServer, ThreadServer, client_of
from omnigraph_testing.invariants import assert_at_rest

HEADERS = {"Accept": "application/json, text/event-stream"}
AGENTS = 16
ADD = "query add($name: String) { insert Person { name: $name } }"
MEET = "query meet($a: String, $b: String) { insert Knows { from: $a, to: $b } }"


def agent_of(url: str) -> httpx.Client:
    client = client_of(f"{url}/graphs/people")
    client.headers.update(HEADERS)
    return client


def call(client: httpx.Client, name: str, /, **arguments: Any) -> Any:
    params = {"name": name, "arguments": arguments}
    sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return client.post("/mcp", json=sent).json()["result"]


def body(client: httpx.Client, name: str, /, **arguments: Any) -> Any:
    answer = call(client, name, **arguments)
    assert not answer["isError"], answer["content"][0]["text"]
    return answer["structuredContent"]


def test_sixteen_agents_and_one_reviewer_lose_nothing(made: Callable[[], str]) -> None:
    uri = made()
    with ThreadServer({"people": uri}) as server:

        def work(number: int) -> str:
            with agent_of(server.url) as agent:
                key = f"agent-{number}"
                title = f"Task {number}"
                branch = str(body(agent, "begin_task", title=title, idempotency_key=key)["branch"])
                mine = f"new-{number}"
                add = {"query": ADD, "params": {"name": mine}, "branch": branch}
                body(agent, "graph_mutate", **add, idempotency_key=f"{key}-add")
                meet = {"query": MEET, "params": {"a": "Ada", "b": mine}, "branch": branch}
                body(agent, "graph_mutate", **meet, idempotency_key=f"{key}-meet")
                body(agent, "graph_mutate", **add, idempotency_key=f"{key}-add")  # a repeat
                assert len(body(agent, "finish_task", branch=branch)["commits"]) == 2
                return branch

        with ThreadPoolExecutor(AGENTS) as fleet:
            branches = list(fleet.map(work, range(AGENTS)))
        with agent_of(server.url) as reviewer:
            for branch in branches:
                merged = body(reviewer, "finish_task", branch=branch, merge=True)["merge"]
                assert merged["outcome"] in ("fast_forward", "merged")
                body(reviewer, "branch_delete", name=branch)
            met = 'match { $p: Person { name: "Ada" }  $p knows $f } return { $f.name as f }'
            names = {row["f"] for row in body(reviewer, "graph_query", query=met)["rows"]}
    assert names == {"Bob", *(f"new-{n}" for n in range(AGENTS))}
    with omnigraph.open(uri) as graph:
        assert graph.read("Person").num_rows == 3 + AGENTS
        assert_at_rest(graph)


@pytest.mark.crash
@pytest.mark.parametrize(
    "point",
    [
        "commit.after_publish",
        pytest.param("commit.after_advance", marks=pytest.mark.slow),
        pytest.param("commit.before_arm", marks=pytest.mark.slow),
    ],
)
def test_a_killed_call_leaves_its_commit_or_nothing(made: Callable[[], str], point: str) -> None:
    uri = made()
    change = {"query": ADD, "params": {"name": "Eve"}, "idempotency_key": "eve"}
    environment = {"OMNIGRAPH_FAILPOINTS": f"{point}=kill"}
    words = (f"people={uri}", "--unauthenticated")
    with (
        ProcessServer(*words, environment=environment) as server,
        agent_of(server.url) as agent,
        pytest.raises(httpx.TransportError),
    ):
        call(agent, "graph_mutate", **change)
    with omnigraph.open(uri) as graph:
        left = graph.read("Person").num_rows
        assert left in (3, 4)
    with ThreadServer({"people": uri}) as server, agent_of(server.url) as agent:
        first = body(agent, "graph_mutate", **change)
        again = body(agent, "graph_mutate", **change)
        assert first["repeated"] is (left == 4)
        assert again["commit"]["graph_commit_id"] == first["commit"]["graph_commit_id"]
        (commit,) = agent.get("/commits", params={"idempotency_key": "eve"}).json()["commits"]
        assert commit["graph_commit_id"] == first["commit"]["graph_commit_id"]
    with omnigraph.open(uri) as graph:
        assert graph.read("Person").num_rows == 4


def desk(*words: str) -> StdioServerParameters:
    args = ["-m", "omnigraph.cli", "mcp", "--quiet", *words]
    return StdioServerParameters(command=sys.executable, args=args, env=dict(os.environ))


def test_on_the_desk(made: Callable[[], str], queries: Path) -> None:
    """One process over stdio: both revisions, cancellation, a default branch, and the actor."""
    uri = made()
    with omnigraph.open(uri) as graph:
        graph.branches.create("desk")
    far = (
        "match { " + " ".join(f"$p{n}: Person" for n in range(16)) + " } return { count($p0) as n }"
    )

    async def talk() -> None:
        words = ("--store", uri, "--queries", str(queries), "--branch", "desk", "--as", "dora")
        async with Client(desk(*words), mode="legacy") as client:
            assert "friends_of" in {tool.name for tool in (await client.list_tools()).tools}
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await client.call_tool("graph_query", {"query": far})
            called = await client.call_tool("friends_of", {"name": "Ada"})
            assert called.structured_content["target"] == {"branch": "desk"}
            made = await client.call_tool("birthday", {"name": "Ada", "age": "40"})
            assert made.structured_content["actor_id"] == "dora"
            wrong = await client.call_tool("graph_query", {"query": 5})
            assert wrong.is_error
            assert "5 is not a string" in wrong.content[0].text
            large = await client.call_tool("graph_load", {"data": _lines(3000)})
            assert large.structured_content["total_entities"] == 3000

    asyncio.run(talk())
    with omnigraph.open(uri) as graph:
        assert graph.read("Person", "desk").num_rows == 3003
        assert graph.read("Person").num_rows == 3
        assert_at_rest(graph)


def _lines(count: int) -> str:
    rows = ({"type": "Person", "data": {"name": f"p{n}"}} for n in range(count))
    return "\n".join(json.dumps(row) for row in rows)


@pytest.mark.slow
def test_the_desk_of_a_server(made: Callable[[], str], queries: Path) -> None:
    """`mcp --server`: the tools of a graph on a server; a handle that only reads has no others."""
    told = (("people", str(queries)),)
    with ThreadServer({"people": made()}, queries=told) as server:

        async def talk() -> None:
            words = ("--server", server.url, "--graph", "people", "--read-only")
            async with Client(desk(*words)) as client:
                tools = {tool.name for tool in (await client.list_tools()).tools}
                assert {"friends_of", "graph_query"} <= tools
                assert not {"graph_mutate", "birthday"} & tools
                called = await client.call_tool("friends_of", {"name": "Ada"})
                assert called.structured_content["rows"] == [{"friend": "Bob"}]
                grown = await client.call_tool("birthday", {"name": "Ada", "age": "40"})
                assert grown.is_error

        asyncio.run(talk())
