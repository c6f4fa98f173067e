"""One run of a command: its shared flags, the config file, and the graph that it opens."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

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


@dataclass(frozen=True, slots=True)
class Session:
    """The shared flags of this run: `--json`, `--as`, `--quiet`, `--yes`."""

    json: bool = False
    as_actor: str | None = None
    quiet: bool = False
    yes: bool = False
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
    """The address of the graph: the argument, `--store`, or the default of the config file."""
    if uri is not None and store is not None and uri != store:
        raise WrongUsage(f"two graphs are named: {uri} and --store {store}")
    given = uri if uri is not None else store
    found = given if given is not None else session.config().store
    if found is None:
        server = (
            "; the server of defaults.server cannot be used by this version"
            if session.config().has_server
            else ""
        )
        raise WrongUsage(
            "no graph is named: give --store URI, or set defaults.store in "
            f"~/.omnigraph/config.yaml ({PATH_VARIABLE} names another file){server}"
        )
    return found


def open_to_read(session: Session, uri: str, *where: str | None) -> Graph:
    """Open read-only: nothing is written, so dead writers are not recovered either."""
    graph = omnigraph.open(uri, actor=session.actor(), read_only=True, settings=session.settings())
    echo_target(session, uri, *where)
    return graph


def read_branch(session: Session, place: BranchPlace) -> Graph:
    return open_to_read(session, address(session, place.uri, place.store), on_branch(place.branch))


def open_to_write(session: Session, uri: str, *where: str | None) -> Graph:
    graph = omnigraph.open(uri, actor=session.actor(), settings=session.settings())
    echo_target(session, uri, *where)
    return graph


def echo_target(session: Session, uri: str, *where: str | None) -> None:
    session.note("  ".join([f"graph {uri}", *(part for part in where if part)]))


def on_branch(branch: str, at: str | None = None) -> str:
    return f"branch {branch}" if at is None else f"branch {branch} at {at}"
