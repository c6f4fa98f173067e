"""Value type -> Arrow type, the one table."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.values.scalars import (
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)

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


_BLOB = {b"omnigraph:blob": b"true"}


def arrow_field(name: str, value_type: ValueType, *, nullable: bool) -> pa.Field:
    """The column of one property; blob columns are marked, so that storage knows them."""
    metadata = _BLOB if isinstance(value_type, BlobType) else None
    return pa.field(name, arrow_type(value_type), nullable=nullable, metadata=metadata)


def is_blob(field: pa.Field) -> bool:
    return field.metadata is not None and _BLOB.items() <= field.metadata.items()


def arrow_type(value_type: ValueType) -> pa.DataType:
    """The Arrow type of one property value."""
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
