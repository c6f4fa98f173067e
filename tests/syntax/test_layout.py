"""Comments are allowed between any two tokens, and formatting never loses one."""

from __future__ import annotations

import random
import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.query.format import format_queries
from omnigraph.query.parser import parse_queries
from omnigraph.schema.format import format_schema
from omnigraph.schema.parser import parse_schema
from omnigraph.syntax.source_text import SourceText
from omnigraph_testing.golden_cases import read_cases

FIXTURES = Path(__file__).parent.parent / "fixtures"
QUERIES = [case.source for case in read_cases(FIXTURES / "query_plans")]
SCHEMAS = [case.source for case in read_cases(FIXTURES / "schema_format")]
TOKENS = re.compile(
    r'//[^\n]*\n?|/\*.*?\*/|"(?:[^"\\]|\\.)*"|on\s+match\s+skip|[-@$]?\w[\w.-]*|->|\.\.|[<>!]=|\s+|.',
    re.DOTALL,
)


def commented(text: str, rng: random.Random) -> tuple[str, list[str]]:
    out, marks = [], []
    for token in TOKENS.findall(text):
        if rng.random() < 0.15:
            mark = f"c{len(marks)}c"
            marks.append(mark)
            out.append(f" /* {mark} */ " if rng.random() < 0.5 else f" // {mark}\n")
        out.append(token)
    return "".join(out), marks


def kept(marks: list[str], text: str) -> bool:
    return sorted(marks) == sorted(re.findall(r"c\d+c", text))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(QUERIES), st.randoms(use_true_random=False))
def test_queries(text: str, rng: random.Random) -> None:
    changed, marks = commented(text, rng)
    source = SourceText(changed, "x")
    parsed = parse_queries(source)
    assert parsed == parse_queries(SourceText(text, "y"))
    formatted = SourceText(format_queries(parsed, source), "z")
    assert kept(marks, formatted.text)
    assert parse_queries(formatted) == parsed
    assert format_queries(parse_queries(formatted), formatted) == formatted.text


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SCHEMAS), st.randoms(use_true_random=False))
def test_schemas(text: str, rng: random.Random) -> None:
    changed, marks = commented(text, rng)
    source = SourceText(changed, "x")
    parsed = parse_schema(source)
    assert parsed == parse_schema(SourceText(text, "y"))
    formatted = SourceText(format_schema(parsed, source), "z")
    assert kept(marks, formatted.text)
    assert parse_schema(formatted) == parsed
    assert format_schema(parse_schema(formatted), formatted) == formatted.text
