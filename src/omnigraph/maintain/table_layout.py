"""How a table is laid out, and whether upkeep would help."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.catalog.index_plan import wanted_indexes
from omnigraph.catalog.model import EntityType
from omnigraph.lance_store.reads.scan import TableShape, table_shape
from omnigraph.lance_store.search.indexes import coverage
from omnigraph.lance_store.store import Store
from omnigraph.manifest.records import TablePin
from omnigraph.settings.models import MaintenanceSettings

_FEWEST_DELETED = 1000


@dataclass(frozen=True, slots=True)
class Layout:
    """`unindexed_rows` are those outside the index that lags most."""

    shape: TableShape
    indexes: int
    unindexed_rows: int


def look_at(
    store: Store, pin: TablePin, entity: EntityType, settings: MaintenanceSettings
) -> Layout:
    dataset = store.open(pin.at)
    wanted = coverage(dataset, wanted_indexes(entity))
    return Layout(
        table_shape(dataset, settings.compacted_rows),
        sum(c.built for c in wanted),
        max((c.pending_rows for c in wanted if c.built), default=0),
    )


def is_due(layout: Layout, settings: MaintenanceSettings) -> bool:
    shape = layout.shape
    much_deleted = shape.deleted_rows > max(
        _FEWEST_DELETED, shape.stored_rows * settings.deleted_share
    )
    return (
        shape.small_fragments >= settings.fragments
        or much_deleted
        or layout.unindexed_rows >= settings.unindexed_rows
    )
