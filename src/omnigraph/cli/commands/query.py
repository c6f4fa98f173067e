"""`omnigraph query`: run a query; `omnigraph query fmt`: format query files.

`omnigraph query [NAME] -e …` and `omnigraph query fmt FILE` share one word. The group hands
everything that is not the name of a subcommand to `DEFAULT_COMMAND`: a stored query called `fmt`
is run with `omnigraph query run fmt`.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from omnigraph.cli.command import command
from omnigraph.cli.formats import choose_format, write_result
from omnigraph.cli.options import At, Branch, Engine, Format, Store, Timeout, WorkEngine
from omnigraph.cli.query_text import QueryCall, prepare, require_read
from omnigraph.cli.session import Session, address, on_branch, open_to_read
from omnigraph.cli.source_files import Check, Files, Stdout, format_files
from omnigraph.syntax.span import SourceText

DEFAULT_COMMAND = "run"


class DefaultCommandGroup(TyperGroup):
    """A group whose unknown first words and options belong to its default command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args:
            args = ["--help"]
        if args[0] not in self.commands and DEFAULT_COMMAND in self.commands:
            args = [DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)


group = typer.Typer(
    help="Run a query. (`query fmt` formats files.)",
    cls=DefaultCommandGroup,
)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="query")


@command(group, DEFAULT_COMMAND)
def run(
    session: Session,
    call: QueryCall,
    branch: Branch = "main",
    at: At = None,
    timeout: Timeout = None,
    engine: Engine = WorkEngine.LOCAL,
    format: Format = None,
    store: Store = None,
) -> None:
    """Run a query and print its rows.

    `run` may be left out. The rows of the head of a branch, or of the past with --at. NULL is shown
    as NULL in tables, null in JSON and an empty field in CSV. `omnigraph query fmt` formats files.

    For example:

    \b
      omnigraph query friends_of --query people.gq -p name=Ada --store people.omni
      omnigraph query -e 'query q() { match { $p: Person } return { $p.name } }' --store people.omni
      cat people.gq | omnigraph query friends_of -q - --params '{"name": "Ada"}' --format csv
      omnigraph query friends_of -q people.gq --params @ada.json --at v1 --json
    """
    how = choose_format(session, format)
    source = call.read()
    graph = open_to_read(session, address(session, None, store), on_branch(branch, at))
    ready = prepare(call, source, graph.snapshot(branch, at=at).catalog)
    require_read(ready)
    asked = (ready.source, ready.name, ready.params, branch)
    with session.working("searching"):
        result = graph.query(*asked, at=at, timeout=timeout, engine=engine.value)
    write_result(session, result, how)


@command(group, "fmt")
def fmt(session: Session, files: Files, check: Check = False, stdout: Stdout = False) -> None:
    """Rewrite .gq files in canonical form, comments kept.

    For example:

    \b
      omnigraph query fmt queries/people.gq
      omnigraph query fmt --check queries/*.gq
      cat people.gq | omnigraph query fmt -
    """
    format_files(session, files, check, stdout, _format)


def _format(source: SourceText) -> str:
    from omnigraph.query.format import format_queries
    from omnigraph.query.parser import parse_queries

    return format_queries(parse_queries(source), source)
