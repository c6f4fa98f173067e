"""Which graph a command means, and opening it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import omnigraph
from omnigraph.cli.operator_config import PATH_VARIABLE
from omnigraph.cli.options import BranchPlace
from omnigraph.cli.output import WrongUsage
from omnigraph.cli.session import Session

if TYPE_CHECKING:
    from omnigraph.graph.handle import Graph


def address(session: Session, uri: str | None, store: str | None = None) -> str:
    """The argument, `--store`, or the default of the config file."""
    if uri is not None and store is not None and uri != store:
        raise WrongUsage(f"two graphs are named: {uri} and --store {store}")
    given = uri if uri is not None else store
    found = given if given is not None else session.config().store
    if found is None:
        raise WrongUsage(
            "no graph is named: give --store URI, or set defaults.store in "
            f"~/.omnigraph/config.yaml ({PATH_VARIABLE} names another file)"
        )
    return found


def open_to_read(session: Session, uri: str, *where: str | None) -> Graph:
    """Reads leave no trace, so they do not recover dead writers either."""
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
