"""`omnigraph schema …`."""

from __future__ import annotations

import typer

from omnigraph.cli.commands.formatting import Check, Files, Stdout, format_files
from omnigraph.cli.output import JsonFlag
from omnigraph.schema.format import format_schema
from omnigraph.schema.parser import parse_schema
from omnigraph.syntax.span import SourceText

group = typer.Typer(help="Schemas: format, plan, apply, show.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="schema")


@group.command("fmt")
def fmt(files: Files, check: Check = False, stdout: Stdout = False, json: JsonFlag = False) -> None:
    """Rewrite .pg files in canonical form, comments kept.

    For example:

      omnigraph schema fmt people.pg

      omnigraph schema fmt --check *.pg

      cat people.pg | omnigraph schema fmt -
    """
    format_files(files, check, stdout, json, _format)


def _format(source: SourceText) -> str:
    return format_schema(parse_schema(source), source)
