"""Rows of one table in the order of their ids, in bounded memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import duckdb
import pyarrow as pa

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID, EntityType
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.store import Dataset, Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.scoping.visible_rows import VisibleRows
from omnigraph.settings.models import LoadSettings
from omnigraph.values.arrow_types import is_blob

_SORTED_IN_MEMORY = 64 * 1024
_ROWS_PER_BATCH = 64 * 1024
_BLOBS_AT_ONCE = 64


def sorted_rows(
    store: Store, snapshot: Snapshot, entity: EntityType, settings: LoadSettings
) -> Iterator[pa.Table]:
    """Tables with the columns of the catalog, blobs as bytes; only rows in the snapshot's scope."""
    pin = snapshot.pin(entity.table_key)
    visible = VisibleRows(store, snapshot)
    dataset = store.open(pin.at)
    schema = table_schema(entity)
    plain = [field.name for field in schema if not is_blob(field)]
    blobs = [field.name for field in schema if is_blob(field)]
    if pin.row_count <= _SORTED_IN_MEMORY:
        batches = iter([visible.table(entity.table_key, plain).sort_by(ID)])
    else:
        stored = visible.batches(entity.table_key, plain)
        batches = _sorted_on_disk(stored, schema, plain, settings)
    for batch in batches:
        if not blobs:
            yield batch.cast(schema)
            continue
        for start in range(0, batch.num_rows, _BLOBS_AT_ONCE):
            part = batch.slice(start, _BLOBS_AT_ONCE)
            yield _with_blobs(dataset, part, blobs).select(schema.names).cast(schema)


def _sorted_on_disk(
    stored: Iterator[pa.Table], schema: pa.Schema, plain: list[str], settings: LoadSettings
) -> Iterator[pa.Table]:
    # DuckDB treats `name` and `Name` as one column, so columns are named by their numbers here.
    narrow = pa.schema([schema.field(name).with_name(f"c{n}") for n, name in enumerate(plain)])
    rows = pa.RecordBatchReader.from_batches(
        narrow, (_exactly(batch, narrow) for rows in stored for batch in rows.to_batches())
    )
    with tempfile.TemporaryDirectory(
        prefix="omnigraph-export-", dir=settings.temp_directory
    ) as folder:
        limits: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{settings.memory_bytes >> 20}MiB",
            "temp_directory": folder,
        }
        with duckdb.connect(":memory:", config=limits) as connection:
            connection.register("stored", rows)
            found = connection.sql(f"SELECT * FROM stored ORDER BY c{plain.index(ID)}")
            reader: pa.RecordBatchReader = found.to_arrow_reader(_ROWS_PER_BATCH)
            for batch in reader:
                yield pa.Table.from_batches([batch]).rename_columns(plain)


def _exactly(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch(batch.columns, schema=schema)


def _with_blobs(dataset: Dataset, rows: pa.Table, blobs: list[str]) -> pa.Table:
    found = find_rows(dataset, rows.column(ID).combine_chunks(), blobs)
    ids = found.column(ID).to_pylist()
    place = {identity: row for row, identity in enumerate(ids)}
    order = pa.array([place[identity] for identity in rows.column(ID).to_pylist()], pa.int64())
    for name in blobs:
        rows = rows.append_column(name, found.column(name).take(order))
    return rows
