"""Entities as CSV (RFC 4180) that a load reads back to the same graph."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType, EntityType
from omnigraph.values.csv_columns import csv_header, csv_records

_PUBLIC_NAMES = {SOURCE: "from", TARGET: "to"}


def csv_chunks(entity: EntityType, tables: Iterator[pa.Table]) -> Iterator[bytes]:
    """The header, and then one chunk of records per batch of rows."""
    names = _columns(entity)
    yield csv_header([_PUBLIC_NAMES.get(name, name) for name in names])
    for table in tables:
        for batch in table.to_batches():
            if batch.num_rows:
                yield csv_records([batch.column(name) for name in names])


def _columns(entity: EntityType) -> list[str]:
    """The columns of a type; an id that a load derives from the key is left out."""
    names = [] if entity.key else [ID]
    if isinstance(entity, EdgeType):
        names += [SOURCE, TARGET]
    return [*names, *(p.name for p in entity.properties)]
