"""Every command with every flag that names a graph: it works, or its error names the right flag.

The cells are made from the commands that exist, so a new command that does not say on which scopes
it works fails here.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from omnigraph.cli import session as session_module
from omnigraph.cli.command import declared
from omnigraph.cli.main import app
from omnigraph.cli.scopes import BINDINGS, REACHES, ScopeKind
from omnigraph.remote import server_graphs as server_module

ROOT = get_command(app)
SERVER = "http://127.0.0.1:9"
PRIMITIVES = {"--store": "s.omni", "--server": SERVER, "--cluster": "cluster"}
FLAGS = (*PRIMITIVES, "--graph", "--profile", "--token")
KINDS = {"--store": ScopeKind.STORE, "--server": ScopeKind.SERVER, "--cluster": ScopeKind.CLUSTER}
OWN = {("login", "--token"), ("serve", "--cluster")}
"""Flags that mean something else to a command than a graph of its own."""
OF_A_SERVER = ("graphs", "console")
"""Commands that work on a whole server."""
READ = "query q() { match { $p: P } return { $p.name } }"
NEEDED = {
    "query": ["-e", READ],
    "explain": ["-e", READ],
    "profile": ["-e", READ],
    "mutate": ["-e", 'insert P { name: "x" }'],
    "schema apply": ["--schema", "{file}"],
    "blob get": ["-o", "out.bin"],
}
"""What a command needs beside its required arguments and options."""
CONFIG = """
profiles:
  on-store: {store: s.omni}
  on-server: {server: "http://127.0.0.1:9", default_graph: g}
  on-cluster: {cluster: cluster, default_graph: g}
"""


def walk(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, found in group.commands.items():
        if isinstance(found, TyperGroup):
            yield from walk(found, (*path, name))
        else:
            yield (*path, name), found


COMMANDS = dict(walk(ROOT))


class Reached(BaseException):
    """A command has resolved its graph and would open it now."""

    def __init__(self, address: str) -> None:
        self.address = address


@dataclass(frozen=True)
class Outcome:
    """The address that a command would open, or its error."""

    address: str | None
    error: str = ""
    code: int = 0


Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs words in a folder with a cluster, up to the point where the graph would be opened."""
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "operator"
    home.mkdir()
    (home / "config.yaml").write_text(CONFIG.replace("store: s", f"store: {tmp_path}/s"))
    monkeypatch.setenv("OMNIGRAPH_HOME", str(home))
    for name in ("CONFIG", "PROFILE", "SERVER", "GRAPH_ID", "TOKEN", "BEARER_TOKEN", "DEBUG"):
        monkeypatch.delenv(f"OMNIGRAPH_{name}", raising=False)
    ledger = home / "cluster" / "__cluster" / "state.json"
    ledger.parent.mkdir(parents=True)
    resources = {"graph.g": {"digest": "0"}, "schema.g": {"digest": "0"}}
    applied = {"config_digest": None, "resources": resources}
    ledger.write_text(json.dumps({"version": 1, "state_revision": 1, "applied_revision": applied}))
    Path("cluster").symlink_to(home / "cluster")
    Path("file").write_text("node P { name: String @key }\n")
    monkeypatch.setattr(session_module, "_open", lambda session, uri, **_: reach(uri))
    monkeypatch.setattr(server_module, "server_graphs", lambda server, *_: reach(server))
    monkeypatch.setattr("omnigraph.init", lambda uri, *_, **__: reach(uri))
    monkeypatch.setattr("omnigraph.cluster.serving.read_revision", revision)
    spark = ModuleType("omnigraph.spark.pipelines")
    spark.__dict__.update(
        load=lambda *_, store=None, **__: reach(store),
        list_pipelines=lambda uri, *_, **__: reach(uri),
    )
    monkeypatch.setitem(sys.modules, "omnigraph.spark.pipelines", spark)
    console = ModuleType("omnigraph.console.site")
    found = SimpleNamespace(found=lambda url, *_: reach(url))
    console.__dict__.update(serve=None, GraphSource=None, StoreSource=None, ServerSource=found)
    monkeypatch.setitem(sys.modules, "omnigraph.console.site", console)
    monkeypatch.setitem(sys.modules, "omnigraph.console.viewers", console)

    def invoke(*words: str) -> Outcome:
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                ROOT.main([*words, "--json"])
        except Reached as found:
            return Outcome(found.address)
        except SystemExit as end:
            code = int(end.code or 0)
            body = json.loads(out.getvalue()) if code else {}
            return Outcome(None, body.get("error", ""), code)
        return Outcome(None)

    return invoke


def revision(root: Any, _: Any) -> Any:
    graph = SimpleNamespace(graph_id="g", uri=root.graph_uri("g"), queries=(), refusal=None)
    return SimpleNamespace(graphs={"g": graph})


def reach(address: str) -> Any:
    raise Reached(address)


def line(path: tuple[str, ...], found: Any) -> list[str]:
    """The command with everything that it needs, except a graph."""
    words = [*path]
    for parameter in found.params:
        if parameter.param_type_name == "argument" and parameter.required:
            words += ["Doc", "a", "photo"] if parameter.nargs == -1 else ["file"]
        elif parameter.required:
            words += [parameter.opts[0], "file"]
    needed = NEEDED.get(shown(path), [])
    return words + [word.replace("{file}", "file") for word in needed]


def shown(path: tuple[str, ...]) -> str:
    unnamed = path[-1] == "run" and path[0] in ("query", "profile")
    return " ".join(path[:-1] if unnamed else path)


def has(found: Any, flag: str) -> bool:
    return any(flag in parameter.opts for parameter in found.params)


def whole(address: str | None, folder: Path) -> str | None:
    """An address without the folder of the test."""
    return None if address is None else address.replace(f"{folder}/", "").replace("operator/", "")


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_flag_of_a_command(run: Run, path: tuple[str, ...], tmp_path: Path) -> None:
    found = COMMANDS[path]
    says = declared(found)
    assert says.reach is not None, f"declare on which scopes `{shown(path)}` works: command(…, ANY)"
    assert says.reach in REACHES
    words, kinds = line(path, found), says.reach.kinds
    graph = ["--graph", "g"] if has(found, "--graph") and kinds else []
    wanted = {
        "--store": "s.omni",
        "--server": SERVER if path[0] in OF_A_SERVER else f"{SERVER}/graphs/g",
        "--cluster": "cluster/graphs/g.omni",
    }
    for flag in FLAGS:
        if (path[-1], flag) in OWN:
            continue
        if not has(found, flag):
            refused = run(*words, flag, "x")
            assert refused.code == 2, flag
            assert refused.error == says.reach.refusal(shown(path), flag)
            assert KINDS.get(flag) not in kinds or flag == "--store", flag
        elif flag in PRIMITIVES and kinds and says.reach is not BINDINGS:
            more = [] if flag == "--store" else graph
            assert KINDS[flag] in kinds, f"{flag} is an option, and no scope of {says.reach.name}"
            got = run(*words, flag, PRIMITIVES[flag], *more)
            assert whole(got.address, tmp_path) == wanted[flag], got
    reaches = has(found, "--profile") and says.reach is not BINDINGS
    for kind in ScopeKind if reaches else ():
        got = run(*words, "--profile", f"on-{kind}")
        if kind in kinds:
            assert whole(got.address, tmp_path) == wanted[f"--{kind}"], got
        else:
            assert got.code == 2
            assert f"profile on-{kind}, which is a {kind}: {says.reach.advice}" in got.error


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_actor_is_for_changes(run: Run, path: tuple[str, ...]) -> None:
    says = declared(COMMANDS[path])
    got = run(*line(path, COMMANDS[path]), "--as", "ada")
    refused = got.code == 2 and "--as names the author of a change" in got.error
    assert refused is not says.writes
    if says.reach is not None and says.writes and ScopeKind.STORE in says.reach.kinds:
        named = run(*line(path, COMMANDS[path]), "--store", "s.omni", "--as", "ada")
        assert (named.address or "").endswith("s.omni"), named


def with_uri() -> Iterator[tuple[str, ...]]:
    for path, found in COMMANDS.items():
        if any(parameter.name == "uri" and not parameter.required for parameter in found.params):
            yield path


@pytest.mark.parametrize("path", list(with_uri()), ids=" ".join)
def test_a_positional_uri(run: Run, path: tuple[str, ...]) -> None:
    words = line(path, COMMANDS[path])
    assert run(*words, "s.omni").address == "s.omni"
    assert run(*words, "s.omni", "--store", "s.omni").address == "s.omni"
    twice = run(*words, "s.omni", "--store", "t.omni")
    assert (twice.code, "two graphs are named: s.omni and --store t.omni" in twice.error) == (
        2,
        True,
    )
    says = declared(COMMANDS[path])
    assert says.reach is not None
    served = run(*words, f"{SERVER}/graphs/g")
    if ScopeKind.SERVER in says.reach.kinds:
        assert served.address == (SERVER if path[0] in OF_A_SERVER else f"{SERVER}/graphs/g")
        beside = run(*words, "s.omni", "--graph", "g")
        assert (beside.code, "is a graph itself" in beside.error) == (2, True)
    else:
        assert (served.code, "which is a server" in served.error) == (2, True)


def test_profile_without_a_name_asks_for_timings(run: Run) -> None:
    words = ("query", "-e", READ, "--store", "s.omni")
    assert run(*words, "--profile").address == "s.omni"
    assert run("query", "--profile", *words[1:]).address == "s.omni"
    assert run("query", "-e", READ, "--profile", "on-server").address == f"{SERVER}/graphs/g"
    unknown = run("query", "-e", READ, "--profile", "on-servr")
    assert (unknown.code, "did you mean 'on-server'?" in unknown.error) == (2, True)
