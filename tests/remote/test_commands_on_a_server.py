"""The command line on a graph of a server: `--server`, `--graph`, and the token."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

import omnigraph
from omnigraph.cli.main import app
from omnigraph_testing.graph_suite import LINES, NAMES, SCHEMA
from omnigraph_testing.http_server import ThreadServer

SECRET = "secret-of-the-reader"
Run = Callable[..., Result]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    uri = tmp_path_factory.mktemp("commands") / "people.omni"
    with omnigraph.init(uri, SCHEMA) as graph:
        graph.load([json.loads(line) for line in LINES.splitlines()])
    with ThreadServer({"people": str(uri)}) as opened:
        yield opened


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    for name in ("OMNIGRAPH_SERVER", "OMNIGRAPH_GRAPH_ID", "OMNIGRAPH_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    def invoke(*words: object) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words])

    return invoke


def of(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_commands_work_as_on_a_store(run: Run, server: ThreadServer, tmp_path: Path) -> None:
    there = ("--server", server.url, "--graph", "people", "--json")
    data = tmp_path / "more.ndjson"
    data.write_text('{"type": "Person", "data": {"name": "Dan"}}\n')
    assert of(run("branch", "create", "cli", *there))["name"] == "cli"
    assert of(run("load", "--data", data, "--branch", "cli", *there))["total_entities"] == 1
    grown = 'update Person set { age: 5 } where name = "Dan"'
    assert of(run("mutate", "-e", grown, "--branch", "cli", *there))["affected_nodes"] == 1
    rows = of(run("query", "-e", NAMES, "--branch", "cli", *there))
    assert rows["row_count"] == 4
    assert of(run("branch", "merge", "cli", *there))["outcome"] == "fast_forward"
    assert len(of(run("commit", "list", *there))["commits"]) >= 4
    assert of(run("commit", "show", "main", *there))["operation"] == "merge"
    out = tmp_path / "out.ndjson"
    assert of(run("export", "-o", out, *there))["total_entities"] == 7
    assert of(run("schema", "show", *there))["schema_source"] == SCHEMA
    assert of(run("changes", "poll", "--start", "beginning", *there))["blocks"]
    assert of(run("blob", "get", "node", "Person", "Cleo", "photo", "-o", tmp_path / "p", *there))
    assert (tmp_path / "p").read_bytes() == bytes(range(5))


def test_the_environment_and_an_address_name_the_graph(
    run: Run, server: ThreadServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"{server.url}/graphs/people"
    assert "main" in of(run("branch", "list", address, "--json"))["branches"]
    assert "main" in of(run("branch", "list", "--server", address, "--json"))["branches"]
    monkeypatch.setenv("OMNIGRAPH_SERVER", server.url)
    monkeypatch.setenv("OMNIGRAPH_GRAPH_ID", "people")
    assert "main" in of(run("branch", "list", "--json"))["branches"]


def test_a_graph_must_be_named(run: Run, server: ThreadServer) -> None:
    found = run("branch", "list", "--server", server.url)
    assert found.exit_code == 2
    assert "needs --graph ID" in found.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("branch", "list", "x.omni", "--server", "http://h"), "two graphs are named"),
        (("branch", "list", "x.omni", "--graph", "g"), "is a graph itself"),
        (("branch", "list", "--store", "x.omni", "--token", SECRET), "--token is for a server"),
        (("branch", "list", "http://h/graphs/g", "--as", "ada"), "--as names the author"),
        (
            ("tag", "delete", "t", "--server", "http://h/graphs/g", "--as", "a"),
            "--as is for a store",
        ),
        (("init", "--schema", "-", "http://h/graphs/g"), "it makes a graph in a store"),
    ],
)
def test_wrong_usage_names_the_way_out(run: Run, words: tuple[str, ...], message: str) -> None:
    found = run(*words)
    assert found.exit_code == 2
    assert message in " ".join(found.output.split())
    assert SECRET not in found.output


def test_what_a_server_cannot_do_is_wrong_usage(run: Run, server: ThreadServer) -> None:
    found = run("repair", f"{server.url}/graphs/people", "--json")
    assert found.exit_code == 2
    assert json.loads(found.stdout)["code"] == "usage"
    assert "works on storage itself; give --store URI" in json.loads(found.stdout)["error"]


def test_errors_have_the_exit_codes_of_a_store(run: Run, server: ThreadServer) -> None:
    there = ("--server", server.url, "--graph", "people", "--json")
    lost = run("mutate", "-e", 'insert Company { name: "X" }', "--if-commit", "0" * 26, *there)
    assert lost.exit_code == 4
    assert json.loads(lost.stdout)["code"] == "precondition_failed"
    missing = run("query", "-e", NAMES, "--branch", "nowhere", *there)
    assert (missing.exit_code, json.loads(missing.stdout)["branch"]) == (1, "nowhere")
    away = run("branch", "list", "http://127.0.0.1:9/graphs/people", "--json")
    assert (away.exit_code, json.loads(away.stdout)["code"]) == (1, "server_unavailable")


def test_the_token_is_sent_and_never_shown(
    run: Run, server: ThreadServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    uri = tmp_path / "closed.omni"
    omnigraph.init(uri, SCHEMA).close()
    tokens = json.dumps({"reader": SECRET})
    with ThreadServer({"closed": str(uri)}, tokens=tokens) as closed:
        there = ("branch", "list", f"{closed.url}/graphs/closed", "--json")
        refused = run(*there)
        assert json.loads(refused.stdout)["code"] == "unauthorized"
        monkeypatch.setenv("OMNIGRAPH_TOKEN", SECRET)
        found = run(*there)
        assert of(found)["branches"] == ["main"]
        denied = run("branch", "create", "x", "--server", closed.url, "--graph", "closed", "--json")
        assert json.loads(denied.stdout)["code"] == "forbidden"
    assert SECRET not in found.output + refused.output + denied.output
