from __future__ import annotations

import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.schema.changes import CODES, SEVERITIES, read_severity
from omnigraph.schema.lint import MEANINGS, lint_schema
from omnigraph.schema.parser import parse_schema
from omnigraph.syntax.severities import SeverityLevel, read_severities, weighed
from omnigraph.syntax.source_text import SourceText


def codes_at(text: str, **given: str) -> list[tuple[str, str]]:
    levels = read_severities({c.replace("_", "-"): v for c, v in given.items()}, MEANINGS)
    found = [weighed(w, levels) for w in lint_schema(parse_schema(SourceText(text, "x")))]
    return [(finding.code, finding.severity.value) for finding in found if finding is not None]


def test_a_code_has_the_level_that_is_asked_for() -> None:
    text = "node P @owner(x) { a: I32 @uniqe }"
    assert codes_at(text) == [("OG-NM-101", "warning"), ("L101", "warning")]
    assert codes_at(text, OG_NM_101="off") == [("L101", "warning")]
    assert codes_at(text, L101="error", OG_NM_101="warn") == [
        ("OG-NM-101", "warning"),
        ("L101", "error"),
    ]


@pytest.mark.parametrize(
    ("code", "level", "said"),
    [
        ("OG-NM-101", "maybe", "error, warn, off"),
        ("OG-NM-101", "", "error, warn, off"),
        ("OG-NM-102", "off", "did you mean 'OG-NM-101'"),
    ],
)
def test_other_levels_are_refused(code: str, level: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        read_severities({code: level}, MEANINGS)


def test_every_code_of_a_schema_change_has_a_severity() -> None:
    assert SEVERITIES.keys() == CODES.keys()
    assert read_severity(None) == {}


@pytest.mark.parametrize("code", [code for code in CODES if code.startswith("OG-DS-")])
def test_what_loses_data_is_never_silent(code: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{code} cannot be off"):
        read_severity({code: "off"})
    assert read_severity({code: "warn"}) == {code: SeverityLevel.WARN}
