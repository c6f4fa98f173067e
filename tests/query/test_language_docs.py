"""What docs/ says about the two languages is true."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from omnigraph.query import codes as query_codes
from omnigraph.query.compiler import compile_all, lint_text
from omnigraph.query.typecheck_calls import FUNCTIONS
from omnigraph.schema import codes as schema_codes
from omnigraph.schema import lint as schema_lint
from omnigraph.schema.build import catalog_from_text
from omnigraph.schema.changes import CODES
from omnigraph.syntax.source_text import SourceText

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA_PAGE = (DOCS / "schema.md").read_text(encoding="utf-8")
QUERY_PAGE = (DOCS / "queries.md").read_text(encoding="utf-8")
MUTATIONS_PAGE = (DOCS / "mutations.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}(?: title=\S+)?\n(.*?)```", page, re.DOTALL)


@pytest.mark.parametrize("text", blocks(SCHEMA_PAGE, "pg"))
def test_schema_examples_build(text: str) -> None:
    assert catalog_from_text(text).nodes


@pytest.mark.parametrize("text", blocks(QUERY_PAGE, "gq"))
def test_query_examples_compile(text: str) -> None:
    catalog = catalog_from_text(blocks(QUERY_PAGE, "pg")[0])
    assert compile_all(text, catalog)
    assert not lint_text(SourceText(text, "docs"), catalog).errors


@pytest.mark.parametrize(
    ("page", "meanings"),
    [
        (SCHEMA_PAGE, schema_codes.MEANINGS),
        (SCHEMA_PAGE, CODES),
        (SCHEMA_PAGE, schema_lint.MEANINGS),
        (QUERY_PAGE, query_codes.MEANINGS),
    ],
    ids=["schema", "evolution", "schema lint", "query"],
)
def test_code_tables_are_complete(page: str, meanings: dict[str, str]) -> None:
    rows = dict(re.findall(r"^\| `([A-Z]\d+|OG-[A-Z]+-\d+)` \| (.*) \|$", page, re.MULTILINE))
    assert {code: rows.get(code) for code in meanings} == meanings


def test_every_function_is_listed() -> None:
    first_cells = " ".join(re.findall(r"^\| `([a-z0-9_ ]+)` \|", QUERY_PAGE, re.MULTILINE))
    assert set(FUNCTIONS) <= set(first_cells.split())


def test_every_word_of_the_language_is_in_an_example() -> None:
    """The page promises each construct with its answer; tests/docs runs them."""
    grammar = resources.files("omnigraph.query").joinpath("query.lark").read_text(encoding="utf-8")
    words = set(re.findall(r'"([a-z]{2,})"', grammar)) | {"contains", "starts_with", "in"}
    page = blocks(QUERY_PAGE, "gq") + blocks(MUTATIONS_PAGE, "gq")
    used = re.findall(r"[a-z_0-9]+", re.sub(r'"[^"]*"', "", "\n".join(page)))
    assert sorted((words | set(FUNCTIONS)) - set(used)) == []


def test_every_reported_code_has_a_case() -> None:
    fixtures = Path(__file__).parents[1] / "fixtures"
    text = "\n".join(file.read_text(encoding="utf-8") for file in fixtures.rglob("*.case"))
    seen = set(re.findall(r"(?:error|warning) ([A-Z]\d+):|refused ([A-Z]\d+):", text))
    found = {code for pair in seen for code in pair if code}
    promised = set(query_codes.MEANINGS) | set(schema_codes.MEANINGS)
    assert promised - {"T16", "T18"} <= found
