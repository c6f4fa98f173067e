"""`lint`: check a file of queries against a schema, or against the schema of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import At, Branch, Store, Uri
from omnigraph.cli.output import EXIT_FAILED, WrongUsage, print_report, print_result
from omnigraph.cli.session import Session, address, on_branch, open_to_read
from omnigraph.cli.source_files import read_source
from omnigraph.errors import TypeCheckError
from omnigraph.syntax.diagnostics import (
    Diagnostic,
    Severity,
    diagnostic_to_json,
    language_error,
    render,
)
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.catalog.model import Catalog
    from omnigraph.query.compiler import LintReport
    from omnigraph.schema.lint import LintLevel

QueryFile = Annotated[
    str, typer.Option("--query", "-q", metavar="FILE", help="The .gq file, `-` for stdin.")
]
SchemaFile = Annotated[
    str | None,
    typer.Option("--schema", "-s", metavar="FILE", help="The .pg file, instead of a graph."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Exit 1 on warnings too.")]
Levels = Annotated[
    list[str] | None,
    typer.Option(
        "--severity",
        metavar="CODE=LEVEL",
        help="Make a schema warning an error or turn it off: error, warn or off. Repeatable.",
    ),
]


def register(app: typer.Typer) -> None:
    command(app, "lint")(lint)


def lint(
    session: Session,
    query: QueryFile,
    uri: Uri = None,
    schema: SchemaFile = None,
    branch: Branch = "main",
    at: At = None,
    strict: Strict = False,
    severity: Levels = None,
    store: Store = None,
) -> None:
    """Check every query of a file against a schema; errors and warnings name their place.

    The schema is a file, which is checked, too, or the schema of a graph.

    For example:

    \b
      omnigraph lint --query people.gq --schema people.pg
      omnigraph lint --query people.gq --schema people.pg --strict --json
      omnigraph lint --query people.gq --schema people.pg --severity OG-NM-101=off
      omnigraph lint --query people.gq people.omni --branch review/ages
    """
    from omnigraph.schema.lint import read_levels

    levels = read_levels(severity or [])
    graph_is_named = uri is not None or store is not None
    if schema is None:
        if not graph_is_named and session.config().store is None:
            raise WrongUsage("no schema is named: give --schema FILE, or a graph with --store URI")
        graph = open_to_read(session, address(session, uri, store), on_branch(branch, at))
        report, notes = _with_catalog(query, graph.snapshot(branch, at=at).catalog)
    elif graph_is_named:
        raise WrongUsage(f"two schemas are named: --schema {schema} and the graph {uri or store}")
    else:
        report, notes = _with_schema(query, schema, levels)
    errors = sum(note.finding.severity is Severity.ERROR for note in notes)
    if session.json:
        refused = strict and notes and not errors
        warned = f"{query}: {_warnings(notes)}" if refused else None
        print_report(_to_json(report, notes), warned, "lint_warnings")
    else:
        for note in notes:
            print_result(render(note.finding, note.source) + "\n")
        queries = "1 query" if report.queries == 1 else f"{report.queries} queries"
        session.note(f"{query}: {queries}, {counted(errors, 'error')}, {_warnings(notes)}")
    if errors or (strict and notes):
        raise typer.Exit(EXIT_FAILED)


@dataclass(frozen=True, slots=True)
class Note:
    """A finding and the text that it is about: the queries or the schema."""

    finding: Diagnostic
    source: SourceText


def _with_schema(
    query: str, schema: str, levels: Mapping[str, LintLevel]
) -> tuple[LintReport, list[Note]]:
    from omnigraph.schema.build import build_catalog
    from omnigraph.schema.lint import lint_schema
    from omnigraph.schema.parser import parse_schema

    source = read_source(schema)
    parsed = parse_schema(source)
    report, notes = _with_catalog(query, build_catalog(parsed, source))
    return report, [Note(finding, source) for finding in lint_schema(parsed, levels)] + notes


def _with_catalog(query: str, catalog: Catalog) -> tuple[LintReport, list[Note]]:
    from omnigraph.query.compiler import lint_text

    report = lint_text(read_source(query), catalog)
    return report, [Note(finding, report.source) for finding in report.findings]


def _warnings(notes: list[Note]) -> str:
    number = sum(note.finding.severity is Severity.WARNING for note in notes)
    return counted(number, "warning")


def _to_json(report: LintReport, notes: list[Note]) -> dict[str, Any]:
    errors = [note for note in notes if note.finding.severity is Severity.ERROR]
    body = {
        "query": report.source.file,
        "queries": [operation.to_dict() for operation in report.operations],
        "errors": len(errors),
        "warnings": len(notes) - len(errors),
        "findings": [diagnostic_to_json(note.finding, note.source) for note in notes],
    }
    if not errors:
        return body
    # The error is about one text: the queries if they have errors, else the schema.
    source = errors[-1].source
    found = [note.finding for note in errors if note.source is source]
    return {**language_error(TypeCheckError, found, source).to_dict(), **body}
