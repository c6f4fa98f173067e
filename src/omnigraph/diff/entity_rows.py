"""Rows of one type at one snapshot, looked up by sorted ids and lined up with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import SOURCE, TARGET, EntityType
from omnigraph.errors import SchemaRefused
from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS, ROW_ID, find_sorted
from omnigraph.lance_store.reads.scan import bytes_per_row
from omnigraph.lance_store.store import Store
from omnigraph.manifest.records import TablePin
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.arrow_types import with_zone
from omnigraph.values.blob_values import blob_value
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.row_compare import Mask

TypeIdentity = tuple[str, str]
"""Kind and id of a type; the id stays the same when the type is renamed."""


IMAGE_NAMES = {SOURCE: "from", TARGET: "to"}


PLACE = [ROW_ID, ROW_ADDRESS]


_FIRST_IDS = 4096


_FEWEST_IDS = 64


@dataclass(frozen=True, slots=True)
class TableAt:
    """One type's table at one snapshot, with the names that its reader gives to its columns."""

    entity: EntityType
    pin: TablePin
    stored: Mapping[str, str] = field(default_factory=dict)
    """Columns that are stored under another name."""

    @property
    def columns(self) -> list[str]:
        return list(table_schema(self.entity).names)

    def stored_name(self, column: str) -> str:
        return self.stored.get(column, column)

    def named_like(self, other: EntityType) -> TableAt:
        """The properties that `other` has, too, under the names that they have there."""
        names = {p.identity: p.name for p in other.properties}
        shared = [p for p in self.entity.properties if p.identity in names]
        renamed = tuple(replace(p, name=names[p.identity]) for p in shared)
        stored = {names[p.identity]: self.stored_name(p.name) for p in shared}
        kept = {new: old for new, old in stored.items() if new != old}
        return TableAt(replace(self.entity, properties=renamed), self.pin, kept)


@dataclass(frozen=True, slots=True)
class AlignedRows:
    """Row i belongs to the i-th id asked for; where `present` is false it is all NULL."""

    rows: pa.Table
    present: Mask
    places: pa.Table | None = None
    """`_rowid` and `_rowaddr` of the rows, if the lookup returned them."""


def identity_of(entity: EntityType) -> TypeIdentity:
    return entity.table_key.kind.value, entity.identity


def tables_by_identity(snapshot: Snapshot) -> dict[TypeIdentity, TableAt]:
    return {
        identity_of(entity): TableAt(entity, pin)
        for entity in snapshot.catalog.entity_types()
        if (pin := snapshot.tables.get(entity.table_key)) is not None
    }


def same_content(a: TablePin, b: TablePin) -> bool:
    """The same rows; compaction and forks may have moved them to other files or versions."""
    return a.location == b.location and a.content_epoch == b.content_epoch


def sort_key(key: TableKey) -> tuple[bool, str]:
    """Nodes before edges, then by name."""
    return key.kind.value != "node", key.type_name


def rows_of(
    store: Store,
    table: TableAt | None,
    ids: pa.Array,
    schema: pa.Schema,
    since: TableAt | None = None,
) -> AlignedRows:
    """Rows of `ids` in the columns of `schema`; columns the table does not have are NULL.

    `since` is an older state of the same table. If it is given, the rows written after it are
    searched first. For recently changed ids the cost then depends on the number of new rows, not on
    the size of the table.
    """
    if table is None:
        return AlignedRows(_nothing(len(ids), schema), np.zeros(len(ids), dtype=bool))
    columns = [name for name in table.columns if name in schema.names]
    stored = [table.stored_name(name) for name in columns]
    comparable = since is not None and since.pin.location == table.pin.location
    older = store.open(since.pin.at) if since is not None and comparable else None
    if older is not None and not set(stored) <= set(older.schema.names):
        older = None  # its columns have other names
    found = find_sorted(store.open(table.pin.at), ids, stored, older)
    if stored != columns:
        names = dict(zip(stored, columns, strict=True))
        found = found.rename_columns([names.get(name, name) for name in found.column_names])
    return align(found, ids, schema)


def align(found: pa.Table, ids: pa.Array, schema: pa.Schema) -> AlignedRows:
    """Rows in the order of `ids`, with all columns of `schema`."""
    stored = found.column("id")
    if stored.equals(pa.chunked_array([ids], stored.type)):
        present = np.ones(len(ids), dtype=bool)
    else:
        position = pc.index_in(ids, value_set=stored.combine_chunks())
        present = np.asarray(position.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
        found = found.take(position)
    arrays = [
        _cast(found.column(field.name), field)
        if field.name in found.column_names
        else pa.chunked_array([pa.nulls(len(ids), field.type)])
        for field in schema
    ]
    rows = pa.table(dict(zip(schema.names, arrays, strict=True)))
    has_places = ROW_ADDRESS in found.column_names
    return AlignedRows(rows, present, found.select(PLACE) if has_places else None)


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise SchemaRefused(
            f"a value of {field.name!r} does not convert to its new type {field.type}: {error}",
            reason=str(error),
        ) from error


def images(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows as the entities users know."""
    named = rows.rename_columns([IMAGE_NAMES.get(n, n) for n in rows.column_names])
    found: list[dict[str, Any]] = with_zone(named).to_pylist()
    for name in (each.name for each in named.schema if pa.types.is_large_binary(each.type)):
        for image in found:
            image[name] = None if image[name] is None else blob_value(image[name])
    return found


def common_schema(*entities: EntityType | None) -> pa.Schema:
    """Every column that one of the types has, nullable; the columns of the last type come first."""
    fields: dict[str, pa.Field] = {}
    for entity in reversed(entities):
        if entity is not None:
            for field in table_schema(entity):
                fields.setdefault(field.name, field.with_nullable(True))
    return pa.schema(list(fields.values()))


class ChunkSize:
    """How many ids to look up at once, so that their rows fit in memory.

    Files tell the compressed width of a row. The width in memory is learned from the rows of every
    chunk (`learn`), so the first chunk is small.
    """

    def __init__(
        self, store: Store, tables: Iterable[TableAt | None], most_bytes: int, most_ids: int
    ) -> None:
        self._most_bytes = most_bytes
        self._most_ids = most_ids
        known = [table for table in tables if table is not None]
        self._width = max([bytes_per_row(store.open(t.pin.at)) for t in known], default=1)
        self._learned = False

    def __call__(self) -> int:
        most = self._most_ids if self._learned else min(_FIRST_IDS, self._most_ids)
        return max(1, min(most, max(_FEWEST_IDS, self._most_bytes // max(self._width, 1))))

    def learn(self, *sides: AlignedRows) -> None:
        self._learned = True
        for side in sides:
            self._width = max(self._width, side.rows.nbytes // max(side.rows.num_rows, 1))


def _nothing(count: int, schema: pa.Schema) -> pa.Table:
    return pa.table({f.name: pa.nulls(count, f.type) for f in schema})
