"""`lint`: check a file of queries against a schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.command import command
from omnigraph.cli.output import EXIT_FAILED, print_report, print_result
from omnigraph.cli.session import Session
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
    from omnigraph.query.compiler import LintReport

QueryFile = Annotated[
    str, typer.Option("--query", "-q", metavar="FILE", help="The .gq file, `-` for stdin.")
]
SchemaFile = Annotated[str, typer.Option("--schema", "-s", metavar="FILE", help="The .pg file.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit 1 on warnings too.")]


def register(app: typer.Typer) -> None:
    command(app, "lint")(lint)


def lint(session: Session, query: QueryFile, schema: SchemaFile, strict: Strict = False) -> None:
    """Check every query of a file against a schema; errors and warnings name their place.

    For example:

    \b
      omnigraph lint --query people.gq --schema people.pg
      omnigraph lint --query people.gq --schema people.pg --strict --json
    """
    report, notes = _findings(query, schema)
    if session.json:
        refused = strict and notes and not report.errors
        warned = f"{query}: {_warnings(notes)}" if refused else None
        print_report(_to_json(report, notes), warned, "lint_warnings")
    else:
        for note in notes:
            print_result(render(note.finding, note.source) + "\n")
        queries = "1 query" if report.queries == 1 else f"{report.queries} queries"
        errors = counted(report.errors, "error")
        session.note(f"{query}: {queries}, {errors}, {_warnings(notes)}")
    if report.errors or (strict and notes):
        raise typer.Exit(EXIT_FAILED)


@dataclass(frozen=True, slots=True)
class Note:
    """A finding and the text that it is about: the queries or the schema."""

    finding: Diagnostic
    source: SourceText


def _findings(query: str, schema: str) -> tuple[LintReport, list[Note]]:
    from omnigraph.query.compiler import lint_text
    from omnigraph.schema.build import build_catalog
    from omnigraph.schema.lint import lint_schema
    from omnigraph.schema.parser import parse_schema

    schema_source = read_source(schema)
    parsed = parse_schema(schema_source)
    catalog = build_catalog(parsed, schema_source)
    report = lint_text(read_source(query), catalog)
    notes = [Note(finding, schema_source) for finding in lint_schema(parsed)]
    return report, notes + [Note(finding, report.source) for finding in report.findings]


def _warnings(notes: list[Note]) -> str:
    number = sum(note.finding.severity is Severity.WARNING for note in notes)
    return counted(number, "warning")


def _to_json(report: LintReport, notes: list[Note]) -> dict[str, Any]:
    warnings = [note for note in notes if note.finding.severity is Severity.WARNING]
    body = {
        "query": report.source.file,
        "queries": [operation.to_dict() for operation in report.operations],
        "errors": report.errors,
        "warnings": len(warnings),
        "findings": [diagnostic_to_json(note.finding, note.source) for note in notes],
    }
    if not report.errors:
        return body
    errors = [finding for finding in report.findings if finding.severity == "error"]
    return {**language_error(TypeCheckError, errors, report.source).to_dict(), **body}
