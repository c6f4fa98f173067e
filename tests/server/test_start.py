"""How a server starts: flags and variables of the environment, and what it prints."""

from __future__ import annotations

import logging
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.server.configuration import RequestLimits, parse_bind, settings_of
from omnigraph_testing.http_server import ProcessServer, ThreadServer

YES = ("1", "true", "yes", "TRUE", "on")
NO = ("", "0", "false", "FALSE", " ")


@pytest.mark.parametrize("name", ["unauthenticated", "require_all_graphs"])
def test_a_flag_of_the_environment(name: str) -> None:
    variable = f"OMNIGRAPH_{name.upper()}"
    assert not getattr(settings_of({}), name)
    assert all(getattr(settings_of({variable: text}), name) for text in YES)
    assert not any(getattr(settings_of({variable: text}), name) for text in NO)


def test_limits_of_the_environment(caplog: pytest.LogCaptureFixture) -> None:
    given = {
        "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "3",
        "OMNIGRAPH_PER_ACTOR_BYTES_MAX": "100",
        "OMNIGRAPH_READ_INFLIGHT_MAX": "4",
        "OMNIGRAPH_STREAM_INFLIGHT_MAX": "5",
        "OMNIGRAPH_WRITE_INFLIGHT_MAX": "6",
        "OMNIGRAPH_WRITE_QUEUE_TIMEOUT_MS": "7",
        "OMNIGRAPH_QUERY_TIMEOUT_MS": "0",
        "OMNIGRAPH_QUERY_MAX_ROWS": "9",
        "OMNIGRAPH_QUERY_MEMORY_BYTES": "10",
    }
    assert settings_of(given).limits == RequestLimits(3, 100, 4, 5, 6, 7, 0, 9, 10)
    with caplog.at_level(logging.WARNING):
        assert settings_of(dict.fromkeys(given, "many")).limits == RequestLimits()
        assert settings_of({"OMNIGRAPH_READ_INFLIGHT_MAX": "0"}).limits == RequestLimits()
    assert len(caplog.records) == len(given) + 1
    defaults = RequestLimits()
    assert (defaults.actor_inflight, defaults.actor_bytes, defaults.reads) == (16, 4 << 30, 64)
    assert (defaults.query_timeout_ms, defaults.write_queue_ms) == (30_000, 10_000)
    assert (defaults.body_bytes, defaults.load_bytes) == (1_048_576, 33_554_432)


def test_the_grace_of_the_environment() -> None:
    variable = "OMNIGRAPH_SHUTDOWN_GRACE_SECONDS"
    found = [settings_of({variable: text}).shutdown_grace_seconds for text in ("3", "0", "x", "")]
    assert found == [3.0, 0.0, 25.0, 25.0]
    with pytest.raises(InvalidArgument, match="text or json"):
        settings_of({"OMNIGRAPH_LOG_FORMAT": "xml"})


def test_where_a_server_listens() -> None:
    assert parse_bind("127.0.0.1:0") == ("127.0.0.1", 0)
    assert parse_bind("[::1]:8080") == ("::1", 8080)
    for wrong in ("8080", ":8080", "host:", "host:65536", "host:x"):
        with pytest.raises(InvalidArgument, match="HOST:PORT"):
            parse_bind(wrong)


def test_stdout_has_one_line(uri: str, tmp_path: Path) -> None:
    environment = {
        "OMNIGRAPH_UNAUTHENTICATED": "true",
        "OMNIGRAPH_SHUTDOWN_GRACE_SECONDS": "7",
        "OMNIGRAPH_LOG": "debug",
    }
    arguments = (uri, "--shutdown-grace-seconds", "9")
    with ProcessServer(*arguments, environment=environment, log=tmp_path / "log") as server:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", server.url), "the port that was free"
        with server.client() as client:
            assert client.get("/readyz").json() == {
                "ready": True,
                "status": "serving",
                "served_graph_count": 1,
                "quarantined_graph_count": 0,
                "shutdown_grace_seconds": 9,
                "booted_serving_digest": None,
                "state_revision": None,
                "state_cas": None,
            }
        assert server.process is not None
        assert server.process.stdout is not None
        server.process.send_signal(signal.SIGINT)
        assert server.process.stdout.read() == b"", "everything else goes to stderr"
        assert server.stop() == 0
        assert "serving omnigraph" in server.log_text()


def test_the_other_name_of_the_command(uri: str) -> None:
    """`omnigraph-server`, which refuses to serve everyone unasked."""
    code = "from omnigraph.cli.entry import run_server; run_server()"
    command = [sys.executable, "-c", code, uri, "--bind", "127.0.0.1:0"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "--unauthenticated" in refused.stderr


def test_names_of_graphs(uri: str) -> None:
    for wrong in ("metrics", "admin", "mcp", "graphs", "a_b", "x" * 65):
        with pytest.raises(InvalidArgument, match="no id of a graph"):
            ThreadServer({wrong: uri})


def test_every_answer_names_the_version_of_the_interface(
    server: ThreadServer, http: httpx.Client
) -> None:
    with server.client() as client:
        answers = [
            client.get("/healthz"),
            client.get("/nowhere"),
            http.put("/query"),
            http.post("/mutate", content=b"{"),
            http.post("/export", json={}),
        ]
        health = answers[0].json()
    assert {answer.headers["omnigraph-http-api"] for answer in answers} == {"1"}
    assert all(answer.headers["x-request-id"] for answer in answers)
    assert health["status"] == "ok"
    assert re.fullmatch(r"\d+\.\d+\.\d+", health["version"])
    assert isinstance(health["internal_schema_version"], int)
