"""Every word can name a property, an edge, a column or a variable where no expression starts."""

from __future__ import annotations

import re

import pytest

from omnigraph.query.compiler import compile_all
from omnigraph.query.format import format_queries
from omnigraph.query.parser import parse_queries
from omnigraph.schema.build import catalog_from_text
from omnigraph.syntax.source_text import SourceText

WORDS = re.findall(
    r"\w+",
    "query match return where order limit offset insert update delete set not and or is null as "
    "asc desc distinct shortest optional true false in contains starts_with on skip count node "
    "edge interface implements enum k weights case when then else end substring replace split trim "
    "exists",
)
SCHEMA = "node T {{ {properties} }} edge {edge}: T -> T {{ {properties} }}"


@pytest.mark.parametrize("word", WORDS)
def test_as_a_property_without_commas(word: str) -> None:
    others = [w for w in WORDS if w != word]
    properties = " ".join(f"{w}: I32? @index" for w in [word, *others])
    catalog = catalog_from_text(SCHEMA.format(properties=properties, edge="E"))
    values = " ".join(f"{w}: {n}" for n, w in enumerate([*others, word]))
    text = f"""
    query {word}(${word}: I32) {{
      match {{ $x: T {{ {values} }}  $x.{word} > ${word} }}
      return {{ $x.{word} as {word} $x.{word} + 1 as other }}
      order {{ $x.{word} desc, other }}
      limit ${word}
    }}
    query write() {{ insert T {{ {values} }} update E set {{ {values} }} where id = "x" }}
    """
    assert len(compile_all(text, catalog)) == 2
    parsed = parse_queries(SourceText(text, "x"))
    assert parse_queries(SourceText(format_queries(parsed), "y")) == parsed


@pytest.mark.parametrize("word", [w for w in WORDS if w not in ("and", "or", "is", "not")])
def test_as_an_edge(word: str) -> None:
    name = word[:1].upper() + word[1:]
    catalog = catalog_from_text(SCHEMA.format(properties="a: I32?", edge=name))
    forms = [f"$x $e:{word} $y", f"$x <{word}> $y", f"$x <{word}>{{1,2}} $y"]
    if word not in ("optional", "true", "false", "null", "starts_with"):
        forms += [f"$x {word} $y", f"$x {word}{{1,2}} $y"]
    for form in forms:
        text = f"query q() {{ match {{ {form} }} return {{ $x.a, $y.a }} }}"
        assert f"{name}:" in compile_all(text, catalog)[0].text()


def test_exists_as_an_edge_beside_exists_as_a_condition() -> None:
    catalog = catalog_from_text("node T { exists: Bool? } edge Exists: T -> T edge In: T -> T")
    text = """query q($in: [I32]) {
      match {
        $x exists $y exists { $y exists{1,2} $z exists { $z in $x } }
        $y = $x exists /* { */ { $x.exists }
        exists { $r = $x exists{1,} $y  3 in $in }
      }
      return { $x.exists as exists }
    }"""
    plan = compile_all(text, catalog)[0].text()
    assert plan.count("-Exists:out->") == 1
    assert plan.count("-Exists:out{1,2}") == 1
    assert plan.count("-In:out->") == 1
    assert plan.count("SemiJoin") == 4


def test_an_operator_over_parameters_is_no_hop() -> None:
    catalog = catalog_from_text("node T { a: I32? } edge Contains: T -> T edge In: T -> T")
    text = """query q($all: [I32], $one: I32) {
      match { $x: T  $all contains $one  $one in $all  $x contains $y  $x in $z }
      return { $x.a, $y.a, $z.a }
    }"""
    plan = compile_all(text, catalog)[0].text()
    assert "($all contains $one)" in plan
    assert "($one in $all)" in plan
    assert "Contains:out" in plan
    assert "In:out" in plan
