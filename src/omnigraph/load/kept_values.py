"""Prepared rows of stored entities, with the stored values of the defaults that the load made."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.catalog.model import ID, generated_defaults
from omnigraph.lance_store.store import Dataset
from omnigraph.load.parsed_rows import AbsentColumns
from omnigraph.load.prepare_rows import ABSENT, PLACE
from omnigraph.load.prepared import PreparedFile, PreparedInput, PreparedTable, prepared_schema
from omnigraph.writes.kept_defaults import keep_stored


def keep_generated(
    prepared: PreparedInput, table: PreparedTable, dataset: Dataset, *, settled: bool
) -> PreparedTable:
    """The same rows with kept values; `table` itself if no row keeps one.

    `settled`: the key index says under which ids the rows are written.
    """
    entity, index = table.entity, prepared.index
    key = entity.table_key
    names = list(generated_defaults(entity))
    checked = [name for name in names if name in index.columns(key)]
    path = prepared.folder / f"kept-{key.kind.value}-{key.type_name}.arrow"
    file = PreparedFile(entity, path, prepared_schema(entity))
    changed = False
    for chunk in table.chunks():
        ids = index.written_ids(key, chunk) if settled else chunk.column(ID)
        absent = AbsentColumns(chunk.column(ABSENT))
        marks = {name: pa.array(absent.of(name)) for name in names}
        rows, kept = keep_stored(dataset, chunk, ids, marks)
        if kept is not None:
            changed = True
            if checked:
                index.put_values(key, rows.filter(kept).select([*checked, PLACE]))
        file.append(rows)
    file.close()
    return file if changed else table
