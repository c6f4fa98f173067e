"""Every status and detail of the contract that a plain server reaches."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

import omnigraph
from omnigraph.errors import (
    ExpectedVersionMismatch,
    FeedGap,
    GraphClosed,
    InvalidArgument,
    KeyConflict,
    OmnigraphError,
    OutcomeUnknown,
    RecoveryRequired,
    RequestInFlight,
    SchemaDrift,
    StorageFailure,
)
from omnigraph.graph.handle import Graph
from omnigraph.server.configuration import RequestLimits
from omnigraph.server.routes.server_wide import reload_state
from omnigraph_testing.http_server import ThreadServer
from omnigraph_testing.workloads import create_small_graph

READ = "match { $p: Person } return { $p.name as name }"
ADD = "query add($name: String) { insert Person { name: $name } }"
TOKENS = json.dumps({"ada": "token-of-ada", "bob": {"tokens": ["b1", "b2"]}})


def add(client: httpx.Client, name: str, **more: Any) -> httpx.Response:
    return client.post("/mutate", json={"query": ADD, "params": {"name": name}, **more})


def check(answer: httpx.Response, status: int, code: str | None, *details: str) -> dict[str, Any]:
    """The envelope of an answer, which has this status, code and detail and nothing else."""
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert body.get("code") == code
    assert isinstance(body["error"], str)
    assert body["request_id"] == answer.headers["x-request-id"]
    shared = {"error", "code", "request_id", "retryable", "error_type", "fields"}
    assert body.keys() - shared == set(details)
    return body


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ({"json": {}}, "`query`"),
        ({"json": {"query": 1}}, "`$.query`"),
        ({"content": b"{", "headers": {"content-type": "application/json"}}, "not JSON"),
        ({"content": b"\xff", "headers": {"content-type": "application/json"}}, "JSON"),
        ({"json": {"query": READ, "branch": "main", "snapshot": "main"}}, "not both"),
        ({"json": {"query": READ, "name": "other"}}, "other"),
        ({"json": {"query": ADD, "params": {"name": "x"}}}, "mutate"),
        ({"json": {"query": READ, "timeout_ms": 0}}, "timeout_ms"),
    ],
)
def test_bad_requests(http: httpx.Client, sent: dict[str, Any], told: str) -> None:
    assert told in check(http.post("/query", **sent), 400, "bad_request")["error"]


def test_a_wrong_text_has_a_diagnostic(http: httpx.Client) -> None:
    body = check(http.post("/query", json={"query": "match"}), 400, "bad_request", "diagnostic")
    assert body["diagnostic"]["position"]["line"] == 1


def test_unknown_members_of_writes(http: httpx.Client) -> None:
    assert http.post("/query", json={"query": READ, "extra": 1}).status_code == 200
    check(http.post("/mutate", json={"query": READ, "extra": 1}), 400, "bad_request")
    check(http.post("/branches", json={"name": "x", "form": "main"}), 400, "bad_request")
    old = http.post("/change", json={"query_source": ADD, "params": {"name": "old"}})
    assert old.status_code == 200


def test_not_found(server: ThreadServer, http: httpx.Client) -> None:
    check(http.get("/nowhere"), 404, "not_found")
    check(http.post("/query", json={"query": READ, "branch": "nope"}), 404, "not_found")
    check(http.get("/commits/01ARZ3NDEKTSV4RRFFQ69G5FAV"), 404, "not_found")
    check(http.post("/queries/any", json={}), 404, "not_found")
    with server.client() as client:
        check(client.get("/graphs/other/schema"), 404, "not_found")
        check(client.get("/graphs/not_an_id/schema"), 400, "bad_request")


def test_wrong_method_and_content_type(http: httpx.Client) -> None:
    answer = http.get("/query")
    check(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"
    check(http.post("/query", content=b"{}", headers={"content-type": "text/plain"}), 415,
          "bad_request")  # fmt: skip


def test_head_has_no_body(http: httpx.Client) -> None:
    answer = http.head("/schema")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


def test_conflicts(http: httpx.Client) -> None:
    http.post("/branches", json={"name": "twice"})
    check(http.post("/branches", json={"name": "twice"}), 409, "conflict")
    http.post("/branches", json={"name": "left"})
    older = 'query older($age: I64) { update Person set { age: $age } where name = "bob" }'
    for branch, age in (("left", 10), ("main", 20)):
        sent = {"query": older, "params": {"age": age}, "branch": branch}
        assert http.post("/mutate", json=sent).status_code == 200
    merged = http.post("/branches/merge", json={"source": "left"})
    body = check(merged, 409, "conflict", "merge_conflicts")
    (found,) = body["merge_conflicts"]
    assert found.pop("message")
    assert found == {
        "entity_kind": "node",
        "type_name": "Person",
        "entity_id": "bob",
        "kind": "divergent_update",
        "property": "age",
        "base": 2,
        "ours": 20,
        "theirs": 10,
    }
    preview = http.post("/branches/merge", json={"source": "left", "preview": True})
    assert preview.json()["conflict_count"] == 1
    decided = http.post("/branches/merge", json={"source": "left", "strategy": "theirs"})
    assert decided.json()["outcome"] == "merged"


def test_kinds_of_merge_conflicts(tmp_path: Path) -> None:
    """Each kind of section 8, as two branches make it."""
    uri = str(tmp_path / "kinds.omni")
    schema = """
        node Person { name: String @key  age: I64?  mail: String? @unique }
        edge Knows: Person -> Person
        edge Boss: Person -> Person @card(0..1)
    """
    omnigraph.init(uri, schema).close()

    def apply(http: httpx.Client, branch: str, edits: dict[str, Any]) -> None:
        answer = http.post("/apply", json={"branch": branch, "edits": edits})
        assert answer.status_code == 200, answer.text

    people = [{"name": name, "age": 1} for name in ("ann", "ben", "cid", "dot")]
    left: dict[str, Any] = {
        "Person": {
            "insert": [{"name": "new", "age": 1}, {"name": "m1", "mail": "same"}],
            "upsert": [{"name": "ann", "age": 2}, {"name": "ben", "age": 2}],
        },
        "Knows": {"insert": [{"from": "ann", "to": "cid"}]},
        "Boss": {"insert": [{"from": "dot", "to": "ann"}]},
    }
    right: dict[str, Any] = {
        "Person": {
            "insert": [{"name": "new", "age": 2}, {"name": "m2", "mail": "same"}],
            "upsert": [{"name": "ann", "age": 3}],
            "delete": ["ben", "cid"],
        },
        "Boss": {"insert": [{"from": "dot", "to": "new"}]},
    }
    with ThreadServer(uri) as server, server.graph_client() as http:
        apply(http, "main", {"Person": {"insert": people}})
        http.post("/branches", json={"name": "left"})
        apply(http, "left", left)
        apply(http, "main", right)
        merged = http.post("/branches/merge", json={"source": "left"})
        body = check(merged, 409, "conflict", "merge_conflicts")
        kinds = {found["kind"] for found in body["merge_conflicts"]}
        assert {"divergent_insert", "divergent_update", "delete_vs_update", "orphan_edge"} <= kinds
        assert {"unique_violation", "cardinality_violation"} <= kinds


def test_a_merge_that_breaks_a_rule_of_the_other_side(tmp_path: Path) -> None:
    uri = str(tmp_path / "rules.omni")
    plain = "node Person { name: String @key  mail: String? }"
    omnigraph.init(uri, plain).close()
    with ThreadServer(uri) as server, server.graph_client() as http:
        http.post("/branches", json={"name": "left"})
        edits = {"Person": {"insert": [{"name": "ann"}]}}
        assert http.post("/apply", json={"branch": "left", "edits": edits}).status_code == 200
        strict = {"schema_source": plain.replace("String? }", "String }")}
        assert http.post("/schema/apply", json=strict).status_code == 200
        merged = http.post("/branches/merge", json={"source": "left"})
        body = check(merged, 409, "conflict", "merge_conflicts")
        (found,) = body["merge_conflicts"]
        assert (found["kind"], found["entity_id"]) == ("value_constraint_violation", "ann")


def test_a_second_change_of_the_schema(uri: str) -> None:
    changed = {"schema_source": "node Person { name: String @key }"}
    with (
        omnigraph.open(uri, actor="eve") as other,
        ThreadServer(uri) as server,
        server.graph_client() as http,
    ):
        with other.engine.transaction.schema_lease("main", "eve"):
            body = check(http.post("/schema/apply", json=changed), 409, "conflict")
        assert body["error_type"] == "SchemaChangeInProgress"
        assert body["retryable"] is True


def test_a_key_that_is_there(http: httpx.Client) -> None:
    line = b'{"type": "Person", "data": {"name": "ada"}}\n'
    head = {"Content-Type": "application/x-ndjson"}
    taken = http.post("/load/ndjson?mode=append", content=line, headers=head)
    body = check(taken, 409, "conflict", "key_conflict")
    assert body["key_conflict"] == {
        "entity_kind": "node", "type_name": "Person", "entity_id": "ada"
    }  # fmt: skip


def test_a_wrong_type_or_parameter(http: httpx.Client) -> None:
    wrong = http.post("/query", json={"query": "match { $p: Persn } return { $p.name as n }"})
    body = check(wrong, 400, "bad_request", "diagnostic")
    assert body["diagnostic"]["code"].startswith("T")
    check(add(http, "x", params={"name": 5}), 400, "bad_request")
    check(http.post("/mutate", json={"query": ADD, "params": {}}), 400, "bad_request")


def test_a_server_that_starts_or_drains(server: ThreadServer) -> None:
    state = server.state
    with server.client() as client:
        for phase in ("starting", "draining"):
            state.phase = phase
            try:
                ready = client.get("/readyz")
                assert (ready.status_code, ready.json()["status"]) == (503, phase)
                assert ready.headers["retry-after"] == "1"
                assert client.get("/healthz").status_code == 200
                if phase == "starting":
                    body = check(client.get("/graphs/default/schema"), 503, None, "unavailable")
                    assert body["unavailable"] == {"reason": "starting"}
                    assert body["retryable"] is True
            finally:
                state.phase = "serving"


def test_stored_rows_that_break_a_new_schema(http: httpx.Client) -> None:
    text = http.get("/schema").json()["schema_source"]
    add(http, "no-city")
    strict = text.replace("node Person {", 'node Person { nickname: String @default("x")', 1)
    planned = http.post("/schema/plan", json={"schema_source": strict}).json()
    assert planned["supported"], planned
    unique = strict.rstrip().replace("nickname: String", "nickname: String @unique", 1)
    body = check(
        http.post("/schema/apply", json={"schema_source": unique}), 409, "conflict", "violations"
    )
    assert body["error_type"] == "ValidationFailed"
    (violation,) = body["violations"]
    assert violation["type_name"] == "Person"
    assert violation["code"] == "OG-MF-101"
    assert len(violation["sample_ids"]) <= 20
    assert http.get("/schema").json()["schema_source"] == text


def test_conditional_writes(http: httpx.Client) -> None:
    head = http.post("/query", json={"query": READ}).json()["graph_commit_id"]
    route, name = "/mutate/if-graph-commit", "Omnigraph-If-Graph-Commit"
    sent = {"query": ADD, "params": {"name": "if-1"}}
    done = http.post(route, json=sent, headers={name: head})
    assert done.status_code == 200, done.text
    lost = http.post(route, json=sent, headers={name: head})
    body = check(lost, 412, None, "precondition_failure")
    now = done.json()["commit"]["graph_commit_id"]
    assert body["precondition_failure"] == {"expected": head, "actual": now}
    for bad in ("*", f'"{now}"', f"W/{now}", f"{now},{now}", ""):
        check(http.post(route, json=sent, headers={name: bad}), 400, "bad_request")
    check(http.post(route, json=sent), 400, "bad_request")
    twice = http.post(route, json=sent, headers=[(name, now), (name, now)])
    check(twice, 400, "bad_request")
    check(http.post("/mutate", json=sent, headers={name: now}), 400, "bad_request")


def test_other_spellings_of_main(http: httpx.Client) -> None:
    """Acceptance check 2: another spelling is refused, or is another branch."""
    for branch in (" main ", "main "):
        check(add(http, "spelled", branch=branch), 400, "bad_request")
        check(http.post("/query", json={"query": READ, "branch": branch}), 400, "bad_request")
        check(http.post("/branches/merge", json={"source": "x", "target": branch}), 400,
              "bad_request")  # fmt: skip
        check(http.request("DELETE", f"/branches/{branch}"), 400, "bad_request")
    check(add(http, "spelled", branch="MAIN"), 404, "not_found")


def test_pages_of_commits(http: httpx.Client) -> None:
    for number in range(3):
        add(http, f"page-{number}")
    everything = http.get("/commits?limit=1000").json()["commits"]
    assert [c["created_at"] for c in everything] == sorted(
        (c["created_at"] for c in everything), reverse=True
    )
    found: list[dict[str, Any]] = []
    page: dict[str, Any] = {"next": None}
    while "next" in page:
        after = {"after": page["next"]} if page["next"] else {}
        page = http.get("/commits", params={"limit": 2, **after}).json()
        found += page["commits"]
    assert found == everything
    for wrong in (0, 1001, "x"):
        check(http.get("/commits", params={"limit": wrong}), 400, "bad_request")


def test_content_types_of_streams(http: httpx.Client) -> None:
    text = {"content-type": "text/plain"}
    for path in ("/export", "/changes/baseline", "/load/ndjson", "/load/files"):
        check(http.post(path, content=b"{}", headers=text), 415, "bad_request")


def test_legacy_twins(http: httpx.Client) -> None:
    """Acceptance check 5."""
    new = http.post("/query", json={"query": READ}).json()
    old = http.post("/read", json={"query_source": READ})
    assert old.headers["deprecation"] == "true"
    assert old.headers["link"] == '<query>; rel="successor-version"'
    assert old.json()["rows"] == new["rows"]
    assert "graph_commit_id" not in old.json()
    changed = http.post("/change", json={"query_source": ADD, "params": {"name": "twin"}})
    assert changed.headers["link"] == '<mutate>; rel="successor-version"'


def test_flat_routes_serve_the_default_graph(server: ThreadServer) -> None:
    with server.client() as client:
        answer = client.post("/query", json={"query": READ})
        assert answer.status_code == 200
        assert answer.headers["deprecation"] == "true"
        assert answer.headers["link"] == '</graphs/default/query>; rel="successor-version"'


def test_branches_with_slashes_and_names_of_routes(http: httpx.Client) -> None:
    for name in ("review/x", "a/b/c", "merge", "rename"):
        assert http.post("/branches", json={"name": name}).status_code == 200
    listed = http.get("/branches")
    assert {"review/x", "merge"} <= set(listed.json()["branches"])
    held = http.get("/branches", headers={"If-None-Match": listed.headers["etag"]})
    assert held.status_code == 304
    for path in ("review%2Fx", "a/b/c", "merge", "rename"):
        assert http.delete(f"/branches/{path}").status_code == 200
    check(http.delete("/branches/review%2Fx"), 404, "not_found")


def test_errors_of_the_engine(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs a broken store or a lost race is raised by the engine itself here."""
    moved = {
        "entity_kind": "node",
        "type_name": "Person",
        "expected_published_dataset_version": 1,
        "actual_published_dataset_version": 2,
    }
    there = {"entity_kind": "node", "type_name": "Person", "entity_id": "ada"}
    cases: list[tuple[OmnigraphError, int, str | None, dict[str, Any], bool]] = [
        (
            ExpectedVersionMismatch("moved", table="node:Person", expected=1, actual=2),
            409, "conflict", {"published_dataset_version_conflict": moved}, True,
        ),
        (
            ExpectedVersionMismatch("moved", table="branch", expected="01A", actual="01B"),
            409, "conflict",
            {"read_set_conflict": {"member": "branch", "expected": "01A", "actual": "01B"}}, True,
        ),
        (
            ExpectedVersionMismatch("moved", table="schema"),
            409, "conflict", {"read_set_conflict": {"member": "schema"}}, True,
        ),
        (
            KeyConflict("there", type="Person", ids=["ada"], total=1, entity_kind="node"),
            409, "conflict", {"key_conflict": there}, False,
        ),
        (RequestInFlight("runs", key="k"), 409, "conflict", {}, True),
        (SchemaDrift("a column is missing", expected="a", found="b"), 409, "conflict", {}, False),
        (FeedGap("gone", commit="01X"), 410, None,
         {"change_feed_gap": {"first_unreadable_commit_id": "01X"}}, False),
        (RecoveryRequired("dead", intents=["01I"]), 503, None,
         {"recovery_required": {"operation_id": "01I"}}, False),
        (OutcomeUnknown("lost", operation_id="01O", commit_id="01C"), 503, None,
         {"recovery_required": {"operation_id": "01O"}}, False),
        (GraphClosed("closed", uri="x"), 503, None, {"unavailable": {"reason": "draining"}}, False),
        (StorageFailure("secret path"), 500, "internal", {}, False),
    ]  # fmt: skip
    for number, (error, status, code, details, retryable) in enumerate(cases):

        def fail(*_: Any, failure: OmnigraphError = error, **__: Any) -> None:
            raise failure

        monkeypatch.setattr(Graph, "query", fail)
        monkeypatch.setattr(Graph, "kept_answer", fail)
        answer = http.post("/query", json={"query": READ, "timeout_ms": 9000 + number})
        body = check(answer, status, code, *details)
        assert {name: body[name] for name in details} == details
        assert body.get("retryable", False) is retryable, error
        assert "secret" not in answer.text


def test_an_unexpected_failure_says_nothing(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(Graph, "query", fail)
    monkeypatch.setattr(Graph, "kept_answer", fail)
    answer = http.post("/query", json={"query": READ, "timeout_ms": 8000})
    check(answer, 500, "internal")
    assert "secret" not in answer.text


def test_limits_of_a_request(tmp_path: Path) -> None:
    uri = str(tmp_path / "graph.omni")
    create_small_graph(uri).close()
    limits = RequestLimits(body_bytes=2000, query_rows=1, query_timeout_ms=50, reads=1)
    with ThreadServer(uri, limits=limits) as server, server.graph_client() as http:
        body = check(http.post("/query", json={"query": "x" * 3000}), 413, "bad_request",
                     "resource_limit")["resource_limit"]  # fmt: skip
        assert (body["resource"], body["limit"]) == ("request_body_bytes", 2000)
        stream = http.post("/query", content=iter([b"x" * 1500, b"y" * 1500]),
                           headers={"content-type": "application/json"})  # fmt: skip
        check(stream, 413, "bad_request", "resource_limit")
        rows = check(http.post("/query", json={"query": READ}), 413, "bad_request",
                     "resource_limit")["resource_limit"]  # fmt: skip
        assert rows == {"resource": "rows", "limit": 1, "actual": 2}
        server.state.admission.enter("read", 1)
        busy = http.post("/query", json={"query": READ})
        server.state.admission.add("read", -1)
        check(busy, 429, "too_many_requests")
        assert busy.headers["retry-after"] == "1"
        slow = "match { $a: Person $b: Person $c: Person } return { count($a) as n }"
        late = http.post("/query", json={"query": slow, "timeout_ms": 1})
        if late.status_code != 200:  # a fast machine answers within a millisecond
            body = check(late, 503, None, "unavailable")
            assert body["unavailable"] == {"reason": "deadline"}
            assert "retry-after" not in late.headers


def test_a_query_that_needs_too_much_memory(tmp_path: Path) -> None:
    uri = str(tmp_path / "graph.omni")
    create_small_graph(uri).close()
    limits = RequestLimits(query_memory_bytes=1_000_000)
    cross = "match { $a: Person  $b: Person  $c: Person  $d: Person } return { $a.name as a }"
    with ThreadServer(uri, limits=limits) as server, server.graph_client() as http:
        many = [{"name": f"p{number}"} for number in range(30)]
        assert http.post("/apply", json={"edits": {"Person": {"insert": many}}}).status_code == 200
        answer = http.post("/query", json={"query": cross})
        body = check(answer, 413, "bad_request", "resource_limit")["resource_limit"]
        assert body["limit"] == 1_000_000
        assert body["actual"] > 1_000_000
        assert http.post("/query", json={"query": READ}).status_code == 200


def test_tokens(uri: str) -> None:
    with ThreadServer(uri, tokens=TOKENS) as server:
        with server.graph_client() as nameless:
            for headers in ({}, {"Authorization": "Basic x"}, {"Authorization": "Bearer nope"}):
                answer = nameless.post("/query", json={"query": READ}, headers=headers)
                check(answer, 401, "unauthorized")
                assert answer.headers["www-authenticate"] == 'Bearer realm="omnigraph"'
            ada = {"Authorization": "bearer token-of-ada", "X-Actor-Id": "root"}
            assert nameless.get("/schema", headers=ada).status_code == 200
        with server.graph_client(token="b2") as bob:
            assert bob.post("/query", json={"query": READ}).status_code == 200
            body = check(add(bob, "new"), 403, "forbidden", "policy_denied")
            assert body["policy_denied"] == {
                "action": "change", "branch": "main", "actor_id": "bob"
            }  # fmt: skip
            check(bob.get("/status"), 403, "forbidden", "policy_denied")
            check(bob.post("/optimize"), 403, "forbidden", "policy_denied")
        with server.client(token="b1") as client:
            check(client.get("/graphs"), 403, "forbidden", "policy_denied")
            check(client.post("/admin/reload"), 403, "forbidden", "policy_denied")
        with server.client() as client:
            for path in ("/healthz", "/readyz", "/openapi.json", "/metrics"):
                assert client.get(path).status_code == 200
            document = client.get("/openapi.json").json()
            assert document["components"]["securitySchemes"]["bearer_token"]["scheme"] == "bearer"


def test_a_server_without_tokens_is_refused(uri: str) -> None:
    with pytest.raises(InvalidArgument, match="--unauthenticated"):
        ThreadServer(uri, unauthenticated=False)


def test_a_read_only_server_refuses_writes(uri: str) -> None:
    with ThreadServer(uri, read_only=True) as server, server.graph_client() as http:
        assert http.post("/query", json={"query": READ}).status_code == 200
        check(add(http, "x"), 403, "forbidden")


def test_a_graph_that_cannot_be_opened_is_set_aside(uri: str, tmp_path: Path) -> None:
    addresses = {"good": uri, "bad": str(tmp_path / "nothing.omni")}
    with ThreadServer(addresses) as server, server.client() as client:
        ready = client.get("/readyz").json()
        assert (ready["served_graph_count"], ready["quarantined_graph_count"]) == (1, 1)
        assert client.get("/graphs/good/schema").status_code == 200
        away = client.get("/graphs/bad/schema")
        body = check(away, 503, None, "unavailable")
        assert body["unavailable"] == {"reason": "quarantined"}
        assert int(away.headers["retry-after"]) >= 1
        check(client.get("/schema"), 404, "not_found")  # two graphs: no default
        assert 'graph_up{graph="bad"} 0' in client.get("/metrics").text
        create_small_graph(addresses["bad"]).close()
        reloaded = reload_state(server.state)  # what SIGHUP and /admin/reload call
        assert (reloaded["reloaded"], reloaded["graphs"]["added"]) == (True, ["bad"])
        assert client.get("/graphs/bad/schema").status_code == 200
    addresses["bad"] = str(tmp_path / "nowhere.omni")
    with pytest.raises(AssertionError, match="nowhere"), ThreadServer(
        addresses, require_all_graphs=True
    ):  # fmt: skip
        pass
    with omnigraph.open(uri) as graph:
        assert graph.verify().ok


@pytest.mark.parametrize(
    "sent",
    [
        b"GARBAGE\r\n\r\n",
        b"POST /graphs/default/query HTTP/1.1\r\nHost: x\r\nContent-Length: zz\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request(server: ThreadServer, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", httpx.URL(server.url).port)) as connection:
        connection.settimeout(10)
        connection.sendall(sent)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"content-type: application/json" in head
    envelope = json.loads(body)
    assert envelope["code"] == "bad_request"
    assert f"x-request-id: {envelope['request_id']}".encode() in head


@pytest.mark.parametrize(
    ("path", "body", "successor"),
    [
        ("/read", {"query_source": READ}, "query"),
        ("/change", {"query_source": ADD, "params": {"name": "x"}}, "mutate"),
        ("/ingest", {"data": ""}, "load"),
    ],
)
def test_a_twin_names_one_successor(
    server: ThreadServer, path: str, body: dict[str, Any], successor: str
) -> None:
    nested, flat = f"<{successor}>", f"</graphs/default/{successor}>"
    with server.client() as client:
        for address, link in ((f"/graphs/default{path}", nested), (path, flat)):
            answer = client.post(address, json=body)
            assert answer.status_code == 200, answer.text
            assert answer.headers.get_list("deprecation") == ["true"]
            assert answer.headers.get_list("link") == [f'{link}; rel="successor-version"']
