from __future__ import annotations

import datetime as dt
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import InvalidArgument
from omnigraph.values.entity_ids import canonical_text, entity_id, new_ulids

KEY_VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.text(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.dates(),
    st.datetimes(),
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (-5, "-5"),
        (2**64 - 1, "18446744073709551615"),
        ("Ada", "Ada"),
        ("", ""),
        (0.0, "0"),
        (-0.0, "0"),
        (3.0, "3"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (dt.date(1970, 1, 2), "1"),
        (dt.date(1969, 12, 31), "-1"),
        (dt.datetime(1970, 1, 1, 0, 0, 1), "1000"),
        (dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), "0"),
    ],
)
def test_spellings(value: object, text: str) -> None:
    assert canonical_text(value) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), None, b"x", [1], {}])
def test_what_cannot_be_a_key(value: object) -> None:
    with pytest.raises(InvalidArgument, match="cannot be part of a key"):
        canonical_text(value)


@given(st.integers(-(2**53), 2**53))
def test_equal_numbers_spell_alike_whatever_carried_them(number: int) -> None:
    if abs(number) < 10**16:
        assert canonical_text(float(number)) == canonical_text(number)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float32_and_float64_of_one_value_spell_alike(number: float) -> None:
    assert canonical_text(float(np.float32(number))) == canonical_text(number)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False))
def test_different_floats_spell_differently(one: float, other: float) -> None:
    if one != other and np.isfinite(other):
        assert canonical_text(one) != canonical_text(other)


@given(KEY_VALUES)
def test_a_single_key_is_its_own_spelling(value: object) -> None:
    assert entity_id([value]) == canonical_text(value)


@given(st.lists(KEY_VALUES, min_size=2, max_size=4))
def test_composite_ids_can_be_taken_apart(values: list[object]) -> None:
    assert json.loads(entity_id(values)) == [canonical_text(v) for v in values]


@given(st.tuples(st.text(), st.text()), st.tuples(st.text(), st.text()))
def test_composite_ids_do_not_run_together(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (entity_id(one) == entity_id(other)) == (one == other)


_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def _number(ulid: str) -> int:
    found = 0
    for digit in ulid:
        found = found * 32 + _DIGITS.index(digit)
    return found


@pytest.mark.parametrize("count", [0, 1, 2, 1023, 1024, 1025, 3000])
@pytest.mark.parametrize("start", [0, 1, 1023, 1024, 2**20 - 1500, 2**30 - 2, 2**39 - 1])
def test_new_ulids_count_up_by_one(count: int, start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.values.entity_ids.secrets.randbelow", lambda _: start)
    ids = new_ulids(count)
    ids.validate(full=True)
    numbers = [_number(text) for text in ids.to_pylist()]
    assert len(numbers) == count
    assert all(later == earlier + 1 for earlier, later in itertools.pairwise(numbers))
    assert [number % 2**40 for number in numbers[:1]] == [start][:count]
