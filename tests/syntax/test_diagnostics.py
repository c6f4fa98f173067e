from __future__ import annotations

import json
import pickle

from omnigraph.errors import ParseError
from omnigraph.syntax.diagnostics import (
    Diagnostic,
    Diagnostics,
    Severity,
    in_text_order,
    language_error,
    render,
)
from omnigraph.syntax.source_text import SourceText, Span


def test_caret_stands_under_the_span() -> None:
    source = SourceText("one\ntwo three\n", "f.gq")
    shown = render(Diagnostic("T1", "no", Span(8, 13), "try"), source)
    assert shown == "f.gq:2:5: error T1: no\n  2 | two three\n    |     ^^^^^\n    = help: try"


def test_span_over_several_lines_is_cut_at_the_first() -> None:
    source = SourceText("ab\ncd", "f")
    assert render(Diagnostic("T1", "no", Span(1, 5)), source).endswith("|  ^")


def test_end_of_text_and_empty_text_have_a_place() -> None:
    assert render(Diagnostic("T1", "no", Span(0, 0)), SourceText("", "f")).startswith("f:1:1:")
    assert render(Diagnostic("T1", "no", Span(3, 3)), SourceText("abc", "f")).endswith("|    ^")


def test_wide_and_combining_characters_do_not_move_the_caret() -> None:
    shown = render(Diagnostic("T1", "no", Span(3, 4)), SourceText("日e\u0301x", "f"))
    assert shown.splitlines()[2] == "    |    ^"


def test_control_characters_and_surrogates_are_made_visible() -> None:
    shown = render(Diagnostic("T1", "a\x1b[31m\ud800", Span(0, 1)), SourceText("\x1b\ud800", "f"))
    assert "\x1b" not in shown
    shown.encode()


def test_a_long_line_is_shown_around_the_span() -> None:
    source = SourceText("a" * 5000 + "b" + "c" * 5000, "f")
    shown = render(Diagnostic("T1", "no", Span(5000, 5001)), source).splitlines()
    assert len(shown[1]) < 200
    assert shown[1][shown[2].index("^")] == "b"


def test_the_exception_is_json_and_survives_a_process_boundary() -> None:
    source = SourceText("abc", "f.gq")
    error = language_error(ParseError, [Diagnostic("Q000", "no", Span(1, 2))], source)
    again = pickle.loads(pickle.dumps(error))
    assert json.loads(json.dumps(again.to_dict()))["diagnostics"][0] == {
        "code": "Q000",
        "severity": "error",
        "message": "no",
        "help": None,
        "file": "f.gq",
        "line": 1,
        "column": 2,
        "end_line": 1,
        "end_column": 3,
    }
    assert again.code == "parse_error"


def test_findings_are_said_once_and_in_order() -> None:
    found = Diagnostics()
    found.error("T2", "b", Span(5, 6))
    found.warning("L1", "a", Span(1, 2))
    found.error("T2", "b", Span(5, 6))
    assert [d.code for d in in_text_order(found)] == ["L1", "T2"]
    assert found.has_errors
    assert found[1].severity is Severity.WARNING
