"""One run of a command: its shared flags, the config file, and the graph that it opens."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

import omnigraph
from omnigraph.cli.options import BranchPlace
from omnigraph.cli.output import EXIT_FAILED, WrongUsage, print_json
from omnigraph.errors import NotFound
from omnigraph.progress import shown, terminal_is_watched
from omnigraph.settings.config_file import OperatorConfig, read_config
from omnigraph.settings.models import Settings

if TYPE_CHECKING:
    from omnigraph.graph.handle import Graph


PATH_VARIABLE = "OMNIGRAPH_CONFIG"
HOME_VARIABLE = "OMNIGRAPH_HOME"
SERVER_VARIABLE = "OMNIGRAPH_SERVER"
GRAPH_VARIABLE = "OMNIGRAPH_GRAPH_ID"
TOKEN_VARIABLE = "OMNIGRAPH_TOKEN"


@dataclass(frozen=True, slots=True)
class Session:
    """The shared flags of this run: `--json`, `--as`, `--quiet`, `--yes`, `--server` and others."""

    json: bool = False
    as_actor: str | None = None
    quiet: bool = False
    yes: bool = False
    server: str | None = None
    graph_id: str | None = None
    token: str | None = field(default=None, repr=False)
    _config: list[OperatorConfig] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    """The config file, once it was read."""

    def config(self) -> OperatorConfig:
        """The config file. It is read once, and its unknown keys are warned of then."""
        if not self._config:
            self._config.append(read_operator_config(os.environ))
            for warning in self._config[0].warnings:
                self.note(f"warning: {warning}")
        return self._config[0]

    def actor(self) -> str | None:
        """The value of `--as`, or the actor of the config file."""
        return self.as_actor if self.as_actor is not None else self.config().actor

    def settings(self) -> Settings:
        """The settings of the config file."""
        return self.config().settings

    def note(self, text: str) -> None:
        """Print something that is not a result, unless `--quiet`."""
        if not self.quiet:
            sys.stderr.write(f"{text}\n")

    def working(self, what: str) -> AbstractContextManager[None]:
        """A line on the terminal that says what is being done."""
        visible = terminal_is_watched() and not self.quiet and not self.json
        return shown(what) if visible else nullcontext()

    def confirm(self, question: str) -> None:
        """Ask before something that cannot be undone; scripts give `--yes`."""
        if self.yes:
            return
        if not sys.stdin.isatty():
            raise WrongUsage(f"{question} There is no terminal to ask on: add --yes")
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            if self.json:
                print_json({"error": "not confirmed, nothing was changed", "code": "not_confirmed"})
            raise typer.Exit(EXIT_FAILED)


def read_operator_config(environment: Mapping[str, str]) -> OperatorConfig:
    """Read the config file; a missing file is an error only if the environment names it."""
    named = environment.get(PATH_VARIABLE)
    home = environment.get(HOME_VARIABLE) or "~/.omnigraph"
    try:
        return read_config(named or Path(home).expanduser() / "config.yaml")
    except NotFound:
        if named:
            raise NotFound(f"{PATH_VARIABLE} names {named}: no such file", file=named) from None
        return OperatorConfig()


def address(session: Session, uri: str | None, store: str | None = None) -> str:
    """The address of the graph: the argument, `--store`, `--server`, or a default.

    The default is the server of the environment, and then the store of the config file.
    """
    if uri is not None and store is not None and uri != store:
        raise WrongUsage(f"two graphs are named: {uri} and --store {store}")
    given = uri if uri is not None else store
    if session.server is not None:
        if given is not None:
            raise WrongUsage(f"two graphs are named: {given} and --server {session.server}")
        return served_address(session, session.server)
    if given is not None:
        if session.graph_id is not None:
            raise WrongUsage(f"--graph names a graph of a server, and {given} is a graph itself")
        return given
    if os.environ.get(SERVER_VARIABLE):
        return served_address(session, os.environ[SERVER_VARIABLE])
    found = session.config().store
    if found is None:
        server = (
            "; the server of defaults.server cannot be used by this version"
            if session.config().has_server
            else ""
        )
        raise WrongUsage(
            "no graph is named: give --store URI or --server URL --graph ID, or set "
            "defaults.store in "
            f"~/.omnigraph/config.yaml ({PATH_VARIABLE} names another file){server}"
        )
    return found


def served_address(session: Session, server: str) -> str:
    """The address of a graph on a server; without `--graph` the server is asked for its graphs."""
    from omnigraph.remote.address import parse_server

    parsed = parse_server(server, urlsplit(server).path)
    graph_id = session.graph_id or os.environ.get(GRAPH_VARIABLE)
    if "/graphs/" in parsed:
        if session.graph_id is not None and not parsed.endswith(f"/graphs/{session.graph_id}"):
            raise WrongUsage(f"two graphs are named: {parsed} and --graph {session.graph_id}")
        return parsed
    if graph_id is not None:
        return f"{parsed}/graphs/{graph_id}"
    from omnigraph.remote.server_graphs import list_graphs

    names = list_graphs(parsed, server_token(session), session.settings().client)
    listed = f"; it has: {', '.join(names)}" if names else ""
    raise WrongUsage(f"--server {parsed} needs --graph ID{listed}")


def server_token(session: Session) -> str | None:
    return session.token or os.environ.get(TOKEN_VARIABLE) or None


def _open(session: Session, uri: str, *, read_only: bool) -> Graph:
    from omnigraph.remote.address import is_remote

    if not is_remote(uri):
        if session.token is not None:
            raise WrongUsage(f"--token is for a server, and {uri} is a store")
        return omnigraph.open(
            uri, actor=session.actor(), read_only=read_only, settings=session.settings()
        )
    if session.as_actor is not None:
        raise WrongUsage("--as is for a store: a server knows you by your token")
    token = server_token(session)
    return omnigraph.open(uri, token=token, read_only=read_only, settings=session.settings())


def open_to_read(session: Session, uri: str, *where: str | None) -> Graph:
    """Open read-only: nothing is written, so dead writers are not recovered either."""
    graph = _open(session, uri, read_only=True)
    echo_target(session, uri, *where)
    return graph


def read_branch(session: Session, place: BranchPlace) -> Graph:
    return open_to_read(session, address(session, place.uri, place.store), on_branch(place.branch))


def open_to_write(session: Session, uri: str, *where: str | None) -> Graph:
    graph = _open(session, uri, read_only=False)
    echo_target(session, uri, *where)
    return graph


def echo_target(session: Session, uri: str, *where: str | None) -> None:
    session.note("  ".join([f"graph {uri}", *(part for part in where if part)]))


def on_branch(branch: str, at: str | None = None) -> str:
    return f"branch {branch}" if at is None else f"branch {branch} at {at}"
