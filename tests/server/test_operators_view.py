"""What an operator sees and sets: CORS, the JSON log, reload at SIGHUP, guarded metrics."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import httpx

from omnigraph_testing.crash import start
from omnigraph_testing.http_server import ProcessServer, ThreadServer, wait_until

APP = "https://app.example"
PREFLIGHT = {
    "Origin": APP,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization",
}
READ = {"query": "match { $p: Person } return { count($p) as n }"}


def test_origins_that_may_call(uri: str) -> None:
    tokens = json.dumps({"ada": "secret"})
    with ThreadServer(uri, tokens=tokens, cors_origins=(APP,)) as server:
        with server.graph_client() as http:
            early = http.options("/query", headers=PREFLIGHT)  # has no token
            assert (early.status_code, early.content) == (204, b"")
            assert early.headers["access-control-allow-origin"] == APP
            assert "Authorization" in early.headers["access-control-allow-headers"]
            assert "POST" in early.headers["access-control-allow-methods"]
            other = http.options("/query", headers={**PREFLIGHT, "Origin": "https://evil.example"})
            assert other.status_code == 405
            assert "access-control-allow-origin" not in other.headers
            denied = http.post("/query", json=READ, headers={"Origin": APP})
            assert denied.status_code == 401  # and the page may read why
            assert denied.headers["access-control-allow-origin"] == APP
        with server.graph_client(token="secret") as http:
            answer = http.post("/query", json=READ, headers={"Origin": APP})
            assert answer.status_code == 200
            assert answer.headers["vary"] == "Origin"
            assert "access-control-allow-credentials" not in answer.headers
            exposed = set(answer.headers["access-control-expose-headers"].split(", "))
            assert exposed == {
                "ETag",
                "Retry-After",
                "X-Request-Id",
                "Omnigraph-Snapshot-Id",
                "Content-Range",
                "Deprecation",
                "Link",
            }
            plain = http.post("/query", json=READ)
            assert "access-control-allow-origin" not in plain.headers


def test_no_origin_may_call_by_default(http: httpx.Client) -> None:
    assert http.options("/query", headers=PREFLIGHT).status_code == 405
    answer = http.post("/query", json=READ, headers={"Origin": APP})
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_two_workers_as_an_operator_runs_them(uri: str, tmp_path: Path) -> None:
    """Log lines, tokens that change, metrics for admins only, and a supervisor that is killed."""
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"ada": "first"}))
    environment = {
        "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": str(tokens),
        "OMNIGRAPH_LOG_FORMAT": "json",
    }
    serving = ProcessServer(
        uri, "--workers", "2", "--metrics-auth", environment=environment, log=tmp_path / "log"
    )
    with serving as server:
        assert _status(server, "first") == 200
        with server.client() as client:
            assert client.get("/metrics").status_code == 401
        with server.client("first") as client:
            assert client.get("/metrics").status_code == 403  # a token is not enough
        _check_log(server.log_text())

        tokens.write_text(json.dumps({"ada": "second"}))
        assert server.process is not None
        os.kill(server.process.pid, signal.SIGHUP)
        # A connection each, so that both workers are asked.
        wait_until(lambda: all(_status(server, "second") == 200 for _ in range(8)))
        wait_until(lambda: all(_status(server, "first") == 401 for _ in range(8)))
        tokens.write_text("no json")
        os.kill(server.process.pid, signal.SIGHUP)
        wait_until(lambda: server.log_text().count("the old ones stay") == 2)
        assert _status(server, "second") == 200

        workers = server.workers()
        assert len(workers) == 2
        server.process.kill()
        server.process.wait()
        wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


def test_a_reload_reaches_all_workers(uri: str, tmp_path: Path) -> None:
    """A token that an operator took away must not be good for the other workers until they look."""
    tokens, rules = tmp_path / "tokens.json", tmp_path / "rules.yaml"
    tokens.write_text(json.dumps({"ada": "leaked", "root": "r"}))
    rules.write_text(
        "version: 1\ngroups: {ops: [root]}\n"
        "rules:\n  - id: run\n    allow: {actors: {group: ops}, actions: [admin]}\n"
    )
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": str(tokens)}
    arguments = (uri, "--workers", "3", "--server-policy", rules)
    with ProcessServer(*arguments, environment=environment, log=tmp_path / "log") as server:
        assert _status(server, "leaked") == 200
        tokens.write_text(json.dumps({"root": "r"}))
        with server.client("r") as root:
            assert root.post("/admin/reload").json()["tokens"] == 1
        wait_until(lambda: all(_status(server, "leaked") == 401 for _ in range(12)), 15)


def _status(server: ProcessServer, token: str) -> int:
    with server.graph_client(token=token) as http:
        return http.post("/query", json=READ, headers={"X-Request-Id": "mine"}).status_code


def _check_log(text: str) -> None:
    lines = [json.loads(line) for line in text.splitlines()]
    assert {"time", "level", "logger", "message"} <= set.intersection(*map(set, lines))
    request = next(line for line in lines if line.get("request_id") == "mine")
    told = {name: request[name] for name in ("method", "route", "graph_id", "actor_id", "status")}
    assert told == {
        "method": "POST",
        "route": "/graphs/{graph_id}/query",
        "graph_id": "default",
        "actor_id": "ada",
        "status": 200,
    }
    assert request["bytes_in"] == len(json.dumps(READ, separators=(",", ":")))
    assert request["bytes_out"] > 0
    assert request["graph_commit_id"]
    assert "ms" in request
    assert "first" not in text  # no token
    assert "match" not in text  # no query


def test_everything_that_happens_is_counted(uri: str, tmp_path: Path) -> None:
    """Each metric of the contract has its labels and moves with what it counts."""
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "version: 1\ngroups: {all: [ada]}\nrules:\n  - id: most\n"
        "    allow: {actors: {group: all}, actions: [read, change, branch_create, branch_merge]}\n"
    )
    with (
        ThreadServer(
            {"people": uri, "broken": str(tmp_path / "nothing")},
            tokens=json.dumps({"ada": "a"}),
            policies=(("people", str(rules)),),
        ) as server,
        server.graph_client("people", token="a") as http,
    ):
        key = {"Idempotency-Key": "k"}
        for name in ("one", "two"):
            http.post("/mutate", json={"query": f'insert Note {{ text: "{name}" }}'}, headers=key)
        assert http.post("/export", json={}).status_code == 403
        admission = server.state.admission
        admission.enter("read", admission.limits.reads)
        for _ in range(admission.limits.reads - 1):
            admission.enter("read", admission.limits.reads)
        assert http.post("/query", json=READ).status_code == 429
        with server.client() as client:
            full = _metrics(client)
            admission.add("read", -admission.limits.reads)
            found = _metrics(client)
    route = 'graph="people",method="POST",route="/graphs/{graph_id}/mutate"'
    assert found[f'requests_total{{{route},status="200"}}'] == 1
    assert found[f'requests_total{{{route},status="409"}}'] == 1
    seconds = 'method="POST",route="/graphs/{graph_id}/mutate"'
    assert found[f"request_seconds_count{{{seconds}}}"] == 2
    assert found[f'request_seconds_bucket{{le="+Inf",{seconds}}}'] == 2
    assert found['commits_total{graph="people",operation="mutate"}'] == 1
    assert found['conflicts_total{kind="idempotency_conflict"}'] == 1
    assert found['policy_denied_total{action="export"}'] == 1
    assert found['graph_up{graph="people"}'] == 1
    assert found['graph_up{graph="broken"}'] == 0
    assert found['inflight{kind="read"}'] == 0
    assert full['inflight{kind="read"}'] == admission.limits.reads
    assert sum(n for name, n in found.items() if name.startswith("admission_rejected_total")) == 1


def _metrics(client: httpx.Client) -> dict[str, float]:
    """The values by name and labels, without the prefix of the names."""
    lines = [line for line in client.get("/metrics").text.splitlines() if line[:1] != "#"]
    pairs = (line.rsplit(" ", 1) for line in lines)
    return {name.removeprefix("omnigraph_http_"): float(value) for name, value in pairs}


def test_recoveries_are_counted(uri: str) -> None:
    with ThreadServer(uri) as server, server.client() as client:
        child = start(
            "omnigraph_testing.workloads:keyed_load",
            {"uri": uri, "key": "k"},
            failpoints="commit.after_advance=kill",
        )
        assert child.finish()[0] == -signal.SIGKILL
        name = 'omnigraph_http_recoveries_total{outcome="rolled_forward"}'
        assert name not in client.get("/metrics").text
        with server.graph_client() as http:
            made = http.post("/mutate", json={"query": 'insert Note { text: "next" }'})
            assert made.status_code == 200, made.text
        for _ in range(2):
            assert f"{name} 1.0" in client.get("/metrics").text
