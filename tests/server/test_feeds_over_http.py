"""The change feed over HTTP: pages, long polls and events."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.server.routes import feeds
from omnigraph_testing.http_server import ThreadServer
from omnigraph_testing.workloads import settings

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob? }
edge Knows: Person -> Person { since: Date? }
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    uri = str(tmp_path_factory.mktemp("feeds") / "graph.omni")
    omnigraph.init(uri, SCHEMA, settings=settings()).close()
    with ThreadServer(uri, engine=settings()) as running:
        yield running


@pytest.fixture(scope="module")
def local(server: ThreadServer) -> Graph:
    """One commit that inserts two people and an edge, one that changes and deletes."""
    graph = server.state.graphs.find("default").graph
    people = [{"name": "ada", "age": 36, "photo": b"x"}, {"name": "bob"}]
    edges = [{"id": "k1", "src": "ada", "dst": "bob", "since": "2020-01-01"}]
    graph.apply({"Person": {"insert": people}, "Knows": {"insert": edges}})
    graph.apply({"Person": {"upsert": [{"name": "ada", "age": 37}]}, "Knows": {"delete": ["k1"]}})
    return graph


def get(http: httpx.Client, path: str = "/changes", **params: Any) -> httpx.Response:
    return http.get(path, params=params)


def test_images_are_nested(http: httpx.Client, local: Graph) -> None:
    page = get(http, start="beginning").json()
    assert page["caught_up"] is True
    assert "next_page_token" not in page
    inserted, changed = page["blocks"][-2:]
    commit = local.commits.list()[0]
    assert changed["cause"] == {
        "graph_commit_id": commit.graph_commit_id,
        "parent_commit_id": inserted["cause"]["graph_commit_id"],
        "merged_parent_commit_id": None,
        "authored_branch": "main",
        "actor_id": None,
        "authored_at": commit.created_at,
    }
    ada, bob, knows = inserted["changes"]
    assert (ada["kind"], ada["type"]["name"], ada["id"], ada["op"]) == (
        "node",
        "Person",
        "ada",
        "insert",
    )
    assert ada["after"]["properties"] == {"name": "ada", "age": 36, "photo": "base64:eA=="}
    assert bob["after"]["properties"]["age"] is None, "images keep NULLs"
    assert "before" not in ada
    assert knows["after"] == {
        "properties": {"since": "2020-01-01"},
        "endpoints": {"from": "ada", "to": "bob"},
    }
    update, delete = changed["changes"]
    assert update["before"]["properties"]["age"] == 36
    assert update["after"]["properties"]["age"] == 37
    assert "after" not in delete


def test_pages_end_with_a_token_or_a_cursor(http: httpx.Client, local: Graph) -> None:
    page = get(http, start="beginning", limit=2).json()
    assert "cursor" not in page
    seen = [change for block in page["blocks"] for change in block["changes"]]
    while "next_page_token" in page:
        page = get(http, page_token=page["next_page_token"], limit=2).json()
        seen += [change for block in page["blocks"] for change in block["changes"]]
    assert [(change["id"], change["op"]) for change in seen] == [
        ("ada", "insert"),
        ("bob", "insert"),
        ("k1", "insert"),
        ("ada", "update"),
        ("k1", "delete"),
    ]
    assert get(http, cursor=page["cursor"]).json()["blocks"] == []
    now = get(http).json()
    assert (now["blocks"], now["caught_up"]) == ([], True)


def test_filters(http: httpx.Client, local: Graph) -> None:
    page = get(http, start="beginning", kind="edge", op=["insert", "delete"], type="Knows").json()
    found = [change["op"] for block in page["blocks"] for change in block["changes"]]
    assert found == ["insert", "delete"]


@pytest.mark.parametrize(
    ("params", "status", "message"),
    [
        ({"limit": 0}, 400, "limit is 1 to 8,192"),
        ({"limit": 8193}, 400, "limit is 1 to 8,192"),
        ({"limit": "x"}, 400, ""),
        ({"wait": 31}, 400, "wait is 0 to 30"),
        ({"cursor": "a", "start": "now"}, 400, "exclude each other"),
        ({"cursor": "a"}, 400, "change cursor rejected: "),
        ({"page_token": "x" * 5000}, 400, "change cursor rejected: "),
        ({"start": "yesterday"}, 400, "start"),
        ({"start": "after:01J00000000000000000000000"}, 404, ""),
        ({"kind": "thing"}, 400, "kind"),
        ({"op": "thing"}, 400, "ops"),
        ({"type": "Nope"}, 404, "Nope"),
        ({"branch": "nope"}, 404, "nope"),
        ({"unknown": "1"}, 400, "unknown query parameter 'unknown'"),
    ],
    ids=str,
)
def test_wrong_questions(
    http: httpx.Client, local: Graph, params: dict[str, Any], status: int, message: str
) -> None:
    answer = get(http, **params)
    assert answer.status_code == status, answer.text
    assert message in answer.json()["error"]


def test_cursors_of_other_feeds(http: httpx.Client, local: Graph) -> None:
    cursor = get(http).json()["cursor"]
    other = get(http, cursor=cursor, kind="edge")
    assert other.status_code == 400
    assert other.json()["error"].startswith("change cursor rejected: ")
    local.branches.create("short")
    old = get(http, branch="short").json()["cursor"]
    local.branches.delete("short")
    local.branches.create("short")
    again = get(http, branch="short", cursor=old)
    assert (again.status_code, again.json()["code"]) == (400, "bad_request")
    assert again.json()["error"].startswith("change cursor rejected: ")
    assert again.json()["error_type"] == "FeedGap", "a client of ours takes a new baseline"


def test_history_that_is_gone(http: httpx.Client, local: Graph) -> None:
    first = local.commits.list("main", None)[-1].graph_commit_id
    lost = local.mutate('insert Person { name: "eve", age: 1 }').commit
    assert lost is not None
    local.schema.apply(
        SCHEMA.replace("age: I32?", ""), allow_data_loss=True, branch="main", message="less"
    )
    gone = get(http, start=f"after:{first}")
    assert gone.status_code == 410
    dropped = local.commits.list()[0].graph_commit_id
    assert gone.json()["change_feed_gap"] == {"first_unreadable_commit_id": dropped}
    assert "code" not in gone.json()
    local.schema.apply(SCHEMA, message="more")


def test_changes_of_one_commit(http: httpx.Client, local: Graph) -> None:
    commit = local.apply({"Person": {"insert": [{"name": f"q{n}"} for n in range(5)]}}).commit
    assert commit is not None
    path = f"/commits/{commit.graph_commit_id}/changes"
    page = get(http, path, limit=3).json()
    assert page["cause"]["graph_commit_id"] == commit.graph_commit_id
    rest = get(http, path, limit=3, page_token=page["next_page_token"]).json()
    assert [change["id"] for change in page["changes"] + rest["changes"]] == [
        f"q{n}" for n in range(5)
    ]
    assert "next_page_token" not in rest
    assert get(http, path, op="delete").json()["changes"] == []
    genesis = local.commits.list("main", None)[-1].graph_commit_id
    refused = get(http, f"/commits/{genesis}/changes")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert refused.json()["change_diff_refusal"] == {
        "reason": "parentless_commit",
        "graph_commit_id": genesis,
    }
    assert get(http, "/commits/01J00000000000000000000000/changes").status_code == 404
    assert get(http, path, page_token="x").json()["error"].startswith("change cursor rejected: ")
    assert get(http, path, unknown=1).status_code == 400


def test_a_long_poll_waits_for_the_next_commit(http: httpx.Client, local: Graph) -> None:
    cursor = get(http).json()["cursor"]
    began = time.monotonic()
    nothing = get(http, cursor=cursor, wait=0.3).json()
    assert time.monotonic() - began >= 0.3
    assert (nothing["blocks"], nothing["caught_up"]) == ([], True)
    writer = threading.Timer(0.3, lambda: local.mutate('insert Person { name: "late" }'))
    writer.start()
    page = get(http, cursor=cursor, wait=25).json()
    writer.join()
    assert [change["id"] for change in page["blocks"][0]["changes"]] == ["late"]
    assert time.monotonic() - began < 20
    filtered = threading.Timer(0.1, lambda: local.mutate('insert Person { name: "later" }'))
    filtered.start()
    kept = get(http, start="now", kind="edge", wait=0.6).json()
    filtered.join()
    assert kept["blocks"] == [], "a commit without a wanted change does not end the wait"


class Events:
    """The events of one stream, read line by line."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.iter_lines()

    def next(self) -> dict[str, str]:
        """The next event; a comment is one with the name `comment`."""
        found: dict[str, str] = {}
        for line in self._lines:
            if not line:
                return found
            name, _, value = line.partition(":")
            found[name or "comment"] = value.strip()
        raise EOFError


def listen(http: httpx.Client, last: str | None = None, **params: Any) -> Any:
    headers = {"Accept": "text/event-stream"}
    if last is not None:
        headers["Last-Event-ID"] = last
    return http.stream("GET", "/changes", params=params, headers=headers)


def test_events(http: httpx.Client, local: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "_HEARTBEAT_SECONDS", 0.2)
    with listen(http) as answer:
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        events = Events(answer)
        assert events.next()["event"] == "cursor", "a client knows where it is from the beginning"
        assert events.next() == {"comment": "heartbeat"}
        commits = [local.mutate(f'insert Person {{ name: "e{n}" }}').commit for n in range(2)]
        seen: list[dict[str, str]] = []
        while len(seen) < 2:
            event = events.next()
            if event.get("event") == "block":
                seen.append(event)
    told = [json.loads(event["data"])["cause"]["graph_commit_id"] for event in seen]
    assert told == [commit.graph_commit_id for commit in commits if commit is not None]
    with listen(http, last=seen[0]["id"], start="beginning") as answer:
        again = Events(answer).next()
    assert again == seen[1], "a stream goes on behind the last event that a client has seen"
    with listen(http, last="rubbish") as answer:
        answer.read()
        assert answer.status_code == 400


def test_events_tell_why_they_end(http: httpx.Client, local: Graph) -> None:
    local.branches.create("doomed")
    with listen(http, branch="doomed") as answer:
        events = Events(answer)
        events.next()
        local.branches.delete("doomed")
        last = events.next()
        assert last["event"] == "error"
        assert json.loads(last["data"])["code"] == "not_found"
        with pytest.raises(EOFError):
            events.next()


def test_a_listener_that_goes_away_is_counted_no_longer(
    server: ThreadServer, http: httpx.Client, local: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "_MOST_LISTENERS", 1)
    with listen(http) as answer:
        events = Events(answer)  # kept, because its end would close the answer
        events.next()
        with listen(http) as refused:
            refused.read()
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
    until = time.monotonic() + 20
    while feeds._EventStream.listeners:
        assert time.monotonic() < until
        time.sleep(0.01)
    with listen(http) as answer:
        assert answer.status_code == 200
