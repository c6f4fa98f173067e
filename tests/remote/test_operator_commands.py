"""The operator on servers: where a token goes, login, profiles, aliases, graphs, busy servers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

import omnigraph
from omnigraph.cli.main import app
from omnigraph_testing.graph_suite import LINES, NAMES, SCHEMA
from omnigraph_testing.http_server import ThreadServer

SECRET = "secret-of-prod"
OTHER = "secret-of-other"
Run = Callable[..., Result]


class Listener:
    """A server on loopback that keeps the headers of its requests and answers as it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None]] = []
        self.answers: dict[str, tuple[int, dict[str, str], Any]] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.seen.append((self.path, self.headers.get("Authorization")))
                path = self.path.partition("?")[0]
                status, headers, body = outer.answers.get(path, (404, {}, {"error": "nothing"}))
                data = json.dumps(body).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def tokens(self) -> set[str | None]:
        return {token for _, token in self.seen}


@pytest.fixture
def listeners() -> Iterator[tuple[Listener, Listener]]:
    pair = Listener(), Listener()
    yield pair
    for listener in pair:
        listener.close()


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    for name in ("CONFIG", "SERVER", "GRAPH_ID", "TOKEN", "BEARER_TOKEN", "PROFILE", "TOKEN_PROD"):
        monkeypatch.delenv(f"OMNIGRAPH_{name}", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def run(home: Path) -> Run:
    def invoke(*words: object, input: str | None = None) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], input=input)

    return invoke


def of(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def configure(home: Path, text: str) -> None:
    (home / "config.yaml").write_text(text, encoding="utf-8")


def keep(home: Path, text: str) -> None:
    (home / "credentials").write_text(text, encoding="utf-8")
    (home / "credentials").chmod(0o600)


def test_a_token_of_a_server_goes_to_no_other_address(
    run: Run, home: Path, listeners: tuple[Listener, Listener], monkeypatch: pytest.MonkeyPatch
) -> None:
    prod, other = listeners
    configure(
        home, f"servers:\n  prod: {{url: '{prod.url}/team'}}\n  old: {{url: '{other.url}'}}\n"
    )
    keep(home, f"[prod]\ntoken = {SECRET}\n")
    attempts = [
        f"{other.url}/team",
        f"http://127.0.0.1:{prod.port}-evil/team",
        f"http://127.0.0.1:{prod.port}@127.0.0.1:{other.port}/team",
        f"{other.url}/{prod.url}/team",
        f"http://localhost:{prod.port}/team",
        f"{prod.url}/team-b",
        f"{prod.url}/team/../team-b",
        f"{prod.url}",
    ]
    for server in attempts:
        for named in ((server, "--graph", "g"), (f"{server}/graphs/g",)):
            answer = run("branch", "list", "--server", *named, "--json")
            assert answer.exit_code in (1, 2), server
            assert SECRET not in answer.output
    assert other.tokens | prod.tokens == {None}
    assert prod.seen  # the wrong paths of the right host were asked, without the token
    prod.seen.clear()
    monkeypatch.setenv("OMNIGRAPH_BEARER_TOKEN", OTHER)
    run("branch", "list", "--server", "prod", "--graph", "g")
    run("branch", "list", f"{prod.url}/team/graphs/g")
    run("branch", "list", "--server", "old", "--graph", "g")
    assert (prod.tokens, other.tokens) == ({f"Bearer {SECRET}"}, {None, f"Bearer {OTHER}"})


def test_a_redirect_is_not_followed(
    run: Run, home: Path, listeners: tuple[Listener, Listener]
) -> None:
    prod, other = listeners
    configure(home, f"servers: {{prod: {{url: '{prod.url}'}}}}\n")
    keep(home, f"[prod]\ntoken = {SECRET}\n")
    for status in (301, 302, 307, 308):
        there = (status, {"Location": f"{other.url}/graphs/g/commits"}, {})
        prod.answers = {"/graphs/g/commits": there, "/graphs": there}
        refused = run("branch", "list", "--server", "prod", "--graph", "g", "--json")
        assert (refused.exit_code, "redirect" in json.loads(refused.stdout)["error"]) == (1, True)
        assert run("graphs", "list", "--server", "prod").exit_code == 1
        assert run("login", "prod", "--token", "x").exit_code == 1
    assert other.seen == []


def test_a_credentials_file_of_others_is_not_used(
    run: Run, home: Path, listeners: tuple[Listener, Listener]
) -> None:
    prod, _ = listeners
    configure(home, f"servers: {{prod: {{url: '{prod.url}'}}}}\n")
    keep(home, f"[prod]\ntoken = {SECRET}\n")
    (home / "credentials").chmod(0o644)
    answer = run("branch", "list", "--server", "prod", "--graph", "g", "--json")
    assert (answer.exit_code, "chmod 600" in json.loads(answer.stdout)["error"]) == (1, True)
    assert prod.seen == []
    refused = run("login", "prod", "--json", input="x\n")
    assert (refused.exit_code, "chmod 600" in json.loads(refused.stdout)["error"]) == (1, True)


def test_login_tries_the_token_and_logout_forgets_it(
    run: Run, home: Path, listeners: tuple[Listener, Listener]
) -> None:
    prod, other = listeners
    configure(home, f"servers: {{prod: {{url: '{prod.url}'}}}}\n")
    prod.answers["/healthz"] = (200, {}, {"status": "ok"})
    prod.answers["/graphs"] = (401, {}, {"error": "no", "code": "unauthorized"})
    wrong = run("login", "prod", "--json", input="mistyped\n")
    assert (wrong.exit_code, json.loads(wrong.stdout)["code"]) == (1, "unauthorized")
    assert prod.seen[0] == ("/healthz", None)
    assert not (home / "credentials").exists()
    prod.answers["/graphs"] = (403, {}, {"error": "may not list", "code": "forbidden"})
    told = of(run("login", "prod", "--json", input=f"{SECRET}\n"))
    path = str(home / "credentials")
    assert told == {"server": "prod", "credentials_path": path, "declared": True, "verified": True}
    assert prod.seen[-1] == ("/graphs", f"Bearer {SECRET}")
    assert (home / "credentials").stat().st_mode & 0o777 == 0o600
    other.answers = dict(prod.answers)
    asked = len(prod.seen)
    assert (
        of(run("login", "prod", "--token", "second", "--no-verify", "--json"))["verified"] is False
    )
    assert len(prod.seen) == asked
    unknown = run("login", "later", "--token", "t")
    assert unknown.exit_code == 0
    assert "no servers.later.url" in unknown.stderr
    assert of(run("logout", "prod", "--json"))["removed"] is True
    assert of(run("logout", "prod", "--json"))["removed"] is False
    assert (home / "credentials").read_text().strip() == "[later]\ntoken = t"
    for words, given in ((("login", "prod"), ""), (("login", "prod", "--token", "a b"), None)):
        assert run(*words, input=given).exit_code in (1, 2)
    assert run("login", "a]b", "--token", "t").exit_code == 1
    away = run("login", "prod", "--token", "t", "--json")
    assert away.exit_code == 0
    configure(home, "servers: {prod: {url: 'http://127.0.0.1:9'}}\n")
    away = run("login", "prod", "--token", "t", "--json")
    assert (away.exit_code, json.loads(away.stdout)["code"]) == (1, "server_unavailable")


def test_the_graph_of_a_server_is_found_or_asked_for(
    run: Run, home: Path, listeners: tuple[Listener, Listener]
) -> None:
    prod, _ = listeners
    configure(
        home,
        f"servers: {{prod: {{url: '{prod.url}'}}}}\n"
        "profiles: {p: {server: prod, default_graph: none}}\n",
    )
    both = {"graphs": [{"graph_id": "a"}, {"graph_id": "b", "uri": "s3://x"}], "quarantined": []}
    prod.answers["/graphs"] = (200, {}, both)
    several = run("branch", "list", "--server", "prod")
    assert (several.exit_code, "needs --graph ID; it has: a, b" in several.output) == (2, True)
    assert of(run("graphs", "list", "--profile", "p", "--json")) == both
    assert "b      served  s3://x" in run("graphs", "list", "--server", "prod").stdout
    prod.answers["/graphs"] = (403, {}, {"error": "no", "code": "forbidden"})
    hidden = run("branch", "list", "--server", "prod")
    assert (hidden.exit_code, hidden.output.rstrip().endswith("needs --graph ID")) == (2, True)
    prod.answers["/graphs"] = (200, {}, {"graphs": [{"graph_id": "only"}], "quarantined": []})
    prod.seen.clear()
    run("branch", "list", "--server", "prod")
    assert prod.seen[1][0].startswith("/graphs/only/")


def test_a_server_that_refuses_before_it_begins_is_75(
    run: Run, home: Path, listeners: tuple[Listener, Listener]
) -> None:
    busy, _ = listeners
    body = {"error": "too many", "code": "too_many_requests"}
    busy.answers["/graphs/g/commits"] = (429, {"Retry-After": "1"}, body)
    refused = run("branch", "list", f"{busy.url}/graphs/g", "--json")
    assert (refused.exit_code, json.loads(refused.stdout)["code"]) == (75, "too_many_requests")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    folder = tmp_path_factory.mktemp("operator")
    with omnigraph.init(folder / "people.omni", SCHEMA) as graph:
        graph.load([json.loads(line) for line in LINES.splitlines()])
        graph.branches.create("dev")
        graph.mutate('insert Person { name: "Dev" }', branch="dev")
    (folder / "queries").mkdir()
    (folder / "queries" / "people.gq").write_text(
        "query aged($age: I32, $name: String?) { match { $p: Person  $p.age = $age } "
        "return { $p.name as name, $p.age as age } order { $p.name asc } }\n"
        'query grow() { update Person set { age: 1 } where name = "Cleo" }\n'
    )
    uri = str(folder / "people.omni")
    with ThreadServer({"people": uri}, queries={"people": str(folder / "queries")}) as opened:
        yield opened


def test_aliases(run: Run, home: Path, served: ThreadServer) -> None:
    place = "server: here, graph: people"
    configure(
        home,
        f"servers: {{here: {{url: '{served.url}'}}}}\n"
        "defaults: {output: jsonl}\n"
        "aliases:\n"
        f"  aged: {{{place}, query: aged, args: [age, name]}}\n"
        f"  young: {{{place}, query: aged, params: {{age: 36}}, format: csv}}\n"
        f"  grow: {{{place}, query: grow}}\n"
        "  bad: {server: here}\n",
    )
    rows = of(run("alias", "aged", 36, "--json"))["rows"]
    assert rows
    assert {row["age"] for row in rows} == {36}
    lines = run("alias", "aged", "36").stdout.splitlines()
    assert [json.loads(line) for line in lines] == rows
    assert run("alias", "young").stdout.splitlines()[0] == "name,age"
    assert run("alias", "young", "--format", "jsonl").stdout == run("alias", "aged", "36").stdout
    assert of(run("alias", "young", "--format", "csv", "--json"))["rows"] == rows
    many = run("alias", "young", "1")
    assert (many.exit_code, "takes no values, got 1 value" in many.output) == (2, True)
    unknown = run("alias", "agd")
    assert (unknown.exit_code, "did you mean 'aged'?" in unknown.output) == (2, True)
    bad = run("alias", "bad")
    assert (bad.exit_code, "`aliases.bad` has no `query`" in bad.output) == (2, True)
    writes = run("alias", "grow", "--json")
    assert writes.exit_code == 1
    listed = of(run("alias", "--json"))["aliases"]
    assert [each["name"] for each in listed] == ["aged", "young", "grow", "bad"]
    assert "aged" in run("alias").stdout


def test_profiles(
    run: Run, home: Path, served: ThreadServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(
        home,
        f"servers: {{here: {{url: '{served.url}'}}}}\n"
        "defaults: {output: csv, branch: none}\n"
        "profiles:\n"
        "  work: {server: here, default_graph: people, branch: dev}\n"
        "  shared: {cluster: 's3://bucket/root', default_graph: g}\n"
        "  wrong: {server: here, store: x}\n",
    )
    found = of(run("profile", "list", "--json"))["profiles"]
    assert [each["scope_kind"] for each in found] == ["server", "cluster", "invalid"]
    assert found[0] == {
        "name": "work",
        "binding": "here",
        "scope_kind": "server",
        "target": served.url,
        "valid": True,
        "default_graph": "people",
        "active": False,
    }
    assert "exactly one of" in found[2]["error"]
    assert "exactly one of" in run("profile", "list").stdout
    assert run("profile", "show").exit_code == 2
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "work")
    shown = of(run("profile", "show", "--json"))
    assert (shown["active"], shown["branch"], shown["output_format"]) == (True, "dev", "csv")
    assert shown["endpoint"] == f"{served.url}/graphs/people"
    names = run("query", "-e", NAMES).stdout.splitlines()
    assert "Dev" in names
    assert "Dev" not in run("query", "-e", NAMES, "--branch", "main").stdout
    assert of(run("query", "-e", NAMES, "--profile", "work", "--json"))["target"] == {
        "branch": "dev"
    }


def test_what_cannot_be_undone_needs_a_yes_on_another_machine(
    run: Run, home: Path, served: ThreadServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ("--server", f"{served.url}/graphs/people")
    data = home / "Company.csv"
    data.write_text("name\nX\n")
    load = ("load", "--data", data, "--mode", "overwrite", "--branch", "other", "--from", "main")
    run("branch", "create", "gone", *there)
    for words in (load, ("branch", "delete", "gone"), ("cleanup", "--confirm")):
        alone = run(*words, *there)
        assert (alone.exit_code, "add --yes" in alone.output) == (2, True), words
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        assert run(*words, *there, "--json").exit_code == 2
        done = run(*words, *there, "--yes")
        assert done.exit_code == 0, done.output
        command = " ".join(
            word for word in words[:2] if word in ("load", "branch", "delete", "cleanup")
        )
        assert f"omnigraph {command} → {there[1]} (served, remote)" in done.stderr
    assert "→" not in run("branch", "create", "q", *there, "--quiet").stderr
    assert "→" not in run("branch", "list", *there).stderr
