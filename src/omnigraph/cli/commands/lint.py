"""`lint`: check a file of queries against a schema, or against the schema of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import At, Branch, Severities, Store, Uri, severities
from omnigraph.cli.output import EXIT_FAILED, WrongUsage, print_report, print_result
from omnigraph.cli.scopes import UPKEEP
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
from omnigraph.syntax.severities import SeverityLevel, read_severities, weighed
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.catalog.model import Catalog
    from omnigraph.query.compiler import LintReport

QueryFile = Annotated[
    str, typer.Option("--query", "-q", metavar="FILE", help="The .gq file, `-` for stdin.")
]
SchemaFile = Annotated[
    str | None,
    typer.Option("--schema", "-s", metavar="FILE", help="The .pg file, instead of a graph."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Exit 1 on warnings too.")]


def register(app: typer.Typer) -> None:
    command(app, "lint", UPKEEP)(lint)


def lint(
    session: Session,
    query: QueryFile,
    uri: Uri = None,
    schema: SchemaFile = None,
    branch: Branch = "main",
    at: At = None,
    strict: Strict = False,
    severity: Severities = None,
    store: Store = None,
) -> None:
    """Check every query of a file against a schema; errors and warnings name their place.

    The schema is a file, which is checked, too, or the schema of a graph. With the file of a new
    schema it tells which queries would break. `--severity` weighs the codes of warnings.

    For example:

    \b
      omnigraph lint --query people.gq --schema people.pg
      omnigraph lint --query people.gq --schema people.pg --strict --json
      omnigraph lint --query people.gq people.omni --branch review/ages
      omnigraph lint --query people.gq people.omni --severity L203=error --severity OG-NM-101=off
    """
    levels = _levels(severity)
    graph_is_named = uri is not None or store is not None or session.flags.names_a_scope
    if schema is None:
        if not graph_is_named and not session.has_scope():
            raise WrongUsage("no schema is named: give --schema FILE, or a graph with --store URI")
        graph = open_to_read(session, address(session, uri, store), on_branch(branch, at))
        report, notes = _with_catalog(query, graph.snapshot(branch, at=at).catalog)
    elif graph_is_named:
        graph_name = session.scope(uri, store).target
        raise WrongUsage(f"two schemas are named: --schema {schema} and the graph {graph_name}")
    else:
        report, notes = _with_schema(query, schema)
    notes = [
        Note(finding, note.source)
        for note in notes
        if (finding := weighed(note.finding, levels)) is not None
    ]
    failures = [note for note in notes if note.finding.severity is Severity.ERROR]
    if session.json:
        refused = strict and notes and not failures
        warned = f"{query}: {_warnings(notes)}" if refused else None
        print_report(_to_json(report, notes), warned, "lint_warnings")
    else:
        for note in notes:
            print_result(render(note.finding, note.source) + "\n")
        queries = "1 query" if report.queries == 1 else f"{report.queries} queries"
        errors = counted(len(failures), "error")
        session.note(f"{query}: {queries}, {errors}, {_warnings(notes)}")
    if failures or (strict and notes):
        raise typer.Exit(EXIT_FAILED)


@dataclass(frozen=True, slots=True)
class Note:
    """A finding and the text that it is about: the queries or the schema."""

    finding: Diagnostic
    source: SourceText


def _levels(given: list[str] | None) -> dict[str, SeverityLevel]:
    from omnigraph.query import codes
    from omnigraph.schema import lint as schema_lint

    warnings = {code for code in codes.MEANINGS if code.startswith("L")}
    return read_severities(severities(given), warnings | schema_lint.MEANINGS.keys())


def _with_schema(query: str, schema: str) -> tuple[LintReport, list[Note]]:
    from omnigraph.schema.build import build_catalog
    from omnigraph.schema.lint import lint_schema
    from omnigraph.schema.parser import parse_schema

    source = read_source(schema)
    parsed = parse_schema(source)
    report, notes = _with_catalog(query, build_catalog(parsed, source))
    return report, [Note(finding, source) for finding in lint_schema(parsed)] + notes


def _with_catalog(query: str, catalog: Catalog) -> tuple[LintReport, list[Note]]:
    from omnigraph.query.compiler import lint_text

    report = lint_text(read_source(query), catalog)
    return report, [Note(finding, report.source) for finding in report.findings]


def _warnings(notes: list[Note]) -> str:
    number = sum(note.finding.severity is Severity.WARNING for note in notes)
    return counted(number, "warning")


def _to_json(report: LintReport, notes: list[Note]) -> dict[str, Any]:
    warnings = [note for note in notes if note.finding.severity is Severity.WARNING]
    body = {
        "query": report.source.file,
        "queries": [operation.to_dict() for operation in report.operations],
        "errors": len(notes) - len(warnings),
        "warnings": len(warnings),
        "findings": [diagnostic_to_json(note.finding, note.source) for note in notes],
    }
    failures = [note for note in notes if note.finding.severity is Severity.ERROR]
    if not failures:
        return body
    # The error is about one text: the queries if they have errors, else the schema.
    source = failures[-1].source
    errors = [note.finding for note in failures if note.source is source]
    return {**language_error(TypeCheckError, errors, source).to_dict(), **body}
