"""What a client sends again, what it never sends again, and which error it raises in the end."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import omnigraph
from omnigraph.errors import (
    AdmissionRefused,
    GraphClosed,
    InvalidArgument,
    NotFound,
    NotServed,
    OutcomeUnknown,
    ReadOnlyGraph,
    RequestInFlight,
    ServerFailed,
    ServerUnavailable,
    Unavailable,
)
from omnigraph.remote.address import parse_address
from omnigraph.remote.client import Client
from omnigraph.remote.handle import RemoteGraph
from omnigraph.settings.models import ClientSettings
from omnigraph.wire.envelopes import answer_of

URL = "http://graphs.test/graphs/people"
RECEIPT = {
    "branch": "main",
    "query_name": "m",
    "affected_nodes": 1,
    "affected_edges": 0,
    "actor_id": None,
    "commit": None,
    "repeated": False,
}
LOADED = {
    "branch": "main",
    "base_branch": None,
    "branch_created": False,
    "mode": "append",
    "engine": "local",
    "nodes": [],
    "edges": [],
    "commit": None,
}
Step = Callable[[httpx.Request], httpx.Response]


class SlowClock:
    """Remembers how long the client waited, without waiting."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Script:
    """A server that answers with these steps, one for each request."""

    def __init__(self, *steps: Step | Exception) -> None:
        self.steps = list(steps)
        self.requests: list[httpx.Request] = []
        self.clock = SlowClock()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step(request)

    def graph(self, *, read_only: bool = False, **settings: Any) -> RemoteGraph:
        client = Client(
            parse_address(URL),
            "secret",
            ClientSettings(**settings),
            self.clock,  # type: ignore[arg-type]
            httpx.MockTransport(self),
        )
        return RemoteGraph(client, read_only=read_only)


def answers(body: Any, status: int = 200, **headers: str) -> Step:
    return lambda _: httpx.Response(status, json=body, headers=headers)


def fails(error: omnigraph.OmnigraphError) -> Step:
    answer = answer_of(error, "r1")
    return answers(answer.envelope, answer.status, **answer.headers)


LOST = httpx.ReadError("connection reset")
REFUSED = httpx.ConnectError("connection refused")
SILENT = httpx.ReadTimeout("timed out")
DRAINING = fails(Unavailable("the server drains", reason="draining", retry_after=3.0))


def test_a_write_whose_answer_was_lost_is_sent_again_with_the_same_key() -> None:
    script = Script(LOST, answers(RECEIPT))
    assert script.graph().mutate("insert Person { name: 'Ada' }").affected_nodes == 1
    keys = [request.headers["idempotency-key"] for request in script.requests]
    assert len(set(keys)) == 1
    assert keys[0].startswith("client-")
    assert script.requests[0].content == script.requests[1].content


def test_every_write_has_a_key_of_its_own_and_the_callers_key_wins() -> None:
    script = Script(*[answers(RECEIPT)] * 3)
    graph = script.graph()
    graph.mutate("insert A {}")
    graph.mutate("insert A {}")
    graph.mutate("insert A {}", idempotency_key="mine")
    first, second, third = (r.headers["idempotency-key"] for r in script.requests)
    assert first != second
    assert third == "mine"


def test_a_repeated_write_waits_for_the_first_one() -> None:
    in_flight = fails(RequestInFlight("still runs", key="k", retry_after=2.0))
    script = Script(LOST, in_flight, in_flight, answers({**RECEIPT, "repeated": True}))
    assert script.graph().mutate("insert A {}").repeated
    assert script.clock.slept[1:] == [2.0, 2.0]


def test_a_key_that_another_client_uses_now_is_an_error() -> None:
    script = Script(fails(RequestInFlight("still runs", key="k")))
    with pytest.raises(RequestInFlight):
        script.graph().mutate("insert A {}", idempotency_key="k")


def test_a_write_that_stays_without_answer_has_an_unknown_outcome() -> None:
    script = Script(*[LOST] * 4)
    with pytest.raises(OutcomeUnknown) as failed:
        script.graph().mutate("insert A {}")
    assert len(script.requests) == 4
    assert failed.value.idempotency_key == script.requests[0].headers["idempotency-key"]


def test_a_write_that_never_reached_the_server_is_not_unknown() -> None:
    script = Script(*[REFUSED] * 4)
    with pytest.raises(ServerUnavailable, match="cannot be reached") as failed:
        script.graph().mutate("insert A {}")
    assert (failed.value.reason, failed.value.server) == ("connect", "http://graphs.test")


def test_work_without_a_key_is_sent_once() -> None:
    script = Script(LOST)
    with pytest.raises(OutcomeUnknown):
        script.graph().optimize()
    assert len(script.requests) == 1


def test_reads_are_repeated_and_a_silent_server_is_not_asked_twice() -> None:
    script = Script(LOST, REFUSED, answers({"tags": []}))
    assert script.graph().tags.list() == []
    script = Script(SILENT)
    with pytest.raises(ServerUnavailable, match="in time"):
        script.graph().tags.list()
    assert len(script.requests) == 1


def test_retry_after_of_a_draining_server_is_honoured() -> None:
    script = Script(DRAINING, answers({"tags": []}))
    script.graph().tags.list()
    assert script.clock.slept == [3.0]
    script = Script(DRAINING, answers(RECEIPT))
    script.graph().mutate("insert A {}")
    assert len(script.requests) == 2


def test_a_query_out_of_time_is_not_repeated() -> None:
    late = omnigraph.ResourceLimit("out of time", limit="timeout")
    script = Script(fails(late))
    with pytest.raises(omnigraph.ResourceLimit):
        script.graph().query("match { $p: Person } return { $p.name }", timeout=0.5)
    assert len(script.requests) == 1
    assert json.loads(script.requests[0].content)["timeout_ms"] == 500


@pytest.mark.parametrize(
    "error",
    [
        NotFound("no", branch="x"),
        AdmissionRefused("busy", reason="actor", retry_after=9.0),
        omnigraph.ExpectedVersionMismatch("moved", table="node:A"),
    ],
)
def test_an_answer_from_400_to_499_is_final(error: omnigraph.OmnigraphError) -> None:
    script = Script(fails(error))
    with pytest.raises(type(error)) as failed:
        script.graph().mutate("insert A {}")
    assert failed.value.fields == error.fields
    assert len(script.requests) == 1
    assert script.clock.slept == []


def test_a_gateway_that_lost_the_server_is_repeated_and_then_unknown() -> None:
    script = Script(*[answers("Bad Gateway", 502)] * 4)
    with pytest.raises(OutcomeUnknown):
        script.graph().mutate("insert A {}")
    script = Script(answers("Bad Gateway", 502), answers({"tags": []}))
    assert script.graph().tags.list() == []


def test_a_failure_of_the_server_is_not_repeated() -> None:
    script = Script(answers({"error": "m", "code": "internal", "request_id": "r7"}, 500))
    with pytest.raises(ServerFailed) as failed:
        script.graph().tags.list()
    assert (failed.value.status, failed.value.request_id) == (500, "r7")
    assert len(script.requests) == 1


def test_a_redirect_is_refused_and_the_token_stays_here() -> None:
    script = Script(answers({}, 307, Location="http://evil.test/graphs/people/tags"))
    with pytest.raises(InvalidArgument, match="redirect"):
        script.graph().tags.list()
    (request,) = script.requests
    assert request.url.host == "graphs.test"
    assert request.headers["authorization"] == "Bearer secret"


def test_a_body_that_can_be_read_once_is_sent_once(tmp_path: Any) -> None:
    path = tmp_path / "p.ndjson"
    path.write_text('{"type": "Person", "data": {"name": "Ada"}}\n')
    script = Script(LOST)
    with path.open("rb") as file, pytest.raises(OutcomeUnknown):
        script.graph().load(file)
    assert len(script.requests) == 1
    script = Script(LOST, answers(LOADED))
    script.graph().load(path)
    assert [r.content for r in script.requests] == [path.read_bytes()] * 2


def test_a_handle_that_only_reads_sends_no_write() -> None:
    script = Script()
    graph = script.graph(read_only=True)
    for call in (lambda: graph.mutate("insert A {}"), lambda: graph.branches.delete("x")):
        with pytest.raises(ReadOnlyGraph):
            call()
    assert script.requests == []


def test_closed_and_unserved() -> None:
    graph = Script().graph()
    with pytest.raises(NotServed, match="store itself"):
        graph.backup("elsewhere")
    with pytest.raises(NotServed):
        _ = graph.engine
    for call in (
        lambda: graph.query("match { $p: P } return { $p.name }", engine="spark"),
        lambda: graph.merge("x", engine="spark"),
        lambda: graph.optimize(engine="spark"),
        lambda: graph.schema.plan("node A { b: String }", engine="spark"),
    ):
        with pytest.raises(NotServed, match="spark"):
            call()
    graph.close()
    graph.close()
    with pytest.raises(GraphClosed):
        graph.tags.list()
    assert repr(graph) == f"<RemoteGraph {URL}, closed>"


def test_names_of_states_are_sent_as_the_server_understands_them() -> None:
    script = Script(answers({"graph_commit_id": "c9"}), answers({}, 404))
    moment = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    with pytest.raises(NotFound):
        script.graph().schema.show("review/x", at=moment)
    looked_up, shown = script.requests
    assert looked_up.url.raw_path == (
        b"/graphs/people/commits/2026-01-02T00%3A00%3A00.000000Z?branch=review%2Fx"
    )
    assert shown.url.params["snapshot"] == "c9"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://h/people", "names no graph"),
        ("http://u:secret@h/graphs/p", "must not hold"),
        ("http://h/graphs/p?token=x", "more than an address"),
        ("http:///graphs/p", "no http"),
        ("http://h/graphs/a_b", "names no graph"),
    ],
)
def test_addresses(url: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as failed:
        omnigraph.open(url)
    assert "secret" not in str(failed.value)
    address = parse_address("HTTPS://h:8443/base/graphs/p/")
    assert (address.server, address.url) == ("https://h:8443/base", "https://h:8443/base/graphs/p")
