"""`branch create|list|delete|diff`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.change_lines import print_changes
from omnigraph.cli.command import command
from omnigraph.cli.options import Cursor, Page, Store, Types, Uri
from omnigraph.cli.output import print_json, print_result
from omnigraph.cli.session import Session, address, open_to_read, open_to_write
from omnigraph.cli.tables import moment_text, print_table

Name = Annotated[str, typer.Argument(metavar="NAME", help="The branch.")]
From = Annotated[str, typer.Option("--from", metavar="BRANCH", help="The branch to start from.")]

First = Annotated[str, typer.Argument(metavar="A", help="The state to start from.")]
Second = Annotated[str | None, typer.Argument(metavar="B", help="The state to compare with.")]

group = typer.Typer(help="Branches of the whole graph.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="branch")


@command(group, "create")
def create(session: Session, name: Name, source: From = "main", store: Store = None) -> None:
    """Start a branch; no data is copied.

    For example:

    \b
      omnigraph branch create review/ages --store people.omni
      omnigraph branch create hotfix --from review/ages --store people.omni
    """
    graph = open_to_write(session, address(session, None, store))
    made = graph.branches.create(name, source)
    if session.json:
        print_json(made.to_dict())
    else:
        print_result(f"created branch {made.name} from {source} at {made.head_commit_id}")


@command(group, "list")
def list_branches(session: Session, uri: Uri = None, store: Store = None) -> None:
    """List the branches and where they stand.

    For example:

    \b
      omnigraph branch list people.omni
      omnigraph branch list --store people.omni --json
    """
    graph = open_to_read(session, address(session, uri, store))
    found = [branch.to_dict() for branch in graph.branches.list()]
    if session.json:
        print_json({"branches": [branch["name"] for branch in found], "details": found})
        return
    print_table(
        ("name", "head", "forked_from", "created_at"),
        [
            (b["name"], b["head_commit_id"], b["forked_from"] or "-", moment_text(b["created_at"]))
            for b in found
        ],
    )


@command(group, "delete")
def delete(session: Session, name: Name, store: Store = None) -> None:
    """Delete a branch and what only it holds; asks first unless --yes.

    For example:

    \b
      omnigraph branch delete review/ages --yes --store people.omni
    """
    where = address(session, None, store)
    graph = open_to_write(session, where, f"branch {name}")
    graph.branches.show(name)  # a wrong name is an error before anybody is asked
    session.confirm(f"Delete branch {name} of {graph.uri}?")
    graph.branches.delete(name)
    if session.json:
        print_json({"name": name, "deleted": True})
    else:
        print_result(f"deleted branch {name}")


@command(group, "diff")
def diff(
    session: Session,
    first: First,
    second: Second = None,
    types: Types = None,
    limit: Page = None,
    cursor: Cursor = None,
    store: Store = None,
) -> None:
    """Show what turns one state into another, entity by entity.

    States are branches, commits, tags or moments. With one name: what that state has that main
    has not.

    For example:

    \b
      omnigraph branch diff review/ages --store people.omni
      omnigraph branch diff v1 main --type Person --json --store people.omni
    """
    before, after = ("main", first) if second is None else (first, second)
    graph = open_to_read(session, address(session, None, store), f"{before} -> {after}")
    page = graph.diff(before, after, types, limit=limit, cursor=cursor)
    print_changes(session, page, {"from": before, "to": after})
