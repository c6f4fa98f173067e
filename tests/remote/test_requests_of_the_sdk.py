"""What the original's TypeScript SDK sends, and what it expects of the answers.

`StockClient` does what the SDK does around `fetch`: its headers, its camel case, its error classes
and its one repetition. The routes are those of both vintages: `/query` and `/read`, below a graph
and at the root.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

import omnigraph
from omnigraph_testing.graph_suite import EXTERNAL, LINES, QUERIES, SCHEMA, STORED
from omnigraph_testing.http_server import ThreadServer
from omnigraph_testing.workloads import settings

SESSION = Path(__file__).parents[1] / "fixtures" / "sdk_session.yaml"
ACCEPT = {"Accept": "application/json, application/x-ndjson"}

OPAQUE = {"params", "rows", "columns", "properties"}
CLASSES = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Gone",
    412: "PreconditionFailed",
    413: "PayloadTooLarge",
    416: "RangeNotSatisfiable",
    424: "FailedDependency",
    503: "ServiceUnavailable",
}
CODES = {
    "unauthorized": "Unauthorized",
    "forbidden": "Forbidden",
    "bad_request": "BadRequest",
    "not_found": "NotFound",
    "method_not_allowed": "MethodNotAllowed",
    "conflict": "Conflict",
    "too_many_requests": "Internal",
    "internal": "Internal",
}
OLDER_CLASSES = {
    "PreconditionFailed": ("Conflict",),
    "PayloadTooLarge": ("BadRequest",),
    "RangeNotSatisfiable": ("BadRequest",),
}
"""Classes of the newer SDK -> those that the older one makes of the `code`."""


@dataclass
class SdkError(Exception):
    """An answer from 400 on, as the SDK raises it."""

    by_status: str
    by_code: str | None
    message: str
    request_id: str
    details: dict[str, Any]


def camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


def snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)


def renamed(value: Any, rule: Any) -> Any:
    if isinstance(value, dict):
        return {
            rule(name): item if snake(name) in OPAQUE else renamed(item, rule)
            for name, item in value.items()
        }
    return [renamed(item, rule) for item in value] if isinstance(value, list) else value


class StockClient:
    """The fetch level of the SDK."""

    def __init__(self, base_url: str) -> None:
        self._http = httpx.Client(base_url=base_url, headers=ACCEPT, trust_env=False)
        self.pauses: list[float] = []
        """Seconds that a server asked for before a repetition."""

    def close(self) -> None:
        self._http.close()

    def fetch(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        content = None if body is None else json.dumps(renamed(body, snake))
        if content is not None:
            headers["Content-Type"] = "application/json"
        answer = self._http.request(method, path, content=content, headers=headers)
        after = answer.headers.get("retry-after")
        if method in ("GET", "HEAD") and answer.status_code == 503 and after is not None:
            self.pauses.append(_seconds(after))
            answer = self._http.request(method, path, content=content, headers=headers)
        assert answer.headers["x-request-id"]
        if answer.status_code >= 400:
            raise self._error(answer)
        return answer

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = self.fetch(method, path, body, **headers)
        assert answer.status_code != 204
        assert answer.headers.get("content-length") != "0"
        assert answer.headers["content-type"].startswith("application/json")
        return renamed(answer.json(), camel)

    def lines(self, path: str, body: Any) -> Iterator[Any]:
        answer = self.fetch("POST", path, body)
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        return (json.loads(line) for line in answer.text.splitlines())

    @staticmethod
    def _error(answer: httpx.Response) -> SdkError:
        body = answer.json()
        code = body.get("code")
        return SdkError(
            CLASSES.get(answer.status_code, "Internal"),
            None if code is None else CODES[code],
            body["error"],
            answer.headers["x-request-id"],
            body,
        )


def _seconds(after: str) -> float:
    """`Retry-After` as the SDK reads it: seconds or a date, at most a minute."""
    if after.isdecimal():
        return min(int(after), 60)
    left = (parsedate_to_datetime(after) - datetime.now(UTC)).total_seconds()
    return min(max(left, 0), 60)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    uri = tmp_path_factory.mktemp("sdk") / "people.omni"
    with omnigraph.init(uri, SCHEMA) as graph:
        graph.load([json.loads(line) for line in LINES.splitlines()])
        graph.branches.create("there")
    with ThreadServer({"people": str(uri)}) as opened:
        yield opened


@pytest.fixture(params=["", "/graphs/people"], ids=["at the root", "below the graph"])
def sdk(server: ThreadServer, request: pytest.FixtureRequest) -> Iterator[StockClient]:
    client = StockClient(server.url + request.param)
    yield client
    client.close()


@pytest.fixture
def nested(server: ThreadServer) -> Iterator[StockClient]:
    client = StockClient(f"{server.url}/graphs/people")
    yield client
    client.close()


def test_the_older_routes(sdk: StockClient) -> None:
    asked = {"branch": "main", "querySource": QUERIES, "queryName": "by_name"}
    found = sdk.call("POST", "/read", {**asked, "params": {"name": "Ada"}})
    assert found["queryName"] == "by_name"
    assert found["rows"][0]["name"] == "Ada"
    assert found["columns"] == ["name", "age", "born", "seen", "scores"]
    assert "graphCommitId" not in found
    grown = {"branch": "main", "querySource": QUERIES, "queryName": "grow"}
    found = sdk.call("POST", "/read", {**asked, "params": {"name": "Bob"}})
    older = {"name": "Bob", "by": found["rows"][0]["age"] + 1}
    receipt = sdk.call("POST", "/change", {**grown, "params": older})
    assert (receipt["affectedNodes"], receipt["branch"]) == (1, "main")
    line = '{"type": "Company", "data": {"name": "Sdk"}}\n'
    loaded = sdk.call("POST", "/ingest", {"branch": "main", "data": line, "mode": "merge"})
    assert loaded["totalEntities"] == 1
    assert loaded["nodes"][0]["name"] == "Company"


def test_older_routes_name_their_successors(nested: StockClient) -> None:
    body = {"querySource": "match { $p: Person } return { count($p) as n }"}
    answer = nested.fetch("POST", "/read", body)
    assert answer.headers["deprecation"] == "true"
    assert answer.headers["link"] == '<query>; rel="successor-version"'


def test_the_newer_routes(nested: StockClient) -> None:
    asked = {"query": QUERIES, "name": "by_name", "params": {"name": "Ada"}}
    found = nested.call("POST", "/query", asked)
    assert found["graphCommitId"]
    assert found["rowCount"] == 1
    snapshot = nested.call("GET", "/snapshot")
    assert {dataset["typeName"] for dataset in snapshot["datasets"]} >= {"Person", "Knows"}
    assert nested.call("GET", "/branches")["branches"][0] == "main"
    assert nested.call("GET", "/schema")["schemaSource"] == SCHEMA
    commits = nested.call("GET", "/commits")["commits"]
    assert nested.call("GET", f"/commits/{commits[0]['graphCommitId']}") == commits[0]
    changed = nested.call("GET", f"/commits/{commits[0]['graphCommitId']}/changes")
    assert changed["cause"]["graphCommitId"] == commits[0]["graphCommitId"]
    assert nested.call("GET", "/queries") == {"queries": []}


def test_a_conditional_mutation(nested: StockClient) -> None:
    head = nested.call("POST", "/query", {"query": "match { $p: Person } return { $p.name }"})
    body = {"query": QUERIES, "name": "grow", "params": {"name": "Ada", "by": 41}}
    token = {"Omnigraph-If-Graph-Commit": head["graphCommitId"]}
    moved = nested.call("POST", "/mutate/if-graph-commit", body, **token)
    assert moved["commit"]["parentCommitId"] == head["graphCommitId"]
    with pytest.raises(SdkError) as lost:
        nested.call("POST", "/mutate/if-graph-commit", body, **token)
    assert (lost.value.by_status, lost.value.by_code) == ("PreconditionFailed", None)
    assert lost.value.details["precondition_failure"]["expected"] == head["graphCommitId"]


def test_branches_and_merges(nested: StockClient) -> None:
    assert nested.call("POST", "/branches", {"name": "sdk/x", "from": "main"})["name"] == "sdk/x"
    body = {"query": 'insert Company { name: "Merged" }', "branch": "sdk/x"}
    assert nested.call("POST", "/mutate", body)["affectedNodes"] == 1
    merged = nested.call("POST", "/branches/merge", {"source": "sdk/x", "deleteBranch": True})
    assert (merged["outcome"], merged["branchDeleted"]) == ("fast_forward", True)
    with pytest.raises(SdkError) as gone:
        nested.call("DELETE", "/branches/sdk%2Fx")
    assert gone.value.by_status == gone.value.by_code == "NotFound"


def test_conflicts_of_a_merge(nested: StockClient) -> None:
    nested.call("POST", "/branches", {"name": "sdk/y", "from": "main"})
    for branch, age in (("main", 70), ("sdk/y", 80)):
        body = {"query": QUERIES, "name": "grow", "params": {"name": "Cleo", "by": age}}
        nested.call("POST", "/mutate", {**body, "branch": branch})
    with pytest.raises(SdkError) as conflict:
        nested.call("POST", "/branches/merge", {"source": "sdk/y", "target": "main"})
    assert conflict.value.by_status == conflict.value.by_code == "Conflict"
    (found,) = renamed(conflict.value.details, camel)["mergeConflicts"]
    assert (found["kind"], found["entityId"]) == ("divergent_update", "Cleo")


def test_exports_and_feeds(nested: StockClient) -> None:
    records = list(nested.lines("/export", {"branch": "main"}))
    assert {"Person", "Knows"} <= {record.get("type", record.get("edge")) for record in records}
    page = nested.call("GET", "/changes?start=beginning&kind=edge")
    assert page["caughtUp"] is True
    change = page["blocks"][0]["changes"][0]
    assert change["after"]["endpoints"] == {"from": "Ada", "to": "Bob"}
    assert change["after"]["properties"]["since"] == "2020-05-01"
    baseline = list(nested.lines("/changes/baseline", {"branch": "main"}))
    assert baseline[-1]["baseline"]["resume_cursor"]


@pytest.mark.parametrize(
    ("method", "path", "body", "wanted"),
    [
        ("POST", "/query", {"query": "match {"}, "BadRequest"),
        ("POST", "/query", {"query": "/etc/secrets.gq"}, "BadRequest"),
        ("POST", "/read", {"querySource": QUERIES, "queryName": "nobody"}, "BadRequest"),
        ("GET", "/snapshot?branch=nowhere", None, "NotFound"),
        ("GET", "/commits/nothing", None, "NotFound"),
        ("GET", "/nowhere", None, "NotFound"),
        ("POST", "/snapshot", {}, "MethodNotAllowed"),
        ("POST", "/branches", {"name": "there"}, "Conflict"),
    ],
)
def test_error_classes(nested: StockClient, method: str, path: str, body: Any, wanted: str) -> None:
    with pytest.raises(SdkError) as failed:
        nested.call(method, path, body)
    assert (failed.value.by_status, failed.value.by_code) == (wanted, wanted)
    assert failed.value.request_id == failed.value.details["request_id"]


def test_a_read_is_repeated_once_when_that_can_help(
    server: ThreadServer, nested: StockClient
) -> None:
    for phase in ("starting", "draining"):
        server.state.phase = phase
        try:
            if phase == "starting":
                with pytest.raises(SdkError) as away:
                    nested.call("GET", "/branches")
                assert (away.value.by_status, away.value.by_code) == ("ServiceUnavailable", None)
                assert away.value.details["unavailable"] == {"reason": "starting"}
                with pytest.raises(SdkError):
                    nested.call("POST", "/query", {"query": "match { $p: Person } return { $p }"})
            else:
                assert nested.call("GET", "/branches")["branches"], "it still answers"
        finally:
            server.state.phase = "serving"
    assert nested.pauses == [1], "only the read is repeated"


def value_at(place: str, answer: httpx.Response) -> Any:
    """A value of an answer: `commits.0.id`, `header.etag`, or `last.…` of the last line."""
    first, _, rest = place.partition(".")
    if first == "header":
        return answer.headers[rest]
    lines = answer.text.splitlines()
    found: Any = json.loads(lines[-1] if first == "last" else answer.text)
    for name in (rest if first == "last" else place).split("."):
        found = found[int(name)] if isinstance(found, list) else found[name]
    return found


def filled(value: Any, known: dict[str, Any]) -> Any:
    """The value with what earlier answers had in place of `$name`."""
    match value:
        case dict():
            return {name: filled(item, known) for name, item in value.items()}
        case list():
            return [filled(item, known) for item in value]
        case str() if value.startswith("$"):
            return known[value[1:]]
        case _:
            return value


def has(found: Any, wanted: Any) -> bool:
    """Whether an answer has the wanted members; lists begin with the wanted items."""
    match wanted:
        case dict():
            return all(name in found and has(found[name], item) for name, item in wanted.items())
        case []:
            return bool(found == [])
        case list():
            return len(found) >= len(wanted) and all(map(has, found, wanted))
        case _:
            return bool(found == wanted)


def test_a_recorded_session(tmp_path: Path) -> None:
    """Acceptance check 8: every method of the client, in the order of a real session."""
    allowing = settings().allowing([EXTERNAL, f"file://{tmp_path}"])
    with omnigraph.init(tmp_path / "people.omni", SCHEMA, settings=allowing) as graph:
        graph.load([json.loads(line) for line in LINES.splitlines()])
        outside = {"Web": f"{EXTERNAL}/web.jpg", "File": f"file://{tmp_path}/secret.txt"}
        rows = [{"name": name, "photo": uri} for name, uri in outside.items()]
        graph.apply({"Person": {"insert": rows}})
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "stored.gq").write_text(STORED)
    known: dict[str, Any] = {"large": "x" * 2_000_000}
    with (
        ThreadServer(
            {"people": str(tmp_path / "people.omni")},
            queries=(("people", str(tmp_path / "queries")),),
            external_blobs=(("people", EXTERNAL),),
        ) as server,
        httpx.Client(base_url=server.url, headers=ACCEPT, trust_env=False) as http,
    ):
        for exchange in yaml.safe_load(SESSION.read_text(encoding="utf-8")):
            _check_exchange(http, exchange, known)


def _check_exchange(http: httpx.Client, exchange: dict[str, Any], known: dict[str, Any]) -> None:
    called = exchange["sdk"]
    method, path = exchange["send"].split()
    for name in sorted(known, key=len, reverse=True):
        path = path.replace(f"${name}", str(known[name]))
    headers, content = filled(exchange.get("headers", {}), known), exchange.get("text")
    if "body" in exchange:
        headers["Content-Type"] = "application/json"
        content = json.dumps(filled(exchange["body"], known))
    answer = http.request(method, path, content=content, headers=headers)
    assert answer.status_code == exchange.get("status", 200), (called, answer.text)
    assert answer.headers["x-request-id"], called
    for name, wanted in exchange.get("read", {}).items():
        assert wanted in ("*", answer.headers[name]), called
    if "error" in exchange:
        code = answer.json().get("code")
        assert CLASSES[answer.status_code] == exchange["error"], called
        by_code = CODES[code] if code else exchange["error"]
        alike = {exchange["error"], *OLDER_CLASSES.get(exchange["error"], ())}
        assert by_code in alike, called
    if "answer" in exchange:
        found = json.loads(answer.text.splitlines()[0])
        assert has(found, filled(exchange["answer"], known)), (called, answer.text)
    for name, place in exchange.get("keep", {}).items():
        known[name] = value_at(place, answer)


def test_the_server_itself(server: ThreadServer) -> None:
    sdk = StockClient(server.url)
    health = sdk.call("GET", "/healthz")
    assert health["status"] == "ok"
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", health["version"])
    ready = sdk.call("GET", "/readyz")
    assert (ready["ready"], ready["servedGraphCount"]) == (True, 1)
    sdk.close()
