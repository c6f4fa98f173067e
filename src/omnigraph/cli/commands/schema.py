"""`schema show|fmt`."""

from __future__ import annotations

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import At, Branch, Store, Uri
from omnigraph.cli.output import print_json, print_result
from omnigraph.cli.session import Session, address, on_branch, open_to_read
from omnigraph.cli.source_files import Check, Files, Stdout, format_files
from omnigraph.syntax.source_text import SourceText

group = typer.Typer(help="Show and format schemas.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="schema")


@command(group, "show")
def show(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    at: At = None,
) -> None:
    """Print the schema of a branch as it was written; one made in Python in canonical form.

    For example:

    \b
      omnigraph schema show people.omni
      omnigraph schema show people.omni --at v1 --json
    """
    graph = open_to_read(session, address(session, uri, store), on_branch(branch, at))
    found = graph.schema.show(branch, at=at)
    if session.json:
        print_json(found.to_dict())
    elif found.source:
        print_result(found.source)
    else:
        session.note("this schema was made in Python and has no text; here is its catalog")
        print_json(found.to_dict()["catalog"])


@command(group, "fmt")
def fmt(session: Session, files: Files, check: Check = False, stdout: Stdout = False) -> None:
    """Rewrite .pg files in canonical form; comments stay.

    For example:

    \b
      omnigraph schema fmt people.pg
      omnigraph schema fmt --check *.pg
      cat people.pg | omnigraph schema fmt -
    """
    format_files(session, files, check, stdout, _format)


def _format(source: SourceText) -> str:
    from omnigraph.schema.format import format_schema
    from omnigraph.schema.parser import parse_schema

    return format_schema(parse_schema(source), source)
