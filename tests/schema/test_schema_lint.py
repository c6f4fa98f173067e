from __future__ import annotations

import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.schema.lint import lint_schema, read_levels
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


def codes_at(text: str, *settings: str) -> list[tuple[str, str]]:
    found = lint_schema(parse_schema(SourceText(text, "x")), read_levels(settings))
    return [(finding.code, finding.severity.value) for finding in found]


def test_a_code_has_the_level_that_is_asked_for() -> None:
    text = "node P @owner(x) { a: I32 @uniqe }"
    assert codes_at(text) == [("OG-NM-101", "warning"), ("L101", "warning")]
    assert codes_at(text, "OG-NM-101=off") == [("L101", "warning")]
    assert codes_at(text, "L101=error", "OG-NM-101=warn") == [
        ("OG-NM-101", "warning"),
        ("L101", "error"),
    ]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("OG-NM-101", "CODE=LEVEL"),
        ("OG-NM-101=maybe", "error, warn, off"),
        ("OG-NM-102=off", "did you mean 'OG-NM-101'"),
    ],
)
def test_other_levels_are_refused(setting: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        read_levels([setting])
