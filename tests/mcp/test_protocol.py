"""The protocol at `/graphs/{id}/mcp`: messages on the wire, and the checks around them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from omnigraph.server.quick_calls import HANDSHAKE_VERSIONS, STATELESS_VERSION
from omnigraph_testing.http_server import ThreadServer, wait_until

HEADERS = {"Accept": "application/json, text/event-stream"}
META = "io.modelcontextprotocol/"
NAMES = "match { $p: Person } return { $p.name as name } order { name }"


@pytest.fixture(scope="module")
def server(made: Callable[[], str], queries: Path) -> Iterator[ThreadServer]:
    with ThreadServer({"people": made()}, queries=(("people", str(queries)),)) as running:
        yield running


@pytest.fixture(scope="module")
def http(server: ThreadServer) -> Iterator[httpx.Client]:
    with agent_client(server) as client:
        yield client


def agent_client(server: ThreadServer, token: str | None = None) -> httpx.Client:
    client = server.graph_client("people", token)
    client.headers.update(HEADERS)
    return client


def message(method: str, params: Any = None, number: Any = 1) -> dict[str, Any]:
    found = {"jsonrpc": "2.0", "id": number, "method": method}
    return found if params is None else {**found, "params": params}


def stateless(method: str, params: dict[str, Any], name: str | None = None) -> dict[str, Any]:
    """The keyword arguments of a request of the revision without a handshake."""
    meta = {
        f"{META}protocolVersion": STATELESS_VERSION,
        f"{META}clientInfo": {"name": "test", "version": "1"},
        f"{META}clientCapabilities": {},
    }
    headers = {"MCP-Protocol-Version": STATELESS_VERSION, "Mcp-Method": method}
    if name is not None:
        headers["Mcp-Name"] = name
    return {"json": message(method, {**params, "_meta": meta}), "headers": headers}


def result(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def test_initialize_and_versions(http: httpx.Client) -> None:
    hello = {"capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    for version in sorted(HANDSHAKE_VERSIONS):
        sent = message("initialize", {**hello, "protocolVersion": version})
        found = result(http.post("/mcp", json=sent))
        assert found["protocolVersion"] == version
        assert found["serverInfo"]["name"] == "omnigraph"
        assert "begin_task" in found["instructions"]
        assert found["capabilities"].keys() == {"tools", "resources"}
    newer = message("initialize", {**hello, "protocolVersion": "1999-01-01"})
    assert result(http.post("/mcp", json=newer))["protocolVersion"] in HANDSHAKE_VERSIONS
    unknown = http.post(
        "/mcp", json=message("tools/list"), headers={"MCP-Protocol-Version": "1999-01-01"}
    )
    assert unknown.status_code == 400
    discovered = result(http.post("/mcp", **stateless("server/discover", {})))
    assert discovered["serverInfo" if "serverInfo" in discovered else "_meta"]


def test_notifications_are_accepted_without_an_answer(http: httpx.Client) -> None:
    for method in ("notifications/initialized", "notifications/cancelled"):
        sent = {"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}}
        answer = http.post("/mcp", json=sent)
        assert (answer.status_code, answer.content) == (202, b"")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (message("no/such/method"), -32601),
        (message("prompts/list"), -32601),
        (message("tools/call", {"arguments": {}}), -32602),
        (message("tools/call", {"name": 5}), -32602),
        (message("resources/read", {"uri": "omnigraph://nothing"}), -32602),
    ],
)
def test_errors_of_the_protocol(http: httpx.Client, sent: Any, code: int) -> None:
    assert http.post("/mcp", json=sent).json()["error"]["code"] == code


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"[1]", b"{}", b"\xff", b""])
def test_rubbish_is_refused(http: httpx.Client, body: bytes) -> None:
    answer = http.post("/mcp", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert http.post("/mcp", json=message("ping")).json()["result"] == {}


def test_only_post(http: httpx.Client) -> None:
    for method in ("GET", "DELETE", "PUT"):
        answer = http.request(method, "/mcp")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_hosts_and_origins(http: httpx.Client, server: ThreadServer) -> None:
    ping = message("ping")
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", ""):
        answer = http.post("/mcp", json=ping, headers={"Host": host})
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    for origin in ("https://evil.example", "null", "http://localhost.evil.example"):
        assert http.post("/mcp", json=ping, headers={"Origin": origin}).status_code == 403
    for headers in (
        {"Host": "localhost"},
        {"Host": "127.0.0.1:99", "Origin": "http://localhost:3"},
    ):
        assert http.post("/mcp", json=ping, headers=headers).status_code == 200
    with server.client() as client:
        client.headers.update(HEADERS)
        assert client.post("/graphs/other/mcp", json=ping).status_code == 404
        assert client.post("/mcp", json=ping).headers["deprecation"] == "true"


def test_tokens_and_rights(made: Callable[[], str], queries: Path) -> None:
    """Without a policy actors only read: no writing tool, and stored queries are unknown."""
    tokens = json.dumps({"ada": "token-of-ada"})
    told = (("people", str(queries)),)
    with ThreadServer({"people": made()}, tokens=tokens, queries=told) as running:
        with agent_client(running) as stranger:
            answer = stranger.post("/mcp", json=message("ping"))
            assert (answer.status_code, answer.headers["www-authenticate"][:6]) == (401, "Bearer")
        with agent_client(running, "token-of-ada") as ada:
            tools = result(ada.post("/mcp", json=message("tools/list")))["tools"]
            names = {tool["name"] for tool in tools}
            assert "graph_query" in names
            assert not {"graph_mutate", "branch_merge", "begin_task", "friends_of"} & names
            for name in ("graph_mutate", "friends_of", "no_such_tool"):
                sent = message("tools/call", {"name": name, "arguments": {}})
                called = result(ada.post("/mcp", json=sent))
                assert called["isError"]
                assert f"there is no tool '{name}'" in called["content"][0]["text"]


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("graph_query", {"query": NAMES}),
    ("graph_query", {"query": "match { $p: Persn } return { $p }"}),
    ("graph_query", {}),
    ("friends_of", {"name": "Ada"}),
    ("type_sample", {"type": "City"}),
    ("no_such_tool", {"x": 1}),
]


@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_a_quick_call_has_the_answer_of_the_sdk(
    http: httpx.Client, name: str, arguments: dict[str, Any]
) -> None:
    """An unusual member sends the same call through the SDK. Both answers are the same JSON."""
    params = {"name": name, "arguments": arguments}
    for version in (None, *sorted(HANDSHAKE_VERSIONS)):
        headers = {} if version is None else {"MCP-Protocol-Version": version}
        quick = http.post("/mcp", json=message("tools/call", params), headers=headers)
        slow = http.post(
            "/mcp",
            json=message("tools/call", {**params, "_meta": {"progressToken": 1}}),
            headers=headers,
        )
        wanted = slow.json()
        if version in (None, "2024-11-05", "2025-03-26"):
            wanted["result"].setdefault(
                "structuredContent", quick.json()["result"]["structuredContent"]
            )
        assert quick.json() == wanted
    sent = stateless("tools/call", params, name)
    quick = http.post("/mcp", **sent)
    sent["json"]["params"]["_meta"]["example/extra"] = 1
    assert quick.json() == http.post("/mcp", **sent).json()


def test_wrong_envelopes_are_not_answered_quickly(http: httpx.Client) -> None:
    good = stateless("tools/call", {"name": "graph_health", "arguments": {}}, "graph_health")
    assert http.post("/mcp", **good).status_code == 200
    for header, value in (("Mcp-Name", "other"), ("Mcp-Method", "tools/list"), ("Mcp-Method", "")):
        headers = {**good["headers"], header: value}
        assert http.post("/mcp", json=good["json"], headers=headers).status_code == 400
    for member in ("protocolVersion", "clientCapabilities"):
        body = json.loads(json.dumps(good["json"]))
        del body["params"]["_meta"][f"{META}{member}"]
        assert http.post("/mcp", json=body, headers=good["headers"]).status_code == 400
    call = message("tools/call", {"name": "graph_health"})
    assert http.post("/mcp", json=call, headers={"Accept": "text/html"}).status_code == 406


def test_structured_content_is_the_body_of_the_route(http: httpx.Client) -> None:
    def tool(name: str, /, **arguments: Any) -> Any:
        sent = message("tools/call", {"name": name, "arguments": arguments})
        return result(http.post("/mcp", json=sent))["structuredContent"]

    head = http.get("/commits").json()["commits"][0]["graph_commit_id"]
    assert tool("graph_query", query=NAMES) == http.post("/query", json={"query": NAMES}).json()
    assert (
        tool("friends_of", name="Ada")
        == http.post("/queries/friends_of", json={"params": {"name": "Ada"}}).json()
    )
    assert tool("branch_list") == http.get("/branches").json()
    assert tool("commit_list", limit=1) == http.get("/commits", params={"limit": 1}).json()
    assert tool("commit_get", commit_id=head) == http.get(f"/commits/{head}").json()
    states = {"from": "HEAD~1", "to": "main"}
    assert tool("graph_diff", **states) == http.get("/diff", params=states).json()
    shown, told = http.get("/snapshot").json(), tool("graph_snapshot")
    rest, datasets = shown.pop("datasets"), told.pop("datasets")
    assert told == {name: shown[name] for name in told}
    assert datasets == [{name: r[name] for name in d} for d, r in zip(datasets, rest, strict=True)]
    made = tool("branch_create", name="rest")
    other = http.post("/branches", json={"name": "rest2"}).json()
    assert made.keys() == other.keys()
    key = {"idempotency_key": "same-body"}
    change = {"query": 'insert City { name: "Bonn" }', "branch": "rest"}
    by_tool = tool("graph_mutate", **change, **key)
    by_route = http.post("/mutate", json=change, headers={"Idempotency-Key": "same-body"}).json()
    assert {**by_tool, "repeated": True} == by_route
    preview = {"source": "rest", "preview": True}
    assert tool("branch_merge", **preview) == http.post("/branches/merge", json=preview).json()
    refused = tool("graph_query", query="match {")
    body = http.post("/query", json={"query": "match {"}).json()
    assert {k: refused[k] for k in ("error", "code", "diagnostic", "error_type", "fields")} == {
        k: body[k] for k in ("error", "code", "diagnostic", "error_type", "fields")
    }


def test_calls_are_measured(http: httpx.Client, server: ThreadServer) -> None:
    """A commit of a tool counts once, also when the SDK answers, and a repeat does not."""

    def commits() -> float:
        with server.client() as client:
            lines = client.get("/metrics").text.splitlines()
        found = [line for line in lines if line.startswith("omnigraph_http_commits_total")]
        return sum(float(line.split()[-1]) for line in found if 'operation="mutate"' in line)

    http.post("/branches", json={"name": "measured"})
    before = commits()
    change = {"query": 'insert City { name: "Turin" }', "branch": "measured"}
    params = {"name": "graph_mutate", "arguments": {**change, "idempotency_key": "turin"}}
    for more in ({}, {"_meta": {"progressToken": 1}}):
        result(http.post("/mcp", json=message("tools/call", {**params, **more})))
    other = {**params, "arguments": {**change, "query": 'insert City { name: "Nice" }'}}
    result(http.post("/mcp", json=message("tools/call", {**other, "_meta": {"progressToken": 1}})))
    assert commits() == before + 2


def test_the_branch_of_a_configured_client(http: httpx.Client) -> None:
    http.post("/branches", json={"name": "desk"})
    sent = message("tools/call", {"name": "graph_health", "arguments": {}})
    found = result(http.post("/mcp", json=sent, headers={"Omnigraph-Branch": "desk"}))
    assert found["structuredContent"]["branch"] == "desk"


def test_limits_of_bodies(http: httpx.Client) -> None:
    sent = message("tools/call", {"name": "graph_load", "arguments": {"data": "x" * 2_000_000}})
    answer = http.post("/mcp", json=sent)
    assert (answer.status_code, "resource_limit" in answer.json()) == (413, True)


def test_a_client_that_goes_away_stops_its_read(server: ThreadServer) -> None:
    """The query runs for minutes unless it is cancelled; the server is free again soon."""
    far = (
        "match { $a: Person  $b: Person  $c: Person  $d: Person  $e: Person  $f: Person "
        "$g: Person  $h: Person  $i: Person  $j: Person  $k: Person  $l: Person "
        "$m: Person  $n: Person  $o: Person  $p: Person } return { count($a) as n }"
    )
    sent = message("tools/call", {"name": "graph_query", "arguments": {"query": far}})
    inflight = server.state.admission.inflight
    with agent_client(server) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post("/mcp", json=sent, timeout=0.5)
        assert inflight["read"] == 1
    wait_until(lambda: inflight["read"] == 0, 20)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_clients_of_the_sdk(server: ThreadServer, mode: Any) -> None:
    async def talk() -> None:
        http = httpx2.AsyncClient()
        transport = streamable_http_client(f"{server.url}/graphs/people/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            tools = (await client.list_tools()).tools
            assert "friends_of" in {tool.name for tool in tools}
            called = await client.call_tool("friends_of", {"name": "Ada"})
            assert called.structured_content["rows"] == [{"friend": "Bob"}]
            assert len((await client.list_resources()).resources) == 8
            read = await client.read_resource("omnigraph://best-practices/index")
            assert "omnigraph://best-practices/queries" in read.contents[0].text
            calls = [client.call_tool("graph_query", {"query": NAMES}) for _ in range(16)]
            answers = await asyncio.gather(*calls)
            assert {a.structured_content["row_count"] for a in answers} == {3}
        await http.aclose()

    asyncio.run(talk())


def test_the_sdk_starts_once(made: Callable[[], str]) -> None:
    """Requests that come while the SDK is imported all get their answers."""
    with ThreadServer({"people": made()}) as running:
        answers: list[int] = []

        def ping() -> None:
            with agent_client(running) as client:
                answers.append(client.post("/mcp", json=message("ping")).status_code)

        threads = [threading.Thread(target=ping) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert answers == [200] * 8
