from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import InvalidName
from omnigraph.values.identifiers import (
    EntityKind,
    TableKey,
    check_ref_name,
    decode_ref_name,
    edge_table,
    encode_ref_name,
    fnv1a64_hex,
    node_table,
)

SEGMENT = st.text(
    st.characters(categories=("L", "Nd"), include_characters="._-"), min_size=1, max_size=8
).filter(lambda s: s not in (".", ".."))
NAMES = (
    st.lists(SEGMENT, min_size=1, max_size=4)
    .map("/".join)
    .map(lambda name: unicodedata.normalize("NFC", name))
    # Some letters normalise to a letter and a combining mark, and marks are no letters.
    .filter(lambda name: all(c.isalnum() or c in "._-/" for c in name))
    .filter(lambda name: not name.startswith("__") and len(name.encode()) <= 180)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", "cbf29ce484222325"), ("a", "af63dc4c8601ec8c"), ("foobar", "85944171f73967e8")],
)
def test_fnv1a64_is_the_published_hash(text: str, expected: str) -> None:
    assert fnv1a64_hex(text) == expected


@given(NAMES)
def test_good_names_pass_and_survive_encoding(name: str) -> None:
    assert check_ref_name(name) == name
    encoded = encode_ref_name(name)
    assert "/" not in encoded
    assert decode_ref_name(encoded) == name
    assert len(f"{encoded}.json".encode()) <= 255


@given(st.text(max_size=30))
def test_any_text_is_accepted_or_refused_with_the_rule(text: str) -> None:
    try:
        accepted = check_ref_name(text)
    except InvalidName as error:
        refused: InvalidName | None = error
    else:
        refused = None
        assert decode_ref_name(encode_ref_name(accepted)) == accepted
        assert check_ref_name(accepted) == accepted, "a checked name stays good"
    assert refused is None or (refused.name == text and "segments of letters" in str(refused))


@given(NAMES, NAMES)
def test_two_names_never_share_a_file(one: str, other: str) -> None:
    assert (encode_ref_name(one) == encode_ref_name(other)) == (one == other)


@pytest.mark.parametrize(
    "name",
    ["", "/", ".", "..", "a/.", "../a", "a//b", "/a", "a/", "__a", "a b", "a\n", "a\0b", "a~b"],
)
def test_bad_names(name: str) -> None:
    with pytest.raises(InvalidName):
        check_ref_name(name)


def test_a_name_of_180_bytes_is_the_longest() -> None:
    assert check_ref_name("ü" * 90)
    with pytest.raises(InvalidName):
        check_ref_name("ü" * 90 + "x")


def test_unicode_forms_are_one_name() -> None:
    assert check_ref_name("cafe\u0301") == check_ref_name("caf\u00e9")


def test_table_keys_round_trip_and_order() -> None:
    keys = [node_table("Person"), edge_table("Knows"), TableKey(EntityKind.NODE, "a:b")]
    assert [TableKey.parse(str(key)) for key in keys] == keys
    assert str(keys[0]) == "node:Person"
    assert sorted(keys) == [keys[1], keys[0], keys[2]]
    with pytest.raises(ValueError, match="banana"):
        TableKey.parse("banana:Person")
