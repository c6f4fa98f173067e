"""`demo`: the command; `cli.demo` has the story and its data."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import AutoEngine
from omnigraph.cli.scopes import LOCAL
from omnigraph.cli.session import Session
from omnigraph.errors import InvalidArgument

Folder = Annotated[
    str | None,
    typer.Option(
        "--dir", metavar="DIR", help="A new or empty directory; default: a temporary one."
    ),
]
Size = Annotated[
    int,
    typer.Option("--size", min=300, max=50_000_000, metavar="N", help="About how many entities."),
]
Engine = Annotated[
    AutoEngine,
    typer.Option("--engine", help="Where the load runs; auto takes Spark if it is installed."),
]


def register(app: typer.Typer) -> None:
    command(app, "demo", LOCAL)(demo)


def demo(
    session: Session, folder: Folder = None, size: Size = 300_000, engine: Engine = AutoEngine.AUTO
) -> None:
    """Create, load, search, branch, merge and recover an example graph, with timings.

    For example:

    \b
      omnigraph demo
      omnigraph demo --size 30000 --dir /tmp/library
    """
    from omnigraph.cli.demo.library import library_size
    from omnigraph.cli.demo.story import tell

    tell(session, _place(folder), library_size(size), engine.value)


def _place(folder: str | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="omnigraph-demo-"))
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        taken = any(place.iterdir())
    except OSError as error:
        raise InvalidArgument(f"cannot use {place}: {error.strerror}", file=folder) from None
    if taken:
        raise InvalidArgument(f"{place} is not empty: name a new directory", file=folder)
    return place
