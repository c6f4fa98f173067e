"""Blob columns: bytes in our tables, Lance blob v2 on disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lance
import pyarrow as pa

from omnigraph.lance_store.store import Dataset
from omnigraph.values.arrow_types import is_blob

_BLOBS_AT_ONCE = 16 * 1024


def to_lance_schema(schema: pa.Schema) -> pa.Schema:
    """The schema that a dataset is created with."""
    for position, field in enumerate(schema):
        if is_blob(field):
            schema = schema.set(position, lance.blob_field(field.name, nullable=field.nullable))
    return schema


def to_lance_rows(rows: pa.Table) -> pa.Table:
    """Rows in the form that Lance writes."""
    for position, field in enumerate(rows.schema):
        if is_blob(field):
            target = lance.blob_field(field.name, nullable=field.nullable)
            values = lance.blob_array(rows.column(position).to_pylist())
            rows = rows.set_column(position, target, values)
    return rows


def in_pieces(rows: pa.Table) -> Iterator[pa.Table]:
    """Rows with blobs in small pieces, because writing copies them; other rows in one piece."""
    if rows.num_rows and not any(is_blob(field) for field in rows.schema):
        yield rows
        return
    for batch in rows.to_batches(max_chunksize=_BLOBS_AT_ONCE):
        if batch.num_rows:
            yield pa.Table.from_batches([batch])


def scan_options(dataset: Dataset) -> dict[str, Any]:
    """Options of a scan that give blobs as bytes instead of descriptors."""
    has_blobs = any(isinstance(field.type, pa.ExtensionType) for field in dataset.schema)
    return {"blob_handling": "all_binary"} if has_blobs else {}


def as_scanned(field: pa.Field) -> pa.Field:
    """The field of a dataset in the form that a scan with `scan_options` gives."""
    return field.with_type(pa.large_binary()) if isinstance(field.type, pa.ExtensionType) else field
