"""Properties of the query language: what is formatted reads back, nothing ever crashes it."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.errors import LanguageError
from omnigraph.ir.walk import rewrite
from omnigraph.query import ast
from omnigraph.query.compiler import compile_all, lint_text
from omnigraph.query.format import format_queries
from omnigraph.query.parser import parse_queries
from omnigraph.schema.build import catalog_from_text
from omnigraph.syntax.source_text import SourceText
from omnigraph_testing.golden_cases import read_cases
from omnigraph_testing.query_trees import query_files

FIXTURES = Path(__file__).parent.parent / "fixtures"
PEOPLE = catalog_from_text((FIXTURES / "people.pg").read_text(encoding="utf-8"))
REAL = [
    case.source for kind in ("query_plans", "query_format") for case in read_cases(FIXTURES / kind)
]
FRAGMENTS = re.findall(
    r"\S+",
    "{ } ( ) [ ] , : . $p $_ <knows> knows{1,3} | = != < > + - * / % not and or in is null as "
    'order limit match return query "x" " /* // \\ @ 9 1e9 0.5 \0 é 日 \ud800 $ optional shortest '
    "case when then else end exists",
)


def compiles_or_says_why(text: str) -> None:
    try:
        compile_all(text, PEOPLE)
        lint_text(SourceText(text, "x"), PEOPLE)
    except LanguageError as error:
        said = error
    else:
        return
    assert said.fields["diagnostics"]
    assert "error" in said.message


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(query_files)
def test_formatted_trees_read_back(queries: ast.QueryFile) -> None:
    text = format_queries(queries)
    source = SourceText(text, "x")
    parsed = parse_queries(source)
    assert parsed == queries
    assert format_queries(parsed, source) == text


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_random_text_gets_a_diagnostic(text: str) -> None:
    compiles_or_says_why(text)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_get_a_diagnostic(data: bytes) -> None:
    compiles_or_says_why(data.decode("latin-1"))
    compiles_or_says_why(data.decode("utf-8", "surrogateescape"))


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(REAL), st.randoms(use_true_random=False), st.integers(1, 4))
def test_mutated_queries_get_a_diagnostic(text: str, rng: random.Random, changes: int) -> None:
    for _ in range(changes):
        text = _mutated(text, rng)
    compiles_or_says_why(text)


def _mutated(text: str, rng: random.Random) -> str:
    start = rng.randrange(len(text) + 1)
    end = min(len(text), start + rng.randrange(8))
    kind = rng.randrange(4)
    if kind == 0:
        return text[:start] + text[end:]
    if kind == 1:
        return text[:start] + " " + rng.choice(FRAGMENTS) + " " + text[end:]
    if kind == 2:
        other = rng.choice(REAL)
        cut = rng.randrange(len(other) + 1)
        return text[:start] + other[cut : cut + 30] + text[start:]
    return text[:start] + text[start:end] * 2 + text[end:]


BODY = "query q() {{ match {{ $p: Person {} }} return {{ $p.name }} }}"
HOSTILE = {
    "deep parentheses": BODY.format("(" * 10_000 + "$p.age = 1" + ")" * 10_000),
    "deep unclosed": "(" * 10_000,
    "deep blocks": BODY.format("not { $p knows $f " * 10_000 + "}" * 10_000),
    "deep exists": BODY.format("exists { $p knows $f " * 10_000 + "}" * 10_000),
    "many exists": BODY.format("exists { $p knows $f } " * 5_000),
    "exists and blanks": BODY.format(("$a = $b exists" + " " * 200) * 4_000),
    "deep lists": BODY.format("$p.age in " + "[" * 10_000 + "]" * 10_000),
    "deep cases": BODY.format("case when true then " * 10_000 + "1" + " end" * 10_000 + " = 1"),
    "many branches": BODY.format("case " + "when $p.age = 1 then " * 10_000 + "1 end = 1"),
    "deep calls": BODY.format("lower(" * 10_000 + '"x"' + ")" * 10_000),
    "many nots": BODY.format("not " * 10_000 + "$p.admin"),
    "many minuses": BODY.format("$p.age = " + "-" * 10_000 + "1"),
    "long sum": BODY.format("$p.age = " + "1 + " * 10_000 + "1"),
    "long sum beside an edge": BODY.format("$p in $f exists { $p.age = " + "1 + " * 9_999 + "1 }"),
    "long sum of groups": BODY.format("$p.age = " + "(1 + 1) * " * 5_000 + "1"),
    "nested sums": BODY.format("$p.age = " + "(" * 60 + "1" + " + 1) * 2" * 60),
    "ten megabytes of text": "query q() { match { $p: Person } return { $p.name } }\n" * 200_000,
    "ten megabytes of blanks": " " * 10_000_000,
    "ten megabytes of brackets": "{" * 10_000_000,
    "ten megabytes of a string": '"' + "x" * 10_000_000,
    "a megabyte of a comment": "/*" + "x" * 1_000_000,
    "a megabyte without an end of a string": '"' + "x" * 1_000_000,
    "comments that never close": "/*" * 500_000,
    "strings that never close": 'query q() { "\\' * 60_000,
    "variables and blanks": BODY.format(("$a =" + " " * 200) * 4_000),
    "many filters": BODY.format("$p.age = 1 " * 5_000),
    "many hops": BODY.format("$p knows $f " * 5_000),
    "many inline values": "query q() { match { $p: Person { "
    + "age: 1 " * 5_000
    + "} } return { 1 } }",
    "many rankings": BODY.format("").replace("$p.name", 'bm25($p.bio, "x") ' * 2_000),
    "a very long number": BODY.format("$p.age = " + "9" * 500_000),
    "a very long name": BODY.format("$p." + "a" * 500_000 + " = 1"),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_gets_an_error_within_seconds(text: str) -> None:
    # The best of three: a busy machine inflates even processor time, a slow path is slow each time.
    spent = []
    for _ in range(3):
        began = time.process_time()
        with pytest.raises(LanguageError) as caught:
            compile_all(text, PEOPLE)
        spent.append(time.process_time() - began)
        assert len(caught.value.message) < 20_000
        if spent[-1] < 5:
            return
    pytest.fail(f"took {min(spent):.2f} s")


def test_the_widest_allowed_nesting_compiles() -> None:
    nested = "(" * 58 + "$p.age = 1" + ")" * 58
    assert compile_all(BODY.format(nested), PEOPLE)
    chain = " + ".join(["$p.age"] * 90)
    assert compile_all(BODY.format(f"{chain} = 1"), PEOPLE)
    filters = "$p.age = 1 " * 70 + "$p knows $f " * 70
    compiled = compile_all(BODY.format(filters), PEOPLE)[0]
    assert compiled.plan is not None
    assert hash(compiled.plan) == hash(compile_all(BODY.format(filters), PEOPLE)[0].plan)
    assert rewrite(compiled.plan, lambda node: node) == compiled.plan
    ors = " or ".join(["$p.age = 1"] * 3_000)
    assert compile_all(BODY.format(ors), PEOPLE)
