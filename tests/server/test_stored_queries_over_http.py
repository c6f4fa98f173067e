"""`/queries`: the rules of the contract for stored queries at the boundary of the server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from omnigraph import failpoints
from omnigraph.catalog.model import Catalog
from omnigraph.errors import InvalidArgument, PolicyDenied
from omnigraph.ir.data_scope import DataScope
from omnigraph.server.boot import build_state, open_graphs
from omnigraph.server.configuration import ServerSettings
from omnigraph.server.routes.server_wide import reload_state
from omnigraph_testing.http_server import ThreadServer
from omnigraph_testing.workloads import create_small_graph, settings

QUERIES = """
query by_name($name: String) @description("One person.") @instruction("Names are exact.") {
  match { $p: Person { name: $name } } return { $p.name as name, $p.age as age }
}
query grow($name: String, $age: I64) { update Person set { age: $age } where name = $name }
query everyone($ids: [I64]?, $day: Date?) @mcp(expose: false) {
  match { $p: Person } return { $p.name as name } order { name }
}
"""
ID = {"X-Request-Id": "same"}


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("queries")
    (folder / "people.gq").write_text(QUERIES)
    return folder


@pytest.fixture(scope="module")
def stored(queries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    uri = str(tmp_path_factory.mktemp("stored") / "graph.omni")
    create_small_graph(uri).close()
    told = (("default", str(queries)),)
    with (
        ThreadServer(uri, engine=settings(), queries=told) as running,
        running.graph_client() as client,
    ):
        yield client


def refused(answer: httpx.Response, status: int, told: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    assert told in body["error"]
    return body


def test_the_list_has_kinds_of_parameters(stored: httpx.Client) -> None:
    by_name, everyone, grow = stored.get("/queries").json()["queries"]
    assert by_name == {
        "name": "by_name",
        "tool_name": "by_name",
        "mcp_expose": True,
        "mutation": False,
        "description": "One person.",
        "instruction": "Names are exact.",
        "params": [{"name": "name", "kind": "string", "type": "String", "nullable": False}],
    }
    assert (everyone["mcp_expose"], everyone["params"][0]["item_kind"]) == (False, "bigint")
    assert [p["kind"] for p in grow["params"]] == ["string", "bigint"]
    assert stored.get("/queries/validation").json() == {"ok": True, "breakages": [], "warnings": []}


def test_a_read_answers_as_query_does(stored: httpx.Client) -> None:
    sent = {"params": {"name": "bob"}}
    found = stored.post("/queries/by_name", json=sent)
    text = QUERIES.split("query grow")[0]
    same = stored.post("/query", json={"query": text, **sent})
    assert found.json() == same.json()
    assert found.headers["etag"] == same.headers["etag"]
    tag = {"If-None-Match": found.headers["etag"]}
    assert stored.post("/queries/by_name", json=sent, headers=tag).status_code == 304
    rows = stored.post("/queries/everyone", headers={"Accept": "text/csv"})
    assert rows.text.splitlines()[0] == "name"
    assert stored.post("/queries/everyone", headers={"Accept": "image/png"}).status_code == 406


@pytest.mark.parametrize("body", [b"", b"null", b"{}"])
def test_a_body_may_be_left_out(stored: httpx.Client, body: bytes) -> None:
    kind = {"content-type": "application/json"} if body else {}
    answer = stored.post("/queries/everyone", content=body, headers=kind)
    assert answer.json()["row_count"] == len(answer.json()["rows"]) > 0


def test_a_mutation_answers_as_mutate_does_and_keys_protect_it(stored: httpx.Client) -> None:
    sent = {"params": {"name": "bob", "age": "44"}, "message": "grown"}
    first = stored.post("/queries/grow", json=sent, headers={"Idempotency-Key": "g1"})
    assert first.json()["commit"]["message"] == "grown"
    assert (first.json()["query_name"], first.json()["affected_nodes"]) == ("grow", 1)
    again = stored.post("/queries/grow", json=sent, headers={"Idempotency-Key": "g1"})
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json()["commit"] == first.json()["commit"]
    other = {"params": {"name": "bob", "age": 45}}
    body = stored.post("/queries/grow", json=other, headers={"Idempotency-Key": "g1"})
    assert (body.status_code, "idempotency_conflict" in body.json()) == (409, True)


def test_the_conditional_route(stored: httpx.Client) -> None:
    head = stored.get("/commits").json()["commits"][0]["graph_commit_id"]
    sent = {"params": {"name": "bob", "age": 50}}
    where = {"Omnigraph-If-Graph-Commit": head}
    refused(stored.post("/queries/grow", json=sent, headers=where), 400, "if-graph-commit")
    path = "/queries/grow/if-graph-commit"
    refused(stored.post(path, json=sent), 400, "exactly once")
    assert stored.post(path, json=sent, headers=where).status_code == 200
    lost = stored.post(path, json=sent, headers=where)
    assert (lost.status_code, lost.json()["precondition_failure"]["expected"]) == (412, head)
    read = stored.post("/queries/everyone/if-graph-commit", headers=where)
    refused(read, 400, "only reads")
    for _ in range(4):  # also when the answer is kept
        assert stored.post("/queries/everyone", json={}).status_code == 200
    refused(stored.post("/queries/everyone", json={}, headers=where), 400, "if-graph-commit")
    no_key = {"Idempotency-Key": "x" * 200}
    refused(stored.post("/queries/everyone", json={}, headers=no_key), 400, "Idempotency-Key")


def test_wrong_requests_change_nothing(stored: httpx.Client) -> None:
    head = stored.get("/commits").json()["commits"][0]["graph_commit_id"]
    bob = {"name": "bob", "age": 1}
    wrong: list[tuple[str, Any, str]] = [
        ("grow", {"params": {"name": "bob"}}, "$age"),
        ("grow", {"params": {**bob, "age": "x"}}, "$age"),
        ("grow", {"params": {**bob, "extra": 1}}, "$extra"),
        ("grow", {"params": bob, "snapshot": head}, "snapshot"),
        ("grow", {"params": bob, "branch": "main", "snapshot": head}, "not both"),
        ("grow", {"params": bob, "expect_mutation": False}, "mutate"),
        ("grow", {"params": bob, "unknown": 1}, "unknown"),
        ("grow", {"params": [1]}, "params"),
        ("everyone", {"expect_mutation": True}, "query"),
        ("everyone", {"timeout_ms": 0}, "timeout_ms"),
        ("everyone", {"params": {"day": "tomorrow"}}, "$day"),
    ]
    for name, body, told in wrong:
        refused(stored.post(f"/queries/{name}", json=body), 400, told)
    assert stored.get("/commits").json()["commits"][0]["graph_commit_id"] == head


def test_a_plan_names_the_queries_that_break(stored: httpx.Client) -> None:
    source = stored.get("/schema").json()["schema_source"]
    sent = {"schema_source": source.replace("age: I64?", ""), "allow_data_loss": True}
    plan = stored.post("/schema/plan", json=sent).json()
    assert sorted(q["name"] for q in plan["stored_queries"]) == ["by_name", "grow"]


@dataclass
class SomeQueries:
    """A gate that lets everyone read and change, and run only these stored queries."""

    names: tuple[str, ...]

    def require(
        self,
        actor: str | None,
        action: str,
        branch: str | None,
        target: str | None,
        query: str | None = None,
    ) -> None:
        if not self.allows(actor, action, branch, target, query):
            raise PolicyDenied("no", action=action, actor_id=actor)

    def allows(
        self,
        actor: str | None,
        action: str,
        branch: str | None,
        target: str | None = None,
        query: str | None = None,
    ) -> bool:
        return action != "invoke_query" or query in self.names

    def scope(
        self, actor: str | None, action: str, branch: str | None, catalog: Catalog
    ) -> DataScope | None:
        return None


def test_a_denied_query_is_an_unknown_one(queries: Path, tmp_path: Path) -> None:
    uri = str(tmp_path / "graph.omni")
    create_small_graph(uri).close()
    with ThreadServer(uri, engine=settings(), queries=(("default", str(queries)),)) as running:
        (served,) = running.state.graphs
        served.graph = served.graph.as_actor(None, gate=SomeQueries(("everyone",)))
        served._handles.clear()
        with running.graph_client() as client:
            assert [q["name"] for q in client.get("/queries").json()["queries"]] == ["everyone"]
            assert client.post("/queries/everyone").status_code == 200
            sent: dict[str, Any] = {"json": {"params": {"name": "bob"}}, "headers": ID}
            denied = client.post("/queries/by_name", **sent)
            unknown = client.post("/queries/by_nome", **sent)
            assert (denied.status_code, denied.content) == (404, unknown.content)
            assert client.post("/queries/grow", json={}, headers=ID).content == denied.content
            source = client.get("/schema").json()["schema_source"]
            change = {"schema_source": source.replace("age: I64?", ""), "allow_data_loss": True}
            assert client.post("/schema/plan", json=change).json()["stored_queries"] == []


def test_tokens_without_a_policy_hide_stored_queries(queries: Path, tmp_path: Path) -> None:
    uri = str(tmp_path / "graph.omni")
    create_small_graph(uri).close()
    told = {"queries": (("default", str(queries)),), "tokens": json.dumps({"ada": "a"})}
    with (
        ThreadServer(uri, engine=settings(), **told) as running,
        running.graph_client(token="a") as client,
    ):
        assert client.get("/queries").json() == {"queries": []}
        assert client.post("/queries/everyone").status_code == 404


def test_a_graph_whose_stored_queries_do_not_compile_is_not_served(tmp_path: Path) -> None:
    create_small_graph(str(tmp_path / "graph.omni")).close()
    (tmp_path / "q.gq").write_text("query odd() { match { $p: Nobody } return { $p.name } }")
    told = ServerSettings(unauthenticated=True, queries=(("g", str(tmp_path)),))
    state = build_state({"g": str(tmp_path / "graph.omni")}, told, {}, settings())
    with pytest.raises(InvalidArgument, match="odd"):
        open_graphs(state)
    assert state.graphs.quarantined["g"].code == "query_typecheck_error"


def test_a_reload_reads_the_directory_again(queries: Path, tmp_path: Path) -> None:
    uri, folder = str(tmp_path / "graph.omni"), tmp_path / "queries"
    create_small_graph(uri).close()
    folder.mkdir()
    (folder / "a.gq").write_text(QUERIES)
    with (
        ThreadServer(uri, engine=settings(), queries=(("default", str(folder)),)) as running,
        running.graph_client() as client,
    ):
        (folder / "b.gq").write_text("query two() { match { $p: Person } return { $p.name } }")
        assert reload_state(running.state)["reloaded"]
        assert client.post("/queries/two").status_code == 200
        (folder / "b.gq").write_text("query two() { match { $p: Nobody } return { $p.name } }")
        assert not reload_state(running.state)["reloaded"]
        assert client.post("/queries/two").status_code == 200  # the old ones stay


def test_a_key_outlives_the_text_of_its_query(tmp_path: Path) -> None:
    """The repetition has the first answer, although an operator changed the query meanwhile."""
    uri, folder = str(tmp_path / "graph.omni"), tmp_path / "queries"
    create_small_graph(uri).close()
    folder.mkdir()
    file = folder / "people.gq"
    file.write_text(QUERIES)
    sent = {"params": {"name": "ada", "age": 50}}
    key = {"Idempotency-Key": "grow"}
    with (
        ThreadServer(uri, engine=settings(), queries=(("default", str(folder)),)) as server,
        server.graph_client() as http,
    ):
        first = http.post("/queries/grow", json=sent, headers=key).json()
        file.write_text(QUERIES.replace("set { age: $age }", "set { age: 7 }"))
        reload_state(server.state)
        again = http.post("/queries/grow", json=sent, headers=key)
        assert again.json() == {**first, "repeated": True}
        assert again.headers["idempotency-replayed"] == "true"
        other = http.post("/queries/grow", json={"params": {"name": "bob", "age": 50}}, headers=key)
        assert other.json()["idempotency_conflict"] == {"key": "grow"}
        found = http.post("/queries/by_name", json={"params": {"name": "ada"}}).json()["rows"]
        assert found == [{"name": "ada", "age": 50}]
        assert http.post("/queries/grow", json=sent).json()["affected_nodes"] == 1


def test_a_mutation_does_not_run_on_the_event_loop(
    queries: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even after runs that were fast, because they were refused or changed nothing."""
    threads: list[threading.Thread] = []

    def note(name: str) -> None:
        threads.append(threading.current_thread())

    monkeypatch.setattr("omnigraph.server.application._INLINE_SECONDS", 60.0)
    told = (("default", str(queries)),)
    with ThreadServer(uri, queries=told) as running, running.graph_client() as http:
        for params in ({}, {"name": "nobody", "age": 1}):
            for _ in range(5):
                http.post("/queries/grow", json={"params": params})
        monkeypatch.setattr(failpoints, "hit", note)
        grown = http.post("/queries/grow", json={"params": {"name": "ada", "age": 40}})
        assert grown.json()["affected_nodes"] == 1, grown.text
        assert threads
        assert running._thread not in threads
