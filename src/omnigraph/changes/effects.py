"""What can happen to one table, as data."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from omnigraph.values.identifiers import TableKey
from omnigraph.values.indexes import IndexSpec


@dataclass(frozen=True, slots=True)
class EditRows:
    """Insert (ids must be new), upsert and delete by id; ids are distinct over all three."""

    key: TableKey
    inserts: pa.Table | None = None
    upserts: pa.Table | None = None
    deletes: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class ReplaceRows:
    """The table holds exactly these rows afterwards."""

    key: TableKey
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Compact:
    """Rewrite small and half-deleted fragments; no row changes."""

    key: TableKey


@dataclass(frozen=True, slots=True)
class ExtendIndexes:
    """Bring these indexes to cover every fragment; no row changes."""

    key: TableKey
    specs: tuple[IndexSpec, ...]


ContentEffect = EditRows | ReplaceRows
PhysicalEffect = Compact | ExtendIndexes
Effect = ContentEffect | PhysicalEffect
