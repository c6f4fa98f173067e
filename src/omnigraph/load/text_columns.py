"""Columns of texts, as CSV has them, -> typed columns, many cells at once.

A text that is not plainly a value of the type is left to whoever reads cells one by one: the mask
says which, and the column is NULL there.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from omnigraph.load.json_columns import Mask, parse_type, typed_column
from omnigraph.values.arrow_types import arrow_type
from omnigraph.values.scalars import (
    FLOAT_KINDS,
    INTEGER_BOUNDS,
    INTEGER_KINDS,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)

_INTEGER = r"^-?(0|[1-9]\d{0,17})$"
_NUMBER = r"^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$"


def column_of_texts(kind: ValueType, texts: pa.Array) -> tuple[pa.Array, Mask | None]:
    """(the column, the rows that have to be read one by one); NULL stays NULL."""
    match kind:
        case ScalarType(ScalarKind.BOOL):
            return _booleans(texts)
        case ScalarType(scalar) if scalar in INTEGER_KINDS:
            return _integers(texts, scalar)
        case ScalarType(scalar) if scalar in FLOAT_KINDS:
            return _numbers(texts, kind)
        case ListType() | VectorType():
            return _lists(texts, kind)
        case _:
            return typed_column(kind, texts)


def _booleans(texts: pa.Array) -> tuple[pa.Array, Mask | None]:
    readable, bad = _matching(texts, "^(true|false)$")
    return pc.equal(readable, "true"), bad


def _integers(texts: pa.Array, kind: ScalarKind) -> tuple[pa.Array, Mask | None]:
    readable, bad = _matching(texts, _INTEGER)
    numbers = readable.cast(pa.int64())
    low, high = (max(-(2**63), min(bound, 2**63 - 1)) for bound in INTEGER_BOUNDS[kind])
    inside = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
    outside = ~_mask(pc.fill_null(inside, True))
    if outside.any():
        numbers = pc.if_else(pa.array(outside), None, numbers)
        bad = outside if bad is None else bad | outside
    return numbers.cast(arrow_type(ScalarType(kind))), bad


def _numbers(texts: pa.Array, kind: ValueType) -> tuple[pa.Array, Mask | None]:
    readable, bad = _matching(texts, _NUMBER)
    column, strange = typed_column(kind, readable.cast(pa.float64()))
    return column, strange if bad is None else bad if strange is None else bad | strange


def _lists(texts: pa.Array, kind: ValueType) -> tuple[pa.Array, Mask | None]:
    """Cells of JSON: read by Arrow as lines of one property, all of them or none."""
    unread = pa.nulls(len(texts), arrow_type(kind)), _mask(texts.is_valid())
    lines = pc.binary_join_element_wise('{"v":', pc.fill_null(texts, "null"), "}\n", "")
    data = "".join(lines.to_pylist()).encode()
    schema = pa.schema([pa.field("v", parse_type(kind))])
    try:
        table = pj.read_json(
            pa.BufferReader(data),
            pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return unread
    if table.num_rows != len(texts) or pc.any(pc.match_substring(texts, "\n")).as_py():
        return unread
    return typed_column(kind, pa.concat_arrays(table.column("v").chunks))


def _matching(texts: pa.Array, pattern: str) -> tuple[pa.Array, Mask | None]:
    """(the texts that match, NULL for others; which others there are)."""
    bad = ~_mask(pc.fill_null(pc.match_substring_regex(texts, pattern=pattern), True))
    if not bad.any():
        return texts, None
    return pc.if_else(pa.array(bad), pa.scalar(None, pa.string()), texts), bad


def _mask(condition: pa.Array) -> Mask:
    return np.asarray(condition.to_numpy(zero_copy_only=False), dtype=bool)
