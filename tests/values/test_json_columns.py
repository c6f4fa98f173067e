"""The texts of whole columns are those that Python's `json` writes."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.values.arrow_types import arrow_type, with_zone
from omnigraph.values.json_columns import json_rows, json_texts, text_bytes
from omnigraph.values.json_values import finite, json_value
from omnigraph.values.scalars import ListType, ScalarKind, ScalarType, ValueType, VectorType
from omnigraph.values.temporal import write_moment

F32 = st.floats(allow_nan=False, allow_infinity=False, width=32)
SCALARS: dict[ScalarKind, st.SearchStrategy[Any]] = {
    ScalarKind.STRING: st.text(),
    ScalarKind.BOOL: st.booleans(),
    ScalarKind.I64: st.integers(-(2**63), 2**63 - 1),
    ScalarKind.U64: st.integers(0, 2**64 - 1),
    ScalarKind.F64: st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([1e15, 1e16, 123456789012345680.0, 1e-4, 1e-5, 9.9e-5, -0.0, 5e-324]),
    ScalarKind.F32: F32,
    ScalarKind.DATE: st.dates(),
    ScalarKind.DATETIME: st.datetimes().map(
        lambda m: m.replace(microsecond=m.microsecond // 1000 * 1000)
    ),
}
KINDS: list[tuple[ValueType, st.SearchStrategy[Any]]] = [
    *((ScalarType(kind), values) for kind, values in SCALARS.items()),
    *((ListType(kind), st.lists(values, max_size=4)) for kind, values in SCALARS.items()),
    (VectorType(3), st.lists(F32, min_size=3, max_size=3)),
]


def spelled(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return write_moment(value.replace(tzinfo=dt.UTC))
    return value.isoformat()


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=[str(kind) for kind, _ in KINDS])
@given(data=st.data())
def test_texts(kind: ValueType, values: st.SearchStrategy[Any], data: st.DataObject) -> None:
    given_values = data.draw(st.lists(st.none() | values, max_size=8))
    column = pa.array([None, *given_values], arrow_type(kind)).slice(data.draw(st.integers(0, 1)))
    expected = [
        None
        if value is None
        else json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=spelled)
        for value in column.to_pylist()
    ]
    assert json_texts(column).to_pylist() == expected


NESTED = [
    {"n": 1, "when": dt.datetime(2026, 4, 14, 10, tzinfo=dt.UTC), "inner": {"a": [1.5, None]}},
    {"n": None, "when": None, "inner": None},
    None,
    {"n": 2, "when": dt.datetime(1, 1, 1, tzinfo=dt.UTC), "inner": {"a": []}},
]
STRUCT = pa.struct(
    [
        ("n", pa.uint64()),
        ("when", pa.timestamp("ms", "UTC")),
        ("inner", pa.struct([("a", pa.list_(pa.float32()))])),
    ]
)


def test_rows_are_the_json_of_their_python_values() -> None:
    batch = pa.record_batch(
        {
            'a "name"': pa.array(["x", None, 'q"', "\n"]),
            "number": pa.array([0.1, float("nan"), float("inf"), None]),
            "nested": pa.array(NESTED, STRUCT),
            "many": pa.array([NESTED[:2], [], None, [None]], pa.list_(STRUCT)),
            "blob": pa.array([b"", b"x", None, b"yz"], pa.large_binary()),
            "nothing": pa.nulls(4),
        }
    )
    for rows in (batch, batch.slice(1), batch.slice(4), with_zone(batch)):
        expected = [finite(json_value(row)) for row in rows.to_pylist()]
        assert [json.loads(text) for text in json_rows(rows).to_pylist()] == expected
    assert json_rows(pa.record_batch({}).slice(0, 0)).to_pylist() == []


def test_the_bytes_of_texts_are_those_of_their_slice() -> None:
    texts = pa.array(["ab", "c", "", "def"])
    assert text_bytes(texts.slice(1, 3)) == b"cdef"
    assert text_bytes(texts.slice(4)) == b""
