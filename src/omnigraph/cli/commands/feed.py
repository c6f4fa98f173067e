"""`changes poll|baseline`: the change feed of a branch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.change_lines import change_line
from omnigraph.cli.command import command
from omnigraph.cli.options import BranchPlace, Cursor, Page, Types
from omnigraph.cli.output import painter, print_json, print_result
from omnigraph.cli.scopes import ANY
from omnigraph.cli.session import Session, read_branch
from omnigraph.cli.tables import folded

if TYPE_CHECKING:
    from omnigraph.feed import FeedPage

Start = Annotated[
    str,
    typer.Option(
        "--start", metavar="now|beginning|after:ID", help="Where to start without a cursor."
    ),
]

_PAGE = 1000

group = typer.Typer(help="The change feed of a branch.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="changes")


@command(group, "poll", ANY)
def poll(
    session: Session,
    place: BranchPlace,
    cursor: Cursor = None,
    start: Start = "now",
    types: Types = None,
    limit: Page = None,
) -> None:
    """Show what happened on a branch since a cursor, commit by commit.

    For example:

    \b
      omnigraph changes poll people.omni --start beginning
      omnigraph changes poll people.omni --cursor eyJraW5kI… --json
    """
    graph, size = read_branch(session, place), limit or _PAGE
    _show_page(session, graph.changes(place.branch, cursor, start, types=types, limit=size))


@command(group, "baseline", ANY)
def baseline(
    session: Session,
    place: BranchPlace,
    types: Types = None,
    limit: Page = None,
) -> None:
    """Show all entities of a branch, and a cursor from which `changes poll` goes on.

    For example:

    \b
      omnigraph changes baseline people.omni --type Person --json
    """
    graph = read_branch(session, place)
    _show_page(session, graph.baseline(place.branch, types=types, limit=limit or _PAGE))


def _show_page(session: Session, page: FeedPage) -> None:
    if session.json:
        print_json(page.to_dict())
        return
    paint = painter(sys.stdout)
    for block in page.blocks:
        what = "baseline at" if block.baseline else block.commit.operation
        print_result(
            f"{what} {block.commit.graph_commit_id}  {block.commit.message or ''}".rstrip()
        )
        for change in block.changes:
            print_result(folded(f"  {change_line(change, paint)}", 6))
    more = "there is more" if page.has_more else "to go on later"
    session.note(f"{more}: --cursor {page.cursor}")
