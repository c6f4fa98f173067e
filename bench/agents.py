"""Tools of agents against the HTTP routes that do the same, in CPU time of the server."""

from __future__ import annotations

import http.client
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.harness import Figure, report
from bench.server import ADD, HOP, cpu_of, make, served

PEOPLE = {"small": 20_000, "full": 500_000}
CALLS = {"small": 600, "full": 3000}
WRITES = {"small": 60, "full": 300}
STORED = 200
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
}
Request = tuple[str, dict[str, Any]]


def run(scale: str) -> None:
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        uri, queries = str(Path(folder) / "people.omni"), Path(folder) / "queries"
        queries.mkdir()
        (queries / "few.gq").write_text(HOP)
        make(uri, PEOPLE[scale]).close()
        figures = [*calls(uri, queries, CALLS[scale], WRITES[scale])]
        (queries / "many.gq").write_text("\n".join(_stored(n) for n in range(STORED - 1)))
        figures.append(listing(uri, queries, CALLS[scale] // 4))
    report("agents", figures, [f"scale {scale}", "one client, CPU of the server process"])


def _stored(number: int) -> str:
    told = f'@description("Query number {number}, with a description of usual length.")'
    return HOP.replace("query hop(", f"query q{number}(").replace(") {", f") {told} {{", 1)


def calls(uri: str, queries: Path, count: int, writes: int) -> Iterator[Figure]:
    with served(uri, "--queries", str(queries)) as server:

        def cpu(make_request: Callable[[int], Request], times: int) -> float:
            """Microseconds of one request, after some that warm up."""
            ask(server.url, make_request, 0, times // 3)
            before = cpu_of(server)
            ask(server.url, make_request, times // 3, times // 3 + times)
            return (cpu_of(server) - before) / times * 1e6

        def person(number: int) -> dict[str, Any]:
            return {"name": f"p{number}"}

        query = cpu(lambda n: ("/query", {"query": HOP, "params": person(n)}), count)
        by_tool = cpu(
            lambda n: tool("graph_query", {"query": HOP, "params": person(n + count * 2)}), count
        )
        stored = cpu(lambda n: ("/queries/hop", {"params": person(n + count * 4)}), count)
        as_tool = cpu(lambda n: tool("hop", person(n + count * 6)), count)
        mutate = cpu(lambda n: ("/mutate", {"query": ADD, "params": {"name": f"http{n}"}}), writes)
        changed = cpu(
            lambda n: tool("graph_mutate", {"query": ADD, "params": {"name": f"tool{n}"}}), writes
        )
    for name, ours, route in (
        ("a query", by_tool, query),
        ("a stored query", as_tool, stored),
        ("a mutation", changed, mutate),
    ):
        yield Figure(
            f"CPU of {name} as a tool", ours, route, "us", "<= 2", against="our own HTTP route"
        )


def listing(uri: str, queries: Path, count: int) -> Figure:
    with served(uri, "--queries", str(queries)) as server:

        def cpu(make_request: Callable[[int], Request]) -> float:
            ask(server.url, make_request, 0, 20)
            before = cpu_of(server)
            ask(server.url, make_request, 0, count)
            return (cpu_of(server) - before) / count * 1e3

        sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        tools = cpu(lambda _: ("/mcp", sent))
        floor = cpu(lambda _: ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}))
    return Figure(
        f"CPU of a list of tools, {STORED} stored queries", tools, floor, "ms", "< 5 ms",
        against="our own ping through the SDK",
    )  # fmt: skip


def tool(name: str, arguments: dict[str, Any]) -> Request:
    params = {"name": name, "arguments": arguments}
    return "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def ask(url: str, make_request: Callable[[int], Request], start: int, end: int) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    for number in range(start, end):
        path, body = make_request(number)
        connection.request("POST", f"/graphs/default{path}", json.dumps(body), HEADERS)
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        assert b'"isError":true' not in content, content
    connection.close()
