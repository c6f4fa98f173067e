"""Schema cases: formatting, errors, evolution."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph.catalog.serialize import catalog_from_json, catalog_to_json
from omnigraph.errors import LanguageError
from omnigraph.schema.build import catalog_from_text
from omnigraph.schema.changes import Granted
from omnigraph.schema.evolve import plan_changes
from omnigraph.schema.format import format_schema
from omnigraph.schema.parser import parse_schema
from omnigraph.schema.steps import step_to_json
from omnigraph.syntax.source_text import SourceText
from omnigraph_testing.golden_cases import GoldenCase, check_case, read_cases

FIXTURES = Path(__file__).parent.parent / "fixtures"


def formatted(text: str) -> str:
    source = SourceText(text, "case.pg")
    parsed = parse_schema(source)
    result = format_schema(parsed, source)
    again = SourceText(result, "again")
    assert parse_schema(again) == parsed
    assert format_schema(parse_schema(again), again) == result
    catalog = catalog_from_text(text)
    assert catalog_from_json(json.loads(json.dumps(catalog_to_json(catalog)))) == catalog
    return result


def errors_of(text: str) -> str:
    with pytest.raises(LanguageError) as caught:
        catalog_from_text(text, "case.pg")
    return caught.value.message


def evolved(text: str) -> str:
    """Two schemas with a line `=>` (or `=> lose data`) between them."""
    hard = "\n=> lose data\n" in text
    old, _, new = text.partition("\n=> lose data\n" if hard else "\n=>\n")
    granted = Granted(allow_data_loss=hard)
    plan = plan_changes(catalog_from_text(old), catalog_from_text(new), granted)
    lines = []
    for step in plan.steps:
        values = step_to_json(step.step)
        name = values.pop("kind")
        details = " ".join(f"{key}={value}" for key, value in values.items())
        lines.append(f"{name} {details} [{', '.join([step.step_class.value, *step.codes])}]")
        lines += [f"  {step.suggestion}"] if step.suggestion else []
    lines += [f"check {c.kind.value} {c.table} {','.join(c.columns)} {c.code}" for c in plan.checks]
    lines += [f"requires {name}" for name in plan.requires]
    lines += [f"warning {text}" for text in plan.warnings]
    return "\n".join(lines) or "nothing to do"


@pytest.mark.parametrize("case", read_cases(FIXTURES / "schema_format"), ids=str)
def test_format(case: GoldenCase) -> None:
    check_case(case, formatted)


@pytest.mark.parametrize("case", read_cases(FIXTURES / "schema_errors"), ids=str)
def test_error(case: GoldenCase) -> None:
    check_case(case, errors_of)


@pytest.mark.parametrize("case", read_cases(FIXTURES / "schema_evolve"), ids=str)
def test_evolve(case: GoldenCase) -> None:
    check_case(case, evolved)
