"""Properties of the schema language: what is formatted reads back, nothing ever crashes it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.catalog.identity import fingerprint
from omnigraph.errors import LanguageError
from omnigraph.schema import ast
from omnigraph.schema.build import catalog_from_text
from omnigraph.schema.format import format_schema
from omnigraph.schema.parser import parse_schema
from omnigraph.syntax.span import SourceText
from omnigraph.testing.schema_trees import schema_files

PEOPLE = (Path(__file__).parent.parent / "fixtures" / "people.pg").read_text(encoding="utf-8")


def builds_or_says_why(text: str) -> None:
    try:
        catalog_from_text(text)
    except LanguageError as error:
        said = error
    else:
        return
    assert said.fields["diagnostics"]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(schema_files)
def test_formatted_trees_read_back(schema: ast.SchemaFile) -> None:
    text = format_schema(schema)
    source = SourceText(text, "x")
    parsed = parse_schema(source)
    assert parsed == schema
    assert format_schema(parsed, source) == text
    builds_or_says_why(text)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_random_text_gets_a_diagnostic(text: str) -> None:
    builds_or_says_why(text)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(PEOPLE)), st.integers(0, 12), st.text(max_size=5))
def test_mutated_schemas_get_a_diagnostic(start: int, length: int, inserted: str) -> None:
    builds_or_says_why(PEOPLE[:start] + inserted + PEOPLE[start + length :])


HOSTILE = {
    "deep": "node P { a: I32 @x(" + "(" * 10_000,
    "ten megabytes": "node P { a: I32 }\n" * 600_000,
    "ten megabytes of blanks": "\n" * 10_000_000,
    "a long string": 'node P @description("' + "x" * 1_000_000,
    "comments that never close": "/*" * 500_000,
    "a bad pattern": 'node P { a: String @check(a, "' + "(" * 5_000 + '") }',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_gets_an_error_within_a_second(text: str) -> None:
    # The best of three: a busy machine inflates even processor time, a slow path is slow each time.
    spent = []
    for _ in range(3):
        began = time.process_time()
        with pytest.raises(LanguageError):
            catalog_from_text(text)
        spent.append(time.process_time() - began)
        if spent[-1] < 1:
            return
    pytest.fail(f"took {min(spent):.2f} s")


def test_fingerprint_follows_the_meaning() -> None:
    base = catalog_from_text("node P { a: I32 b: enum(x, y) }")
    same = catalog_from_text("// c\nnode P {\n a: I32,\n b: enum(y, x)\n}")
    other = catalog_from_text("node P { a: I64 b: enum(x, y) }")
    assert fingerprint(base) == fingerprint(same)
    assert fingerprint(base) != fingerprint(other)
