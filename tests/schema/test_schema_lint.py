from __future__ import annotations

import pytest

from omnigraph.schema.lint import lint_schema
from omnigraph.schema.parser import parse_schema
from omnigraph.syntax.source_text import SourceText


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("node P { a: I32 @uniqe }", ["L101"]),
        ('node P @descripton("x") { a: I32 @defualt(3) }', ["L101", "L101"]),
        ('node P @owner("x") { a: I32 @unit(seconds) @index }', ["OG-NM-101", "OG-NM-101"]),
        ('node P @protectd @alow(OG-DS-102, "x") { a: enum(x) @renamevalue(y, x) }', ["L101"] * 3),
        ('node P @protected @allow(OG-DS-102, "x") { a: enum(x) @rename_value(y, x) }', []),
        ("node P { a: DateTime @default(now()) } edge E: P -> P @label(0..1)", ["OG-NM-101"]),
        ("node P { a: I32 @key } edge E: P -> P @card(0..1) @crd(2)", ["L101"]),
    ],
)
def test_annotations_almost_like_known_ones(text: str, warned: list[str]) -> None:
    assert [w.code for w in lint_schema(parse_schema(SourceText(text, "x")))] == warned
