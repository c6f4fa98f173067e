"""`omnigraph lint`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from omnigraph.cli.output import (
    EXIT_FAILED,
    JsonFlag,
    failures,
    print_json,
    print_note,
    print_result,
)
from omnigraph.cli.source_files import read_source
from omnigraph.errors import TypeCheckError
from omnigraph.query.compiler import LintReport, lint_text
from omnigraph.schema.build import catalog_from_text
from omnigraph.syntax.diagnostics import diagnostic_to_json, language_error, render

QueryFile = Annotated[str, typer.Option("--query", "-q", help="The .gq file, `-` for stdin.")]
SchemaFile = Annotated[str, typer.Option("--schema", "-s", help="The .pg file.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit 1 on warnings too.")]


def register(app: typer.Typer) -> None:
    app.command("lint")(lint)


def lint(
    query: QueryFile, schema: SchemaFile, strict: Strict = False, json: JsonFlag = False
) -> None:
    """Check every query of a file against a schema: errors and warnings, each with its place.

    For example:

      omnigraph lint --query people.gq --schema people.pg

      omnigraph lint --query people.gq --schema people.pg --json
    """
    with failures(json):
        schema_source = read_source(schema)
        catalog = catalog_from_text(schema_source.text, schema_source.file)
        source = read_source(query)
        report = lint_text(source, catalog)
    if json:
        print_json(_to_json(report))
    else:
        _print_text(report)
    if report.errors or (strict and report.warnings):
        raise typer.Exit(EXIT_FAILED)


def _print_text(report: LintReport) -> None:
    for finding in report.findings:
        print_result(render(finding, report.source) + "\n")
    print_note(
        f"{report.source.file}: {report.queries} queries, "
        f"{report.errors} errors, {report.warnings} warnings"
    )


def _to_json(report: LintReport) -> dict[str, Any]:
    body = {
        "query": report.source.file,
        "queries": [operation.to_dict() for operation in report.operations],
        "errors": report.errors,
        "warnings": report.warnings,
        "findings": [diagnostic_to_json(f, report.source) for f in report.findings],
    }
    if not report.errors:
        return body
    errors = [finding for finding in report.findings if finding.severity == "error"]
    return {**language_error(TypeCheckError, errors, report.source).to_dict(), **body}
