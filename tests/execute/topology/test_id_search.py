"""One id by a binary search, many ids by their numbers: both find what is there."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.execute.topology.id_search import SortedIds, find_integers

SPELLED = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.integers(-30, 30).map(str),
    # As long as the decimal spelling of the same number.
    st.integers(0xFFFFF0, 0xFFFFFF).map(lambda n: f"0x{n:X}"),
    st.integers(0xFFFFF0, 0xFFFFFF).map(str),
    st.sampled_from(
        ["07", "+7", "-0", "00", "0x7", "7 ", " 7", "7.0", "1e1", "", "a", "٧", "9" * 19]
    ),
)


@given(st.lists(SPELLED, max_size=8), st.lists(SPELLED, unique=True, max_size=30))
def test_ids_are_texts_whatever_numbers_they_spell(wanted: list[str], known: list[str]) -> None:
    known = sorted(known)
    found = find_integers(pa.array(wanted, pa.string()), pa.array(known, pa.string()))
    expected = [known.index(text) if text in known else -1 for text in wanted]
    assert found is None or found.tolist() == expected


def test_a_dense_table_is_used() -> None:
    known = sorted(str(n) for n in range(-5, 1000))
    wanted = ["0", "999", "-5", "1000", "-6", "007", "12"]
    found = find_integers(pa.array(wanted), pa.array(known))
    assert found is not None
    expected = [known.index(text) if text in known else -1 for text in wanted]
    assert found.tolist() == expected


def test_a_leading_zero_is_another_id_of_the_largest_numbers_too() -> None:
    known = sorted(str(n) for n in range(2**63 - 20, 2**63))
    wanted = [known[-1], f"0{known[-1]}", f"00{known[0]}"]
    found = find_integers(pa.array(wanted), pa.array(known))
    assert found is not None
    assert found.tolist() == [19, -1, -1]


def test_hexadecimal_ids_are_texts_too() -> None:
    spelled = sorted(f"0x{n:X}" for n in range(0xFFFF00, 0xFFFFFF))
    decimal = sorted(str(n) for n in range(0xFFFF00, 0xFFFFFF))
    assert find_integers(pa.array(decimal), pa.array(spelled)) is None
    found = find_integers(pa.array(["0XFFFF01", spelled[0], decimal[1]]), pa.array(decimal))
    assert found is not None
    assert found.tolist() == [-1, -1, 1]


ids = st.lists(st.text(max_size=6), unique=True, max_size=20)


@given(
    ids, st.text(max_size=6), st.integers(0, 3), st.sampled_from([pa.string(), pa.large_string()])
)
def test_rank_is_the_rank_among_sorted_texts(
    texts: list[str], wanted: str, skipped: int, kind: pa.DataType
) -> None:
    array = pa.array(sorted(texts), kind).slice(skipped)
    kept = sorted(texts)[skipped:]
    for text in [*kept, wanted]:
        smaller = sum(other < text for other in kept)
        assert SortedIds(array).rank(text) == (smaller, text in kept)


@pytest.mark.parametrize("wanted", ["\ud800", "a\udfff"])
def test_a_lone_surrogate_is_not_among_them(wanted: str) -> None:
    assert SortedIds(pa.array(["a", "b"])).rank(wanted)[1] is False
