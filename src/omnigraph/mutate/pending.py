"""The effect of the statements so far on one table, over the stored rows of a snapshot.

A row is pending (inserted or updated), deleted, or untouched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID, EntityType
from omnigraph.errors import InvalidArgument, KeyConflict
from omnigraph.writes.changeset import EditRows, Located


class PendingTable:
    """The changes of one table. Inserted rows stay Python values until a statement reads them."""

    def __init__(self, entity: EntityType) -> None:
        self.entity = entity
        self.schema = table_schema(entity)
        self._inserted: dict[str, Mapping[str, Any]] = {}
        self._rows: pa.Table | None = None
        self._ids: set[str] = set()
        self._strict: set[str] = set()
        self._fresh: list[str] = []
        self._deleted: set[str] = set()
        self._found: list[pa.Table] = []
        self._found_deleted: list[pa.Table] = []

    def holds(self, entity_id: str) -> bool:
        return entity_id in self._ids

    def insert(self, row: Mapping[str, Any], *, strict: bool, fresh: bool) -> None:
        """Insert a whole row. `strict`: its id must be new. `fresh`: its id is a new ULID."""
        entity_id = row[ID]
        if strict and entity_id in self._ids:
            raise KeyConflict(
                f"{self.entity.table_key}: {entity_id!r} is inserted twice",
                type=self.entity.name,
                entity_kind=self.entity.table_key.kind.value,
                ids=[entity_id],
                total=1,
            )
        if strict:
            self._strict.add(entity_id)
        if fresh:
            self._fresh.append(entity_id)
        self._inserted.pop(entity_id, None)  # keeps the order of the last inserts
        self._inserted[entity_id] = row
        self._ids.add(entity_id)

    def take_inserted(self) -> pa.Table | None:
        """Inserted rows that are not in a table yet; the caller returns them by `put`."""
        if not self._inserted:
            return None
        rows = list(self._inserted.values())
        self._inserted = {}
        return pa.table(
            [self._column(field, [row.get(field.name) for row in rows]) for field in self.schema],
            schema=self.schema,
        )

    def put(self, rows: pa.Table) -> None:
        """Add whole rows of distinct ids, which replace pending rows of the same ids."""
        earlier = self._rows
        self._ids.update(rows.column(ID).to_pylist())
        if earlier is not None:
            stays = pc.invert(pc.is_in(earlier.column(ID), value_set=rows.column(ID)))
            rows = pa.concat_tables([earlier.filter(stays), rows])
        self._rows = rows

    def remember(self, stored: pa.Table) -> None:
        """Keep stored rows that an update has made pending, whole and with their addresses."""
        self._found.append(stored)

    def delete(self, ids: pa.Array, located: pa.Table | None = None) -> None:
        """Delete by id. `located` are the stored rows of `ids` that were not deleted before."""
        self._deleted.update(ids.to_pylist())
        if located is not None:
            self._found_deleted.append(located)

    @property
    def rows(self) -> pa.Table | None:
        """Pending rows. The caller has returned inserted rows by `put` before."""
        assert not self._inserted
        return self._rows

    def untouched(self, stored: pa.Table) -> pa.Table:
        """Stored rows that are neither pending nor deleted."""
        touched = self._ids | self._deleted
        if not touched or stored.num_rows == 0:
            return stored
        known = pc.is_in(stored.column(ID), value_set=pa.array(touched, pa.string()))
        return stored.filter(pc.invert(known))

    def effect(self) -> EditRows | None:
        key, rows = self.entity.table_key, self.rows
        located = Located(
            _together(self._found),
            _together(self._found_deleted),
            pa.array(self._fresh, pa.string()) if self._fresh else None,
        )
        deletes = pa.array(sorted(self._deleted), pa.string()) if self._deleted else None
        if rows is None:
            return EditRows(key, deletes=deletes, located=located) if self._deleted else None
        if not self._strict:
            return EditRows(key, upserts=rows, deletes=deletes, located=located)
        if len(self._strict) == rows.num_rows:
            return EditRows(key, rows, deletes=deletes, located=located)
        is_new = pc.is_in(rows.column(ID), value_set=pa.array(self._strict, pa.string()))
        new, others = rows.filter(is_new), rows.filter(pc.invert(is_new))
        return EditRows(key, new, others if others.num_rows else None, deletes, located)

    def _column(self, field: pa.Field, values: list[Any]) -> pa.Array:
        try:
            return pa.array(values, field.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError) as error:
            raise InvalidArgument(
                f"{self.entity.name}.{field.name}: {error}",
                type=self.entity.name,
                property=field.name,
            ) from error


def _together(tables: list[pa.Table]) -> pa.Table | None:
    return pa.concat_tables(tables) if tables else None
