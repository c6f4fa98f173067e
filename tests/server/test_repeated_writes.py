"""A second request with a key, on each route that takes one: the first answer, and nothing twice.

Between the two requests the graph changes in a way that would lead to another answer.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import httpx
import msgspec
import pytest

from omnigraph.server.route_entry import RouteEntry
from omnigraph.server.route_table import ROUTES
from omnigraph_testing.http_server import ThreadServer
from omnigraph_testing.workloads import create_small_graph, settings

TAKE_KEYS = {entry.operation_id: entry for entry in ROUTES if entry.takes_key and entry.listed}
ADD = "query add($name: String) { insert Person { name: $name } }"
NDJSON = {"Content-Type": "application/x-ndjson"}
TAR = {"Content-Type": "application/x-tar"}
FORWARD = "fast_forward"


@dataclass(frozen=True)
class Write:
    """A request, another one that must not have its key, and what happens before it is repeated."""

    method: str
    path: str
    body: Any = None
    content: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    other: dict[str, Any] = field(default_factory=dict)
    meanwhile: Callable[[httpx.Client], object] = lambda _: None

    def send(self, http: httpx.Client, key: str, **changed: Any) -> httpx.Response:
        asked = {"path": self.path, "body": self.body, "content": self.content} | changed
        sent: dict[str, Any] = {"headers": {**self.headers, "Idempotency-Key": key}}
        if asked["content"] is not None:
            sent["content"] = asked["content"]
        elif asked["body"] is not None:
            sent["json"] = asked["body"]
        return http.request(self.method, asked["path"], **sent)


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("repeated")
    (folder / "queries").mkdir()
    (folder / "queries" / "people.gq").write_text(ADD)
    uri = str(folder / "graph.omni")
    create_small_graph(uri).close()
    stored = (("default", str(folder / "queries")),)
    with (
        ThreadServer(uri, engine=settings(), queries=stored) as server,
        server.graph_client() as client,
    ):
        yield client


def made(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def add(http: httpx.Client, name: str, branch: str = "main") -> str:
    body = {"query": ADD, "params": {"name": name}, "branch": branch}
    commit: str = made(http.post("/mutate", json=body))["commit"]["graph_commit_id"]
    return commit


def fork(http: httpx.Client, name: str) -> None:
    made(http.post("/branches", json={"name": name}))


def schema_with(http: httpx.Client, line: str, branch: str = "main") -> str:
    text: str = made(http.get("/schema", params={"branch": branch}))["schema_source"]
    return text.replace("node Person {", f"node Person {{\n  {line}", 1)


def archive(name: str) -> bytes:
    sink = io.BytesIO()
    members = {
        "sources.json": json.dumps([{"file": "people.ndjson"}]).encode(),
        "people.ndjson": json.dumps({"type": "Person", "data": {"name": name}}).encode(),
    }
    with tarfile.open(fileobj=sink, mode="w") as packed:
        for member, content in members.items():
            info = tarfile.TarInfo(member)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    return sink.getvalue()


def lines(name: str) -> bytes:
    return json.dumps({"type": "Person", "data": {"name": name}}).encode() + b"\n"


# One function for each route: what it needs is made, and its request returned


def mutate(http: httpx.Client, path: str = "/mutate") -> Write:
    def body(name: str) -> dict[str, Any]:
        return {"query": ADD, "params": {"name": name}}

    return Write(
        "POST",
        path,
        body(path),
        other={"body": body("another")},
        meanwhile=lambda http: made(
            http.post("/mutate", json={"query": f'delete Person where name = "{path}"'})
        ),
    )


def on_head(http: httpx.Client, write: Write) -> Write:
    head = made(http.get("/commits"))["commits"][0]["graph_commit_id"]
    headers = {**write.headers, "Omnigraph-If-Graph-Commit": head}
    return Write(**{**vars(write), "path": f"{write.path}/if-graph-commit", "headers": headers})


def invoke(http: httpx.Client) -> Write:
    return Write(
        "POST",
        "/queries/add",
        {"params": {"name": "stored"}},
        other={"body": {"params": {"name": "another"}}},
        meanwhile=lambda http: made(
            http.post("/mutate", json={"query": 'delete Person where name = "stored"'})
        ),
    )


def apply_schema(http: httpx.Client) -> Write:
    def later(http: httpx.Client) -> None:
        source = schema_with(http, "later: String?")
        made(http.post("/schema/apply", json={"schema_source": source}))

    return Write(
        "POST",
        "/schema/apply",
        {"schema_source": schema_with(http, "first: String?"), "message": "first"},
        other={"body": {"schema_source": schema_with(http, "another: String?")}},
        meanwhile=later,
    )


def create_branch(http: httpx.Client) -> Write:
    def gone(http: httpx.Client) -> None:
        add(http, "on the new branch", "new")
        made(http.delete("/branches/new"))

    return Write(
        "POST", "/branches", {"name": "new"}, other={"body": {"name": "other"}}, meanwhile=gone
    )


def merge_branches(http: httpx.Client) -> Write:
    fork(http, "source")
    add(http, "merged", "source")
    return Write(
        "POST",
        "/branches/merge",
        {"source": "source", "delete_branch": True},
        other={"body": {"source": "source"}},
        meanwhile=lambda http: fork(http, "source"),  # another one of this name
    )


def rename_branch(http: httpx.Client) -> Write:
    fork(http, "before")
    return Write(
        "POST",
        "/branches/rename",
        {"name": "before", "new_name": "after"},
        other={"body": {"name": "before", "new_name": "elsewhere"}},
        meanwhile=lambda http: add(http, "renamed", "after"),
    )


def delete_branch(http: httpx.Client) -> Write:
    fork(http, "old")
    fork(http, "kept")
    return Write(
        "DELETE",
        "/branches/old",
        other={"path": "/branches/kept"},
        meanwhile=lambda http: fork(http, "old"),
    )


def create_tag(http: httpx.Client) -> Write:
    return Write(
        "POST",
        "/tags",
        {"name": "v1"},
        other={"body": {"name": "v2"}},
        meanwhile=lambda http: made(http.delete("/tags/v1")),
    )


def delete_tag(http: httpx.Client) -> Write:
    for name in ("old-tag", "kept-tag"):
        made(http.post("/tags", json={"name": name}))
    return Write(
        "DELETE",
        "/tags/old-tag",
        other={"path": "/tags/kept-tag"},
        meanwhile=lambda http: made(http.post("/tags", json={"name": "old-tag"})),
    )


def revert(http: httpx.Client) -> Write:
    commit, another = add(http, "undone"), add(http, "another undone")
    return Write(
        "POST",
        f"/commits/{commit}/revert",
        {},
        other={"path": f"/commits/{another}/revert"},
        meanwhile=lambda http: add(http, "undone"),
    )


def cherry_pick(http: httpx.Client) -> Write:
    fork(http, "orchard")
    commit, another = add(http, "picked", "orchard"), add(http, "not picked", "orchard")
    return Write(
        "POST",
        f"/commits/{commit}/cherry-pick",
        {},
        other={"path": f"/commits/{another}/cherry-pick"},
        meanwhile=lambda http: made(http.delete("/branches/orchard")),
    )


def apply_edits(http: httpx.Client) -> Write:
    def body(name: str) -> dict[str, Any]:
        return {"edits": {"Person": {"insert": [{"name": name}]}}}

    return Write("POST", "/apply", body("edited"), other={"body": body("another edit")})


def load_stream(http: httpx.Client) -> Write:
    return Write(
        "POST",
        "/load/ndjson?branch=forked&from=main&mode=append",
        content=lines("streamed"),
        headers=NDJSON,
        other={"content": lines("another streamed")},
        meanwhile=lambda http: add(http, "beside", "forked"),
    )


def load_files(http: httpx.Client) -> Write:
    return Write(
        "POST",
        "/load/files?mode=append",
        content=archive("archived"),
        headers=TAR,
        other={"content": archive("another archived")},
    )


def load(http: httpx.Client, path: str = "/load") -> Write:
    def body(name: str) -> dict[str, Any]:
        return {"data": lines(name).decode(), "branch": f"of{path[1:]}", "from": "main"}

    return Write("POST", path, body(path), other={"body": body("another")})


PREPARE: dict[str, Callable[[httpx.Client], Write]] = {
    "mutate": mutate,
    "mutate_if_graph_commit": lambda http: on_head(http, mutate(http)),
    "change": lambda http: mutate(http, "/change"),
    "invoke_query": invoke,
    "invoke_query_if_graph_commit": lambda http: on_head(http, invoke(http)),
    "applySchema": apply_schema,
    "createBranch": create_branch,
    "mergeBranches": merge_branches,
    "renameBranch": rename_branch,
    "deleteBranch": delete_branch,
    "createTag": create_tag,
    "deleteTag": delete_tag,
    "revertCommit": revert,
    "cherryPickCommit": cherry_pick,
    "applyEdits": apply_edits,
    "loadNdjson": load_stream,
    "loadFiles": load_files,
    "load": load,
    "ingest": lambda http: load(http, "/ingest"),
}


def everything(http: httpx.Client) -> list[Any]:
    """What a write could change: branches with their heads, tags, and the schema of main."""
    return [
        made(http.get("/branches")),
        made(http.get("/tags")),
        made(http.get("/commits?limit=1000")),
        made(http.get("/schema"))["schema_id"],
    ]


def require_fit(answer: httpx.Response, entry: RouteEntry) -> None:
    """The answer has the members that the OpenAPI document promises; `repeated` is one of them."""
    kinds = get_args(entry.answer) or (entry.answer,)
    fitting = []
    for kind in kinds:
        with suppress(msgspec.ValidationError):
            fitting.append(msgspec.convert(made(answer), kind))
    assert fitting, answer.text
    named = {field.encode_name for field in msgspec.structs.fields(fitting[0])}
    assert made(answer).keys() & {"repeated"} <= named


def told(answer: httpx.Response) -> dict[str, Any]:
    """Without what a repetition does not know: where the work ran."""
    return _without_repeated(made(answer))


def _without_repeated(found: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_repeated(value) if isinstance(value, dict) else value
        for name, value in found.items()
        if name not in ("repeated", "engine_reason")
    }


@pytest.mark.parametrize("operation", TAKE_KEYS)
def test_a_repeated_write_has_the_first_answer(http: httpx.Client, operation: str) -> None:
    entry, write = TAKE_KEYS[operation], PREPARE[operation](http)
    first = write.send(http, operation)
    assert "idempotency-replayed" not in first.headers
    require_fit(first, entry)
    write.meanwhile(http)
    before = everything(http)
    again = write.send(http, operation)
    assert told(again) == told(first)
    assert again.headers["idempotency-replayed"] == "true"
    require_fit(again, entry)
    other = write.send(http, operation, **write.other)
    assert other.status_code == 409, other.text
    assert other.json()["code"] == "conflict"
    assert other.json()["idempotency_conflict"] == {"key": operation}
    assert everything(http) == before


def test_a_saved_plan_is_repeated(http: httpx.Client) -> None:
    """The schema that the plan was made for is no longer in force then."""
    source = {"schema_source": schema_with(http, "planned: String?")}
    plan = {"plan": made(http.post("/schema/plan", json=source))}
    write = Write("POST", "/schema/apply", plan)
    first = write.send(http, "plan")
    assert first.json()["steps"][0]["text"] == "add Person.planned: String?"
    before = everything(http)
    again = write.send(http, "plan")
    assert told(again) == told(first)
    assert again.json()["repeated"]
    assert everything(http) == before


def nothing_to_do(http: httpx.Client) -> dict[str, Write]:
    source = made(http.get("/schema"))["schema_source"]
    made(http.post("/schema/apply", json={"schema_source": source}))  # a text was generated before
    fork(http, "equal")
    return {
        "schema": Write("POST", "/schema/apply", {"schema_source": source}),
        "apply": Write("POST", "/apply", {"edits": {"Note": {"delete": ["later"]}}}),
        "merge": Write("POST", "/branches/merge", {"source": "equal"}),
        "load": Write(
            "POST",
            "/load/ndjson?mode=merge",
            content=b'{"type": "Note", "data": {"id": "n0", "text": "first"}}\n',
            headers=NDJSON,
        ),
    }


def test_a_write_without_an_effect_is_remembered(http: httpx.Client) -> None:
    """Its repetition must not do what the first one had no reason to do."""
    writes = nothing_to_do(http)
    first = {name: write.send(http, "nothing") for name, write in writes.items()}
    assert [made(answer)["commit"] for answer in first.values()] == [None] * len(writes)
    changed = {"Note": {"upsert": [{"id": "later", "text": "x"}, {"id": "n0", "text": "other"}]}}
    made(http.post("/apply", json={"edits": changed}))
    add(http, "later", "equal")
    body = {"schema_source": schema_with(http, "since: String?")}
    made(http.post("/schema/apply", json=body))
    before = everything(http)
    for name, write in writes.items():
        again = write.send(http, "nothing")
        assert told(again) == told(first[name]), name
        assert again.headers["idempotency-replayed"] == "true", name
    assert everything(http) == before


@pytest.mark.parametrize("operation", ["applySchema", "applyEdits", "mutate"])
def test_a_key_belongs_to_no_branch(http: httpx.Client, operation: str) -> None:
    """The same key on a branch that does not have the commit is another request, too."""
    fork(http, f"older-{operation}")
    bodies = {
        "applySchema": {"schema_source": schema_with(http, "branched: String?")},
        "applyEdits": {"edits": {"Person": {"insert": [{"name": "branched"}]}}},
        "mutate": {"query": ADD, "params": {"name": "branched too"}},
    }
    write = Write("POST", TAKE_KEYS[operation].path, bodies[operation])
    made(write.send(http, "branched"))
    body = {**bodies[operation], "branch": f"older-{operation}"}
    other = write.send(http, "branched", body=body)
    assert other.status_code == 409, other.text
    assert other.json()["idempotency_conflict"] == {"key": "branched"}


RULES = """
version: 1
groups: {people: [ada], ops: [root]}
rules:
  - id: all-but-delete
    allow: {actors: {group: people}, actions: [read, change, branch_create, branch_merge]}
  - id: all
    allow:
      actors: {group: ops}
      actions: [read, change, branch_create, branch_merge, branch_delete]
"""


@pytest.mark.parametrize(("actor", "deleted"), [("ada", False), ("root", True)])
def test_a_merge_under_rules_is_told_again(tmp_path: Path, actor: str, deleted: bool) -> None:
    """With the error of a source that could not be deleted, and without one that is gone."""
    rules, uri = tmp_path / "policy.yaml", str(tmp_path / "graph.omni")
    rules.write_text(RULES)
    create_small_graph(uri).close()
    tokens = json.dumps({"ada": "of ada", "root": "of root"})
    policies = (("default", str(rules)),)
    with (
        ThreadServer(uri, engine=settings(), tokens=tokens, policies=policies) as server,
        server.graph_client(token=f"of {actor}") as http,
    ):
        fork(http, "side")
        add(http, "merged", "side")
        write = Write("POST", "/branches/merge", {"source": "side", "delete_branch": True})
        first = write.send(http, "side")
        assert (first.json()["branch_deleted"], first.json()["outcome"]) == (deleted, FORWARD)
        assert ("branch_delete" in (first.json()["branch_delete_error"] or "")) is not deleted
        assert told(write.send(http, "side")) == told(first)
