"""Blob columns: plain bytes inside the engine, Lance blob v2 on disk."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa

from omnigraph.lance_store.store import Dataset
from omnigraph.values.arrow_types import is_blob


def to_lance_schema(schema: pa.Schema) -> pa.Schema:
    """The schema a dataset is created with."""
    for position, field in enumerate(schema):
        if is_blob(field):
            schema = schema.set(position, lance.blob_field(field.name, nullable=field.nullable))
    return schema


def to_lance_rows(rows: pa.Table) -> pa.Table:
    """Rows as Lance wants them written."""
    for position, field in enumerate(rows.schema):
        if is_blob(field):
            target = lance.blob_field(field.name, nullable=field.nullable)
            values = lance.blob_array(rows.column(position).to_pylist())
            rows = rows.set_column(position, target, values)
    return rows


def scan_options(dataset: Dataset) -> dict[str, Any]:
    """What a scan must ask for so that blobs come back as bytes, not as descriptors."""
    has_blobs = any(isinstance(field.type, pa.ExtensionType) for field in dataset.schema)
    return {"blob_handling": "all_binary"} if has_blobs else {}


def as_scanned(field: pa.Field) -> pa.Field:
    """A column of a dataset's schema as scans with `scan_options` give it."""
    return field.with_type(pa.large_binary()) if isinstance(field.type, pa.ExtensionType) else field
