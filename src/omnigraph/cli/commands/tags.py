"""`tag create|list|delete`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import Store, Uri
from omnigraph.cli.output import print_json, print_result
from omnigraph.cli.scopes import ANY
from omnigraph.cli.session import Session, address, open_to_read, open_to_write
from omnigraph.cli.tables import moment_text, print_table

Name = Annotated[str, typer.Argument(metavar="NAME", help="The tag.")]
Target = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="A branch, commit, tag or time; main~1 counts back."),
]

group = typer.Typer(help="Permanent names for commits.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="tag")


@command(group, "create", ANY, writes=True)
def create(session: Session, name: Name, target: Target = "main", store: Store = None) -> None:
    """Name a state of the graph; it stays readable until the tag is deleted.

    For example:

    \b
      omnigraph tag create v1 --store people.omni
      omnigraph tag create before-merge review/ages --store people.omni
    """
    graph = open_to_write(session, address(session, None, store))
    made = graph.tags.create(name, target)
    if session.json:
        print_json(made.to_dict())
    else:
        print_result(f"tag {made.name} is {made.graph_commit_id} of branch {made.graph_branch}")


@command(group, "list", ANY)
def list_tags(session: Session, uri: Uri = None, store: Store = None) -> None:
    """List the tags and the commits they name.

    For example:

    \b
      omnigraph tag list people.omni
    """
    graph = open_to_read(session, address(session, uri, store))
    found = [tag.to_dict() for tag in graph.tags.list()]
    if session.json:
        print_json({"tags": found})
        return
    print_table(
        ("name", "commit", "branch", "created_at"),
        [
            (
                tag["name"],
                tag["graph_commit_id"],
                tag["graph_branch"],
                moment_text(tag["created_at"]),
            )
            for tag in found
        ],
    )


@command(group, "delete", ANY, writes=True)
def delete(session: Session, name: Name, store: Store = None) -> None:
    """Delete a tag; the commit stays as long as a branch or another tag has it.

    For example:

    \b
      omnigraph tag delete v1 --store people.omni
    """
    graph = open_to_write(session, address(session, None, store))
    graph.tags.delete(name)
    if session.json:
        print_json({"name": name, "deleted": True})
    else:
        print_result(f"deleted tag {name}")
