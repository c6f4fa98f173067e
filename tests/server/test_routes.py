from __future__ import annotations

import httpx

from omnigraph_testing.http_server import ThreadServer

ADA = "match { $p: Person } return { $p.name as name, $p.age as age } order { name }"


def test_query(http: httpx.Client) -> None:
    answer = http.post("/query", json={"query": ADA})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["rows"][0] == {"name": "ada", "age": 1}
    assert body["target"] == {"branch": "main"}
    assert body["row_count"] == len(body["rows"])
    assert answer.headers["ETag"] == f'W/"{body["graph_commit_id"]}"'
    held = http.post(
        "/query", json={"query": ADA}, headers={"If-None-Match": answer.headers["ETag"]}
    )
    assert held.status_code == 304


def test_unknown_path_and_method(server: ThreadServer, http: httpx.Client) -> None:
    with server.client() as client:
        missing = client.get("/nowhere")
    assert missing.status_code == 404
    assert missing.json()["code"] == "not_found"
    wrong = http.put("/query", json={})
    assert wrong.status_code == 405
    assert wrong.headers["Allow"] == "POST"
    assert wrong.json()["code"] == "method_not_allowed"


def test_health(server: ThreadServer) -> None:
    with server.client() as client:
        assert client.get("/healthz").json()["status"] == "ok"
        assert client.get("/readyz").json()["status"] == "serving"


def test_mutate(http: httpx.Client) -> None:
    answer = http.post("/mutate", json={"query": 'insert Person { name: "mia" }'})
    assert answer.status_code == 200, answer.text
    assert answer.json()["affected_nodes"] == 1
    assert answer.json()["commit"]["operation"] == "mutate"
