"""The stored parse tables are those of the grammars, and are not needed to work."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph.query.parser as query_parser
import omnigraph.schema.parser as schema_parser
from omnigraph.syntax.grammar_tables import build, fits, load_or_build, tables_path, write_tables

GRAMMARS = [
    Path(query_parser.__file__).with_name("query.lark"),
    Path(schema_parser.__file__).with_name("schema.lark"),
]
REGENERATE = (
    "python -m omnigraph.syntax.grammar_tables src/omnigraph/{query/query,schema/schema}.lark"
)


@pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda path: path.stem)
def test_stored_tables_fit_their_grammar(grammar: Path) -> None:
    stored = tables_path(grammar).read_text(encoding="utf-8")
    assert fits(grammar.read_text(encoding="utf-8")) in stored, f"run {REGENERATE}"


@pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda path: path.stem)
def test_stored_tables_give_the_same_parser(grammar: Path) -> None:
    text = {
        "query": "query q($a: I32) { match { $p: P { a: 1 } $p knows{1,2} $f } return { $p.x } }",
        "schema": "node P { a: I32? @key } edge E: P -> P @card(0..3)",
    }[grammar.stem]
    loaded, built = load_or_build(grammar), build(grammar.read_text(encoding="utf-8"))
    assert loaded.parse(text, start="start") == built.parse(text, start="start")
    assert loaded.source_path == "<deserialized>"


def test_tables_of_another_grammar_are_ignored(tmp_path: Path) -> None:
    grammar = tmp_path / "schema.lark"
    shutil.copy(GRAMMARS[1], grammar)
    write_tables(grammar)
    grammar.write_text(grammar.read_text(encoding="utf-8") + "\n// changed\n", encoding="utf-8")
    assert load_or_build(grammar).parse("node P {}", start="start")
    assert load_or_build(grammar).source_path != "<deserialized>"
