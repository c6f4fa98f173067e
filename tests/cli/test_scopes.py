"""Which graph is meant: flags, environment and config file in every combination that matters."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
import typer

from omnigraph.cli.output import WrongUsage
from omnigraph.cli.scopes import DIRECT, SERVED, UPKEEP, AddressFlags, GraphScope, Reach, resolve
from omnigraph.cli.session import Session
from omnigraph.errors import InvalidArgument
from omnigraph.settings.config_file import OperatorConfig, read_config

CONFIG = """
servers:
  prod: {url: "https://prod.example/api/"}
  test: {url: "http://test.example/graphs/only"}
  bad: {url: "ftp://x"}
  empty: {}
clusters:
  shared: {root: "s3://bucket/root"}
  here: {root: clusters/here}
profiles:
  p-server: {server: prod, default_graph: people, branch: dev}
  p-open: {server: prod}
  p-url: {server: "http://u.example"}
  p-cluster: {cluster: shared, default_graph: people}
  p-dir: {cluster: other}
  p-store: {store: local.omni}
  p-two: {server: prod, store: x}
  p-none: {default_graph: x}
  p-graph: {store: x, default_graph: y}
  p-number: 5
  p-gone: {server: nowhere}
"""
DEFAULT_SERVER = "defaults: {server: prod, default_graph: first, branch: work}\n"
DEFAULT_STORE = "defaults: {store: mine.omni}\n"


def read(folder: Path, text: str) -> OperatorConfig:
    (folder / "config.yaml").write_text(text)
    return read_config(folder / "config.yaml")


def shown(scope: GraphScope, folder: Path) -> str:
    graph = "" if scope.graph is None else f" {scope.graph}"
    branch = "" if scope.branch is None else f" @{scope.branch}"
    return f"{scope.kind} {scope.target}{graph}{branch}".replace(f"{folder}/", "")


def flags(text: str) -> AddressFlags:
    given = {}
    for word in text.split():
        name, _, value = word.partition("=")
        given[name] = value
    return AddressFlags(**given)


P = "https://prod.example/api"


@pytest.mark.parametrize(
    ("given", "environment", "defaults", "wanted"),
    [
        ("uri=x.omni", {}, "", "store x.omni"),
        ("store=s3://b/x", {}, "", "store s3://b/x"),
        ("uri=x.omni store=x.omni", {}, "", "store x.omni"),
        ("uri=http://h/graphs/g", {}, "", "server http://h g"),
        ("store=http://h/a/graphs/g/", {}, "", "server http://h/a g"),
        ("uri=http://graphs/graphs/g", {}, "", "server http://graphs g"),
        ("server=prod graph=g", {}, "", f"server {P} g"),
        ("server=prod", {}, "", f"server {P}"),
        ("server=http://h:1 graph=g", {}, "", "server http://h:1 g"),
        ("server=http://h/graphs/g", {}, "", "server http://h g"),
        ("server=http://h/graphs/g graph=g", {}, "", "server http://h g"),
        ("server=test", {}, "", "server http://test.example only"),
        ("cluster=shared graph=g", {}, "", "cluster s3://bucket/root g"),
        ("cluster=here", {}, "", "cluster clusters/here"),
        ("cluster=./dir", {}, "", "cluster ./dir"),
        ("profile=p-server", {}, "", f"server {P} people @dev"),
        ("profile=p-server graph=other", {}, "", f"server {P} other @dev"),
        ("profile=p-url graph=g", {}, "", "server http://u.example g"),
        ("profile=p-cluster", {}, "", "cluster s3://bucket/root people"),
        ("profile=p-dir", {}, "", "cluster other"),
        ("profile=p-store", {}, "", "store local.omni"),
        # a flag is more than a profile, a profile more than a default
        ("store=x profile=p-server", {}, DEFAULT_SERVER, "store x @work"),
        ("store=x", {"OMNIGRAPH_PROFILE": "p-server"}, "", "store x"),
        ("server=prod", {"OMNIGRAPH_PROFILE": "p-server"}, "", f"server {P}"),
        ("profile=p-store", {"OMNIGRAPH_PROFILE": "p-server"}, "", "store local.omni"),
        ("", {"OMNIGRAPH_PROFILE": "p-store"}, DEFAULT_SERVER, "store local.omni @work"),
        ("", {"OMNIGRAPH_PROFILE": ""}, DEFAULT_STORE, "store mine.omni"),
        ("", {"OMNIGRAPH_PROFILE": "p-store", "OMNIGRAPH_SERVER": "prod"}, "", "store local.omni"),
        ("", {"OMNIGRAPH_SERVER": "http://e"}, DEFAULT_STORE, "server http://e"),
        ("", {"OMNIGRAPH_SERVER": "prod", "OMNIGRAPH_GRAPH_ID": "e"}, "", f"server {P} e"),
        ("graph=f", {"OMNIGRAPH_SERVER": "prod", "OMNIGRAPH_GRAPH_ID": "e"}, "", f"server {P} f"),
        ("server=prod", {"OMNIGRAPH_GRAPH_ID": "e"}, "", f"server {P} e"),
        ("profile=p-server", {"OMNIGRAPH_GRAPH_ID": "e"}, "", f"server {P} people @dev"),
        ("cluster=shared", {"OMNIGRAPH_GRAPH_ID": "e"}, "", "cluster s3://bucket/root"),
        ("store=x", {"OMNIGRAPH_GRAPH_ID": "e"}, "", "store x"),
        ("", {}, DEFAULT_SERVER, f"server {P} first @work"),
        ("graph=g", {}, DEFAULT_SERVER, f"server {P} g @work"),
        ("", {"OMNIGRAPH_GRAPH_ID": "e"}, DEFAULT_SERVER, f"server {P} e @work"),
        ("server=prod", {}, DEFAULT_SERVER, f"server {P} @work"),
        ("profile=p-open", {}, DEFAULT_SERVER, f"server {P} @work"),
        ("", {}, DEFAULT_STORE, "store mine.omni"),
    ],
)
def test_the_scope(
    given: str, environment: dict[str, str], defaults: str, wanted: str, tmp_path: Path
) -> None:
    config = read(tmp_path, CONFIG + defaults)
    assert shown(resolve(flags(given), environment, config, UPKEEP), tmp_path) == wanted


@pytest.mark.parametrize(
    ("given", "environment", "defaults", "message"),
    [
        ("", {}, "", "no graph is named: give --store URI, --cluster DIR --graph ID, or --server"),
        ("uri=a store=b", {}, "", "two graphs are named: a and --store b"),
        ("store=a server=prod", {}, "", "two graphs are named: --store a and --server prod"),
        ("server=prod cluster=here", {}, "", "two graphs are named: --server prod and --cluster"),
        ("uri=a cluster=here", {}, "", "two graphs are named: a and --cluster here"),
        ("uri=a store=a server=prod", {}, "", "two graphs are named: a and --server prod"),
        ("store=", {}, "", "no address given: --store is empty"),
        ("server=prod graph=", {}, "", "--graph is empty"),
        ("store=a graph=g", {}, "", "and a is a graph itself"),
        ("profile=p-store graph=g", {}, "", "is a graph itself"),
        ("graph=g", {}, DEFAULT_STORE, "is a graph itself"),
        ("server=http://h/graphs/g graph=o", {}, "", "two graphs are named: http://h/graphs/g and"),
        ("uri=http://h", {}, "", "http://h names no graph of a server: write http://h/graphs/ID"),
        ("server=prd", {}, "", "no server is called 'prd'; did you mean 'prod'?"),
        ("server=bad", {}, "", "servers.bad.url in the config file is no http or https address"),
        ("server=empty", {}, "", "servers.empty.url in the config file is no http"),
        ("server=http://a:b@h", {}, "", "must not hold a name or password"),
        ("profile=p-sever", {}, "", "no profile is called 'p-sever'; did you mean 'p-server'?"),
        ("", {"OMNIGRAPH_PROFILE": "no"}, DEFAULT_STORE, "no profile is called 'no'"),
        ("profile=p-two", {}, "", "exactly one of server, cluster, store; it has server and store"),
        ("profile=p-none", {}, "", "exactly one of server, cluster, store; it has none"),
        ("profile=p-graph", {}, "", "a store is one graph"),
        ("profile=p-number", {}, "", "`profiles.p-number` must hold"),
        ("profile=p-gone", {}, "", "no server is called 'nowhere'"),
        ("", {}, "defaults: {server: prod, store: x}\n", "defaults.server and defaults.store"),
    ],
)
def test_what_is_wrong(
    given: str, environment: dict[str, str], defaults: str, message: str, tmp_path: Path
) -> None:
    config = read(tmp_path, CONFIG + defaults)
    with pytest.raises(WrongUsage) as caught:
        resolve(flags(given), environment, config, UPKEEP)
    assert message in caught.value.message
    assert "a:b" not in caught.value.message


@pytest.mark.parametrize(
    ("reach", "given", "message"),
    [
        (
            DIRECT,
            "server=prod",
            "`repair` cannot use --server prod, which is a server: it works on",
        ),
        (DIRECT, "profile=p-server", "`repair` cannot use profile p-server, which is a server"),
        (SERVED, "store=x", "`repair` cannot use --store x, which is a store: it asks a server"),
        (SERVED, "cluster=here", "which is a cluster: it asks a server; give --server NAME|URL"),
    ],
)
def test_a_scope_that_a_command_cannot_use(
    reach: Reach, given: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(WrongUsage) as caught:
        resolve(flags(given), {}, read(tmp_path, CONFIG), reach, "repair")
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("servers:\n  a-b: {url: http://x}\n  a_b: {url: http://y}\n", ":3: `servers.a_b` and"),
        ("servers:\n  'a b': {url: http://x}\n", ":2: `servers.a b` is no name of a server"),
        ("servers: [a]\n", ":1: `servers` must hold"),
        ("servers:\n  a: {url: 5}\n", ":2: `servers.a.url` must be a text, got 5"),
        ("defaults:\n  table_max_column_width: 0\n", ":2: `defaults.table_max_column_width` must"),
        ("defaults:\n  table_cell_layout: cut\n", "must be one of truncate, wrap"),
        ("defaults:\n  output: xml\n", "must be one of table, json"),
        ("operator: {actor: a}\noperator: {}\n", ':2: found duplicate key "operator"'),
        ("a: b: c\n", ":1: mapping values are not allowed here"),
    ],
)
def test_a_malformed_file_names_its_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)
    assert caught.value.file == str(tmp_path / "config.yaml")


class Terminal(io.StringIO):
    """Standard input of a person who types."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("address", "typed", "words", "end"),
    [
        ("people.omni", None, {}, None),
        ("file:///people.omni", None, {}, None),
        ("s3://b/x", None, {}, "There is no terminal to ask on: add --yes"),
        ("s3://b/x", None, {"yes": True}, None),
        ("s3://b/x", "y\n", {"json": True}, "With --json no question is asked: add --yes"),
        ("http://h/graphs/g", "y\n", {}, None),
        ("http://h/graphs/g", "n\n", {}, "exit 1"),
        ("http://h/graphs/g", "", {}, "exit 1"),
    ],
)
def test_a_question_before_something_is_destroyed(
    address: str,
    typed: str | None,
    words: dict[str, bool],
    end: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO() if typed is None else Terminal(typed))
    session = Session(**words)
    told = None
    try:
        session.confirm_remote(address, "Remove everything from")
    except WrongUsage as error:
        told = error.message
    except typer.Exit as left:
        told = f"exit {left.exit_code}"
    assert told == end if end is None else end in str(told)
    asked = typed is not None and not words
    assert (f"Remove everything from {address}" in capsys.readouterr().err) is asked
