"""Value types in Arrow: the type and field of a property, and the units and zones of moments."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.values.scalars import (
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)
from omnigraph.values.temporal import FIRST_MILLI, LAST_MILLI

SCALAR_ARROW: dict[ScalarKind, pa.DataType] = {
    ScalarKind.STRING: pa.string(),
    ScalarKind.BOOL: pa.bool_(),
    ScalarKind.I32: pa.int32(),
    ScalarKind.I64: pa.int64(),
    ScalarKind.U32: pa.uint32(),
    ScalarKind.U64: pa.uint64(),
    ScalarKind.F32: pa.float32(),
    ScalarKind.F64: pa.float64(),
    ScalarKind.DATE: pa.date32(),
    ScalarKind.DATETIME: pa.timestamp("ms"),
}
_TIMESTAMP = pa.timestamp("ms").id
Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)
_BLOB = {b"omnigraph:blob": b"true"}


def arrow_field(name: str, value_type: ValueType, *, nullable: bool) -> pa.Field:
    """The column of one property. Blob columns carry a mark by which storage recognises them."""
    metadata = _BLOB if isinstance(value_type, BlobType) else None
    return pa.field(name, arrow_type(value_type), nullable=nullable, metadata=metadata)


def is_blob(field: pa.Field) -> bool:
    return field.metadata is not None and _BLOB.items() <= field.metadata.items()


def arrow_type(value_type: ValueType) -> pa.DataType:
    match value_type:
        case ScalarType(kind):
            return SCALAR_ARROW[kind]
        case ListType(element):
            return pa.list_(pa.field("item", SCALAR_ARROW[element], nullable=False))
        case VectorType(width):
            return pa.list_(pa.float32(), width)
        case EnumType():
            return pa.string()
        case BlobType():
            return pa.large_binary()


def with_zone(rows: Rows) -> Rows:
    """The same rows with moments in UTC. Stored moments are in UTC, but their type has no zone."""
    for index, kind in enumerate(rows.schema.types):
        if kind.id != _TIMESTAMP and not kind.num_fields:
            continue
        zoned = _zoned(kind)
        if zoned != kind:
            field = rows.schema.field(index).with_type(zoned)
            rows = rows.set_column(index, field, rows.column(index).cast(zoned))
    return rows


def _zoned(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return kind if kind.tz is not None else pa.timestamp(kind.unit, "UTC")
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_zoned(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_zoned(field.type)) for field in kind])
    return kind


def cut_to_millis(column: pa.Array) -> pa.Array:
    """Timestamps of any unit and zone as `DateTime` values: UTC, cut to milliseconds.

    Values outside the calendar stay outside, so that the row checks report them.
    """
    stored = column.cast(pa.timestamp(column.type.unit)).view(pa.int64())
    numbers = pc.fill_null(stored, 0).to_numpy(zero_copy_only=False)
    if column.type.unit == "s":
        # Clipped first, because the product might not fit 64 bits.
        numbers = np.clip(numbers, FIRST_MILLI // 1000 - 1, LAST_MILLI // 1000 + 1) * 1000
    per_milli = {"us": 1_000, "ns": 1_000_000}.get(column.type.unit, 1)
    cut = pa.array(np.floor_divide(numbers, per_milli))
    return pc.if_else(stored.is_valid(), cut, None).view(pa.timestamp("ms"))
