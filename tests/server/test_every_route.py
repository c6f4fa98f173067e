"""Each route of the document answers with the members that the document promises.

Without a token, for another graph, or with a wrong method each of them answers with the envelope.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any, get_args

import httpx
import msgspec
import pytest

import omnigraph
from omnigraph.policy.actions import ADMIN, GRAPH_ACTIONS, GRAPH_LIST
from omnigraph.server.answers import OperationOutput
from omnigraph.server.route_entry import GRAPH, RouteEntry
from omnigraph.server.route_table import ROUTES
from omnigraph_testing.http_server import ThreadServer, wait_until
from omnigraph_testing.workloads import settings

LISTED = {entry.operation_id: entry for entry in ROUTES if entry.listed}
SCHEMA = """
node Person { name: String @key  age: I64?  photo: Blob? }
node Note { text: String }
edge Knows: Person -> Person
"""
READ = "match { $p: Person } return { $p.name as name } order { name }"
ADD = "query add($name: String) { insert Person { name: $name } }"
STORED = f"{ADD}\nquery people() {{ {READ} }}"
NDJSON = {"Content-Type": "application/x-ndjson"}
TAR = {"Content-Type": "application/x-tar"}
TOKEN = "secret"
Sent = tuple[str, dict[str, Any]]


def rules(actions: tuple[str, ...]) -> str:
    allow = {"actors": {"group": "all"}, "actions": list(actions)}
    groups = {"all": ["root"]}
    body = {"version": 1, "groups": groups, "rules": [{"id": "all", "allow": allow}]}
    return json.dumps(body)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    folder = tmp_path_factory.mktemp("routes")
    (folder / "graph.yaml").write_text(rules(GRAPH_ACTIONS))
    (folder / "server.yaml").write_text(rules((GRAPH_LIST, ADMIN)))
    (folder / "queries").mkdir()
    (folder / "queries" / "people.gq").write_text(STORED)
    uri = str(folder / "graph.omni")
    with omnigraph.init(uri, SCHEMA, settings=settings()) as graph:
        people = [{"name": "ada", "age": 1, "photo": b"picture"}, {"name": "bob"}]
        graph.apply({"Person": {"insert": people}})
        graph.apply({"Knows": {"insert": [{"from": "ada", "to": "bob"}]}})
    with ThreadServer(
        uri,
        engine=settings(),
        tokens=json.dumps({"root": TOKEN}),
        policies=(("default", str(folder / "graph.yaml")),),
        server_policies=(str(folder / "server.yaml"),),
        queries=(("default", str(folder / "queries")),),
    ) as running:
        yield running


@pytest.fixture(scope="module")
def http(server: ThreadServer) -> Iterator[httpx.Client]:
    with server.client(TOKEN) as client:
        yield client


@pytest.fixture(scope="module")
def graph(server: ThreadServer) -> Iterator[httpx.Client]:
    with server.graph_client(token=TOKEN) as client:
        yield client


# What each route is sent


def to(path: str, **sent: Any) -> Callable[[httpx.Client], Sent]:
    return lambda _: (path, sent)


_numbers = count()


def add(graph: httpx.Client, branch: str = "main") -> str:
    """Insert another person; the commit."""
    body = {"query": ADD, "params": {"name": f"person {next(_numbers)}"}, "branch": branch}
    commit: str = graph.post("/mutate", json=body).json()["commit"]["graph_commit_id"]
    return commit


def head(graph: httpx.Client) -> str:
    found: str = graph.get("/commits").json()["commits"][0]["graph_commit_id"]
    return found


def on_branch(graph: httpx.Client, name: str) -> str:
    assert graph.post("/branches", json={"name": name}).status_code == 200
    return add(graph, name)


def merge(graph: httpx.Client) -> Sent:
    on_branch(graph, "source")
    return "/branches/merge", {"json": {"source": "source", "delete_branch": True}}


def rename(graph: httpx.Client) -> Sent:
    on_branch(graph, "before")
    return "/branches/rename", {"json": {"name": "before", "new_name": "after"}}


def delete_branch(graph: httpx.Client) -> Sent:
    on_branch(graph, "review/x")
    return "/branches/review%2Fx", {}


def delete_tag(graph: httpx.Client) -> Sent:
    graph.post("/tags", json={"name": "gone"})
    return "/tags/gone", {}


def conditional(path: str, body: Any) -> Callable[[httpx.Client], Sent]:
    return lambda graph: (
        path,
        {"json": body, "headers": {"Omnigraph-If-Graph-Commit": head(graph)}},
    )


def of_commit(end: str, **sent: Any) -> Callable[[httpx.Client], Sent]:
    return lambda graph: (f"/commits/{add(graph)}{end}", sent)


def cherry_pick(graph: httpx.Client) -> Sent:
    return f"/commits/{on_branch(graph, 'orchard')}/cherry-pick", {"json": {}}


def operation(graph: httpx.Client) -> str:
    answer = graph.post("/optimize", json={}, headers={"Prefer": "respond-async"})
    assert answer.status_code == 202, answer.text
    found = msgspec.convert(answer.json(), OperationOutput)
    ended(graph, found.operation_id)
    return found.operation_id


def ended(graph: httpx.Client, operation_id: str) -> dict[str, Any]:
    def shown() -> dict[str, Any]:
        found: dict[str, Any] = graph.get(f"/operations/{operation_id}").json()
        return found

    wait_until(lambda: shown()["status"] not in ("queued", "running"))
    return shown()


def archive() -> bytes:
    sink = io.BytesIO()
    members = {
        "sources.json": b'[{"file": "people.ndjson"}]',
        "people.ndjson": b'{"type": "Person", "data": {"name": "archived"}}',
    }
    with tarfile.open(fileobj=sink, mode="w") as packed:
        for member, content in members.items():
            info = tarfile.TarInfo(member)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    return sink.getvalue()


def wider(path: str, name: str) -> Callable[[httpx.Client], Sent]:
    def sent(graph: httpx.Client) -> Sent:
        source = graph.get("/schema").json()["schema_source"]
        changed = source.replace("node Note {", f"node Note {{\n  {name}: String?", 1)
        return path, {"json": {"schema_source": changed}}

    return sent


LINE = '{"type": "Person", "data": {"name": "loaded"}}\n'
BLOB = "/blob?entity=node&type=Person&id=ada&property=photo"
PARAMS = {"params": {"name": "stored"}}
SENT: dict[str, Callable[[httpx.Client], Sent]] = {
    "query": to("/query", json={"query": READ}),
    "read": to("/read", json={"query_source": READ}),
    "explain": to("/explain", json={"query": READ}),
    "profile": to("/profile", json={"query": READ}),
    "list_queries": to("/queries"),
    "validate_queries": to("/queries/validation"),
    "invoke_query": to("/queries/people"),
    "invoke_query_if_graph_commit": conditional("/queries/add/if-graph-commit", PARAMS),
    "mutate": to("/mutate", json={"query": ADD, "params": {"name": "m"}}),
    "mutate_if_graph_commit": conditional("/mutate/if-graph-commit", {"query": ADD, **PARAMS}),
    "change": to("/change", json={"query_source": ADD, "params": {"name": "c"}}),
    "applySchema": wider("/schema/apply", "applied"),
    "getSchema": to("/schema"),
    "planSchema": wider("/schema/plan", "planned"),
    "listBranches": to("/branches"),
    "createBranch": to("/branches", json={"name": "made"}),
    "mergeBranches": merge,
    "renameBranch": rename,
    "deleteBranch": delete_branch,
    "listTags": to("/tags"),
    "createTag": to("/tags", json={"name": "v1"}),
    "deleteTag": delete_tag,
    "getSnapshot": to("/snapshot"),
    "listCommits": to("/commits?limit=1"),
    "getCommit": of_commit(""),
    "revertCommit": of_commit("/revert", json={}),
    "cherryPickCommit": cherry_pick,
    "diff": lambda graph: (f"/diff?from={head(graph)}&to=main", {}),
    "optimize": to("/optimize", json={}),
    "cleanup": to("/cleanup", json={}),
    "getStatus": to("/status"),
    "listRecoveries": to("/recoveries"),
    "listOperations": lambda graph: (f"/operations?status=succeeded#{operation(graph)}", {}),
    "getOperation": lambda graph: (f"/operations/{operation(graph)}", {}),
    "applyEdits": to("/apply", json={"edits": {"Note": {"insert": [{"text": "x"}]}}}),
    "embed": to("/embed", json={}),
    "listIndexes": to("/indexes"),
    "buildIndexes": to("/indexes", json={}),
    "verify": to("/verify", json={"commits": 1}),
    "getSchemaSteps": of_commit("/schema-steps"),
    "diffSchemas": to("/schema/diff?from=main"),
    "listSchemaVersions": to("/schema/history"),
    "loadNdjson": to("/load/ndjson", content=LINE, headers=NDJSON),
    "loadFiles": to("/load/files", content=archive(), headers=TAR),
    "load": to("/load", json={"data": LINE}),
    "ingest": to("/ingest", json={"data": LINE}),
    "export": to("/export", json={}),
    "readEntities": to("/entities", json={"type": "Person"}),
    "captureChangeBaseline": to("/changes/baseline", json={}),
    "pollChanges": to("/changes?start=beginning"),
    "pollChangeBaseline": to("/changes/baseline"),
    "getCommitChanges": of_commit("/changes"),
    "getBlob": to(BLOB),
    "headBlob": to(BLOB),
    "mcp": to("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    "health": to("/healthz"),
    "readiness": to("/readyz"),
    "listGraphs": to("/graphs"),
    "reload": to("/admin/reload"),
}
LATER = {"applySchema": wider("/schema/apply", "later")}
"""What is sent another time, where the same request has no work left."""
HAS_REQUEST = [name for name in LISTED if name != "cancelOperation"]
"""An operation that can be cancelled is in `test_operations`."""


def fits(body: Any, entry: RouteEntry) -> bool:
    for kind in get_args(entry.answer) or (entry.answer,):
        with suppress(msgspec.ValidationError):
            msgspec.convert(body, kind)
            return True
    return False


@pytest.mark.parametrize("operation_id", HAS_REQUEST)
def test_an_answer_is_as_the_document_says(
    http: httpx.Client, graph: httpx.Client, operation_id: str
) -> None:
    entry = LISTED[operation_id]
    path, sent = SENT[operation_id](graph)
    client = graph if entry.place == GRAPH else http
    answer = client.request(entry.method, path, **sent)
    assert answer.status_code == 200, answer.text
    assert answer.headers["omnigraph-http-api"] == "1"
    assert answer.headers["content-type"].partition(";")[0] == entry.media[0]
    deprecated = f'<{entry.successor}>; rel="successor-version"' if entry.successor else None
    assert answer.headers.get("link") == deprecated
    assert answer.headers.get("deprecation") == ("true" if deprecated else None)
    assert entry.method == "HEAD" or answer.content
    if entry.answer is not None:
        assert fits(answer.json(), entry), answer.text


ANSWER_LATER = [name for name in HAS_REQUEST if LISTED[name].is_async_work]


def test_routes_that_may_answer_later() -> None:
    """Those of the contract, and the other loads."""
    wanted = ("loadNdjson", "mergeBranches", "applySchema", "optimize", "cleanup", "revertCommit")
    assert {*wanted, "load", "ingest", "loadFiles"} == set(ANSWER_LATER)


@pytest.mark.parametrize("operation_id", ANSWER_LATER)
def test_an_answer_that_comes_later_is_the_same(graph: httpx.Client, operation_id: str) -> None:
    entry = LISTED[operation_id]
    path, sent = LATER.get(operation_id, SENT[operation_id])(graph)
    headers = {**sent.pop("headers", {}), "Prefer": "respond-async"}
    answer = graph.request(entry.method, path, headers=headers, **sent)
    assert answer.status_code == 202, answer.text
    assert answer.headers["preference-applied"] == "respond-async"
    found = msgspec.convert(answer.json(), OperationOutput)
    place = f"/operations/{found.operation_id}"
    assert answer.headers["location"] == f"/graphs/default{place}"
    done = ended(graph, found.operation_id)
    assert (done["status"], done["kind"], done["actor_id"]) == ("succeeded", operation_id, "root")
    assert done["created_at"] <= done["started_at"] <= done["finished_at"]
    assert fits(done["result"], entry), done
    late = graph.delete(place)
    assert (late.status_code, late.json()["code"]) == (409, "conflict")


READS = [name for name in HAS_REQUEST if LISTED[name].place == GRAPH and not LISTED[name].admission]


@pytest.mark.parametrize("operation_id", READS)
def test_a_flat_route_is_the_nested_one(
    http: httpx.Client, graph: httpx.Client, operation_id: str
) -> None:
    entry = LISTED[operation_id]
    path, sent = SENT[operation_id](graph)
    nested, flat = (client.request(entry.method, path, **sent) for client in (graph, http))
    assert flat.status_code == nested.status_code == 200, flat.text
    assert flat.headers["deprecation"] == "true"
    successor = f"/{entry.successor}" if entry.successor else path.partition("?")[0].split("#")[0]
    assert flat.headers["link"] == f'</graphs/default{successor}>; rel="successor-version"'
    assert flat.headers["content-type"] == nested.headers["content-type"]
    if operation_id != "profile":  # it has times
        assert flat.content == nested.content


@pytest.mark.parametrize("path", ["/query", "/schema", "/branches", "/snapshot"])
def test_a_state_that_the_client_has_is_not_sent_again(graph: httpx.Client, path: str) -> None:
    sent: dict[str, Any] = {"json": {"query": READ}} if path == "/query" else {}
    method = "POST" if sent else "GET"
    tag = graph.request(method, path, **sent).headers["etag"]
    assert tag.startswith('W/"')
    for held in (tag, f'"other", {tag}', "*"):
        again = graph.request(method, path, **sent, headers={"If-None-Match": held})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    other = graph.request(method, path, **sent, headers={"If-None-Match": '"other"'})
    assert other.status_code == 200


GUARDED = [entry for entry in LISTED.values() if entry.place == GRAPH or not entry.public]


@pytest.mark.parametrize("entry", GUARDED, ids=lambda entry: entry.operation_id)
def test_the_order_of_refusals(server: ThreadServer, http: httpx.Client, entry: RouteEntry) -> None:
    """The method, then the token, then the graph; only then is the body looked at."""
    path = re.sub(r"\{(?!graph_id)[^}]*\}", "x", entry.full_path)
    with server.client() as nobody:
        unknown = nobody.request(entry.method, path.replace("{graph_id}", "nowhere"))
        assert unknown.status_code == 401
        assert unknown.headers["www-authenticate"] == 'Bearer realm="omnigraph"'
        wrong = nobody.request("PATCH", path.replace("{graph_id}", "nowhere"))
        assert wrong.status_code == 405
        assert entry.method in wrong.headers["allow"].replace(" ", "").split(",")
    answers = [(unknown, "unauthorized"), (wrong, "method_not_allowed")]
    if entry.place == GRAPH:
        malformed = http.request(entry.method, path.replace("{graph_id}", "no_where"))
        missing = http.request(entry.method, path.replace("{graph_id}", "nowhere"))
        assert (malformed.status_code, missing.status_code) == (400, 404)
        answers += [(malformed, "bad_request"), (missing, "not_found")]
    for answer, code in answers:
        if entry.method != "HEAD" or answer is wrong:
            assert answer.json()["code"] == code
            assert answer.json()["request_id"] == answer.headers["x-request-id"]
