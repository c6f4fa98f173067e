"""Export texts are those that Python's `json` writes."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.export.ndjson import json_texts
from omnigraph.values.arrow_types import arrow_type
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
    assert json_texts(kind, column).to_pylist() == expected
