"""Deleting a node deletes its edges: as further deletes of the same change set."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.columns import ID, SOURCE, TARGET
from omnigraph.catalog.model import EdgeType
from omnigraph.changes.changeset import ChangeSet
from omnigraph.changes.effects import EditRows, Effect
from omnigraph.integrity.deltas import NO_IDS, deltas_of
from omnigraph.integrity.rules import edges_touching
from omnigraph.integrity.stored_image import StoredImage
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import EntityKind, TableKey


def with_cascades(snapshot: Snapshot, store: Store, changes: ChangeSet) -> ChangeSet:
    """The change set plus the deletion of every stored edge that ends at a deleted node.

    An edge the change set writes anew is left alone: validation judges where it ends then.
    """
    deleted = {
        e.key: e.deletes
        for e in changes.effects
        if isinstance(e, EditRows) and e.key.kind is EntityKind.NODE and e.deletes is not None
    }
    if not deleted:
        return changes
    image = StoredImage(snapshot, store, deltas_of(changes.effects))
    effects: dict[TableKey, Effect] = {effect.key: effect for effect in changes.effects}
    touched = {e.name: e for key in deleted for e in edges_touching(snapshot.catalog, key)}
    for edge in touched.values():
        ids = incident_edges(image, edge, deleted)
        if len(ids):
            effects[edge.table_key] = _delete_more(effects.get(edge.table_key), edge, ids)
    return replace(changes, effects=tuple(effects.values()))


def incident_edges(
    image: StoredImage, edge: EdgeType, deleted: dict[TableKey, pa.Array]
) -> pa.Array:
    """Ids of surviving edges of this type that start or end at one of the deleted nodes."""
    found = [NO_IDS]
    for column, node in ((SOURCE, edge.source), (TARGET, edge.target)):
        ids = deleted.get(TableKey(EntityKind.NODE, node))
        if ids is not None:
            found += image.surviving(edge.table_key, column, ids, [ID]).column(ID).chunks
    return pc.unique(pa.concat_arrays(found))


def _delete_more(effect: Effect | None, edge: EdgeType, ids: pa.Array) -> EditRows:
    if effect is None:
        return EditRows(edge.table_key, deletes=ids)
    assert isinstance(effect, EditRows), "a replaced table has no surviving edges"
    earlier = [] if effect.deletes is None else [effect.deletes]
    return replace(effect, deletes=pa.concat_arrays([*earlier, ids]))
