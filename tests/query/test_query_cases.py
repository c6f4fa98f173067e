"""Query cases: plans, errors, lints, formatting, parameters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph.errors import InvalidArgument, LanguageError
from omnigraph.query.compiler import compile_all, compile_query, lint_text
from omnigraph.query.format import format_queries
from omnigraph.query.parser import parse_queries
from omnigraph.schema.build import catalog_from_text
from omnigraph.syntax.diagnostics import render_all
from omnigraph.syntax.source_text import SourceText
from omnigraph_testing.golden_cases import GoldenCase, check_case, read_cases

FIXTURES = Path(__file__).parent.parent / "fixtures"
PEOPLE = catalog_from_text((FIXTURES / "people.pg").read_text(encoding="utf-8"), "people.pg")


def plan_of(text: str) -> str:
    out = []
    for compiled in compile_all(text, PEOPLE, "case.gq"):
        fields = ", ".join(
            f"{f.name}: {f.type}{'?' if f.nullable else ''}" for f in compiled.operation.fields
        )
        out.append(compiled.text())
        out.append(f"-> {fields}" if compiled.is_read else _writes(compiled.operation.writes))
    return "\n".join(out)


def _writes(tables: tuple[object, ...]) -> str:
    return f"writes {', '.join(str(table) for table in tables)}"


def errors_of(text: str) -> str:
    with pytest.raises(LanguageError) as caught:
        compile_all(text, PEOPLE, "case.gq")
    return caught.value.message


def lints_of(text: str) -> str:
    report = lint_text(SourceText(text, "case.gq"), PEOPLE)
    return render_all(report.findings, report.source)


def formatted(text: str) -> str:
    source = SourceText(text, "case.gq")
    parsed = parse_queries(source)
    result = format_queries(parsed, source)
    assert parse_queries(SourceText(result, "again")) == parsed
    again = SourceText(result, "again")
    assert format_queries(parse_queries(again), again) == result
    return result


def bound(text: str) -> str:
    """`query` text, a line with `params`, then JSON."""
    query, _, given = text.partition("\nparams\n")
    compiled = compile_query(query, PEOPLE)
    try:
        return repr(compiled.bind(json.loads(given)))
    except InvalidArgument as error:
        return f"{error.code} {error.fields.get('parameter')}: {error.message}"


@pytest.mark.parametrize("case", read_cases(FIXTURES / "query_plans"), ids=str)
def test_plan(case: GoldenCase) -> None:
    check_case(case, plan_of)


@pytest.mark.parametrize("case", read_cases(FIXTURES / "query_errors"), ids=str)
def test_error(case: GoldenCase) -> None:
    check_case(case, errors_of)


@pytest.mark.parametrize("case", read_cases(FIXTURES / "query_lint"), ids=str)
def test_lint(case: GoldenCase) -> None:
    check_case(case, lints_of)


@pytest.mark.parametrize("case", read_cases(FIXTURES / "query_format"), ids=str)
def test_format(case: GoldenCase) -> None:
    check_case(case, formatted)


@pytest.mark.parametrize("case", read_cases(FIXTURES / "query_params"), ids=str)
def test_params(case: GoldenCase) -> None:
    check_case(case, bound)
