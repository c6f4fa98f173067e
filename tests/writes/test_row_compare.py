from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.writes.row_compare import differing_rows

NAN = float("nan")


def compare(a: list, b: list, kind: pa.DataType) -> list[bool]:
    stored = pa.table({"x": pa.array(a, kind), "extra": pa.array([0] * len(a))})
    return differing_rows(stored, pa.table({"x": pa.array(b, kind)})).tolist()


@pytest.mark.parametrize(
    ("kind", "a", "b"),
    [
        (pa.string(), "a", "b"),
        (pa.int64(), 1, 2),
        (pa.bool_(), True, False),
        (pa.float64(), 1.5, 2.5),
        (pa.float32(), 1.5, 2.5),
        (pa.date32(), 1, 2),
        (pa.timestamp("ms"), 1, 2),
        (pa.list_(pa.int32()), [1], [1, 2]),
        (pa.list_(pa.float32(), 2), [1.0, 2.0], [1.0, 3.0]),
        (pa.large_binary(), b"a", b"b"),
    ],
)
def test_values_and_nulls(kind: pa.DataType, a: object, b: object) -> None:
    assert compare([a, a, a, None, None], [a, b, None, a, None], kind) == [
        False,
        True,
        True,
        True,
        False,
    ]


def test_nan_equals_itself_and_an_empty_list_is_not_null() -> None:
    assert compare([NAN, NAN, 1.0], [NAN, 1.0, NAN], pa.float64()) == [False, True, True]
    assert compare([[], None], [None, []], pa.list_(pa.int32())) == [True, True]


def test_any_column_counts_and_only_written_ones() -> None:
    stored = pa.table({"a": [1, 1], "b": [1, 1], "c": [1, 1]})
    assert differing_rows(stored, pa.table({"a": [1, 1], "b": [1, 2]})).tolist() == [False, True]


def test_chunks_do_not_matter() -> None:
    stored = pa.table({"a": pa.chunked_array([[1], [2, 3]])})
    written = pa.table({"a": pa.chunked_array([[1, 0], [3]])})
    assert differing_rows(stored, written).tolist() == [False, True, False]
    empty = pa.table({"a": pa.array([], pa.int64())})
    assert differing_rows(empty, empty).tolist() == []


@given(st.lists(st.tuples(*[st.none() | st.floats(width=64)] * 2), max_size=20))
def test_agrees_with_python(pairs: list[tuple[float | None, float | None]]) -> None:
    def same(x: float | None, y: float | None) -> bool:
        both_nan = x is not None and y is not None and math.isnan(x) and math.isnan(y)
        return both_nan or x == y

    found = compare([x for x, _ in pairs], [y for _, y in pairs], pa.float64())
    assert found == [not same(x, y) for x, y in pairs]
