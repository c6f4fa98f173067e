"""A snapshot with pending changes on top, for reads that need the whole executor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from omnigraph.integrity.cascade import with_cascades
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.staging.preview import drop_preview, preview_edit
from omnigraph.lance_store.staging.stage import RowEdit
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.writes.changeset import ChangeSet
from omnigraph.writes.effects import EditRows


@contextmanager
def overlaid(store: Store, snapshot: Snapshot, changes: ChangeSet) -> Iterator[Snapshot]:
    """The snapshot without what `changes` deletes, cascades included.

    A query either deletes or writes, never both, and only deletes are followed by patterns.
    """
    tables = dict(snapshot.tables)
    previews: list[DatasetVersion] = []
    try:
        for effect in with_cascades(snapshot, store, changes).effects:
            assert isinstance(effect, EditRows)
            assert effect.inserts is None
            assert effect.upserts is None
            pin = snapshot.pin(effect.key)
            gone = find_rows(store.open(pin.at), effect.deletes)
            if gone.num_rows:
                at = preview_edit(store, pin.at, RowEdit(None, None, gone))
                previews.append(at)
                left = pin.row_count - gone.num_rows
                tables[effect.key] = pin.changed_to(at.version, left, SYSTEM_CLOCK.new_ulid())
        yield replace(snapshot, tables=tables)
    finally:
        for preview in previews:
            drop_preview(store, preview)
