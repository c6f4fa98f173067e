"""`backup` and `restore`: copy a whole graph, and copy it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

import omnigraph
from omnigraph.cli.command import command
from omnigraph.cli.output import print_json, print_result, readable_bytes
from omnigraph.cli.scopes import ARGUMENT
from omnigraph.cli.session import Session, echo_target, open_to_write
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.maintain.backup import BackupReport

Graph = Annotated[str, typer.Argument(metavar="URI", help="The graph.")]
Copy = Annotated[str, typer.Argument(metavar="BACKUP", help="A directory or s3://bucket/prefix.")]


def register(app: typer.Typer) -> None:
    command(app, "backup", ARGUMENT, writes=True)(backup)
    command(app, "restore", ARGUMENT, writes=True)(restore)


def backup(session: Session, uri: Graph, target: Copy) -> None:
    """Copy a graph with branches, tags and history to an empty place; writers need not stop.

    For example:

    \b
      omnigraph backup people.omni /backups/people-monday
    """
    graph = open_to_write(session, uri)
    with session.working("copying"):
        report = graph.backup(target)
    _print(session, report)


def restore(session: Session, source: Copy, uri: Graph) -> None:
    """Copy a backup to an empty address: the old address of the graph, or any other.

    For example:

    \b
      omnigraph restore /backups/people-monday people.omni
    """
    echo_target(session, uri)
    with session.working("copying"):
        report = omnigraph.restore(source, uri, settings=session.settings())
    _print(session, report)


def _print(session: Session, report: BackupReport) -> None:
    if session.json:
        print_json(report.to_dict())
    else:
        print_result(
            f"{counted(report.files, 'file')}, {readable_bytes(report.bytes)}, "
            f"{counted(len(report.branches), 'branch')}: {report.source} -> {report.target}"
        )
