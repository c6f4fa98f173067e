from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.values.text_terms import default_edits, terms, within_edits


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's O'Reilly_2", ["it", "s", "o", "reilly", "2"]),
        ("The foxes, the FOX-trot", ["the", "foxes", "the", "fox", "trot"]),
        ("Café cafe", ["café", "cafe"]),
        ("e\u0301tude", ["e", "tude"]),
        ("ΟΔΟΣ οδος", ["οδοσ", "οδος"]),
        ("İstanbul", ["i\u0307stanbul"]),
        ("東京 タワー 東京タワー", ["東京", "タワー", "東京タワー"]),
        ("हिन्दी", ["हिन", "दी"]),
        ("² ½ Ⓐ", ["²", "½", "ⓐ"]),
        ("a" * 5000, ["a" * 5000]),
        ("🙂 --- '\"", []),
        ("", []),
        ("ab\U00010d50\u1c89", ["ab\U00010d70\u1c8a"]),
    ],
)
def test_rule(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_path_is_the_general_path(text: str) -> None:
    # Any other character takes the general path; it is a separator here.
    assert terms(text) == terms(text + "\u00a0")


def test_short_words_must_be_exact_by_default() -> None:
    assert [default_edits(w) for w in ("ab", "abc", "abcde", "abcdef")] == [0, 1, 1, 2]


@given(st.text("ab", max_size=4), st.text("ab", max_size=4))
def test_edit_distance(left: str, right: str) -> None:
    distance = _distance(left, right)
    assert [within_edits(left, right, e) for e in range(5)] == [distance <= e for e in range(5)]


def _distance(left: str, right: str) -> int:
    if not left or not right:
        return len(left) + len(right)
    if left[0] == right[0]:
        return _distance(left[1:], right[1:])
    return 1 + min(
        _distance(left[1:], right), _distance(left, right[1:]), _distance(left[1:], right[1:])
    )
