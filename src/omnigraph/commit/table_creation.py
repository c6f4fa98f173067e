"""Create the dataset of a new type; it exists for others only once the manifest names it."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType, EntityType
from omnigraph.errors import AlreadyExists
from omnigraph.lance_store.dataset_branches import create_dataset
from omnigraph.lance_store.store import Store
from omnigraph.manifest.layout import reclaimed_marker, table_location
from omnigraph.manifest.records import BranchRef, TablePin
from omnigraph.values.clock import Clock


def create_table(
    store: Store,
    entity: EntityType,
    owner: BranchRef,
    commit_id: str,
    clock: Clock,
    rows: pa.Table | None = None,
) -> TablePin:
    """The pin of a table that holds `rows`, or nothing."""
    indexed = (ID, SOURCE, TARGET) if isinstance(entity, EdgeType) else (ID,)
    rows = table_schema(entity).empty_table() if rows is None else rows
    location = table_location(entity.table_key)
    try:
        if store.files.get(reclaimed_marker(location)) is not None:
            raise AlreadyExists(f"dataset {location} existed", dataset=location)
        created = create_dataset(store, location, rows, indexed)
    except AlreadyExists:
        # A crashed or racing creation, another branch, or a dropped type has the plain path, or
        # had it: old commits name versions there.
        created = create_dataset(store, f"{location}-{clock.new_ulid()}", rows, indexed)
    return TablePin(
        key=entity.table_key,
        location=created.location,
        branch=created.branch,
        version=created.version,
        row_count=rows.num_rows,
        owner=owner.incarnation,
        content_epoch=commit_id,
    )
