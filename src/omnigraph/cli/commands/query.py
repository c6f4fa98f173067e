"""`omnigraph query fmt`; running a query joins here as the group's default command.

`omnigraph query [NAME] -e …` and `omnigraph query fmt FILE` share one word. The group hands
everything that is not the name of a subcommand to `DEFAULT_COMMAND`, once somebody registers it:
a stored query called `fmt` is then run with `omnigraph query run fmt`.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from omnigraph.cli.commands.formatting import Check, Files, Stdout, format_files
from omnigraph.cli.output import JsonFlag
from omnigraph.query.format import format_queries
from omnigraph.query.parser import parse_queries
from omnigraph.syntax.span import SourceText

DEFAULT_COMMAND = "run"


class DefaultCommandGroup(TyperGroup):
    """A group whose unknown first words and options belong to its default command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        if args and not named and DEFAULT_COMMAND in self.commands:
            args = [DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)


group = typer.Typer(
    help="Queries: run them, format their files.", cls=DefaultCommandGroup, no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="query")


@group.command("fmt")
def fmt(files: Files, check: Check = False, stdout: Stdout = False, json: JsonFlag = False) -> None:
    """Rewrite .gq files in canonical form, comments kept.

    For example:

      omnigraph query fmt queries/people.gq

      omnigraph query fmt --check queries/*.gq

      cat people.gq | omnigraph query fmt -
    """
    format_files(files, check, stdout, json, _format)


def _format(source: SourceText) -> str:
    return format_queries(parse_queries(source), source)
