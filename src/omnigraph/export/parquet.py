"""One Parquet file per type, named so that a load knows the type."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import SOURCE, TARGET, EntityType

_SPELLED = {SOURCE: "from", TARGET: "to"}


def write_parquet(folder: Path, entity: EntityType, tables: Iterator[pa.Table]) -> int:
    """How many rows `<folder>/<Type>.parquet` holds."""
    return write_parquet_file(folder / f"{entity.name}.parquet", entity, tables)


def write_parquet_file(path: Path, entity: EntityType, tables: Iterator[pa.Table]) -> int:
    schema = _spelled(table_schema(entity).empty_table()).schema
    rows = 0
    with pq.ParquetWriter(path, schema) as writer:
        for table in tables:
            writer.write_table(_spelled(table))
            rows += table.num_rows
    return rows


def _spelled(table: pa.Table) -> pa.Table:
    return table.rename_columns([_SPELLED.get(name, name) for name in table.column_names])
