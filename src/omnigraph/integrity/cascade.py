"""Deleting a node deletes its edges: the change set gets further deletes."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType
from omnigraph.integrity.rules import edges_touching
from omnigraph.integrity.stored_image import NO_IDS, StoredImage, deltas_of
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import EntityKind, TableKey, node_table
from omnigraph.writes.changeset import ChangeSet, EditRows, Effect, Located


def with_cascades(snapshot: Snapshot, store: Store, changes: ChangeSet) -> ChangeSet:
    """The change set plus the deletion of every stored edge that starts or ends at a deleted node.

    An edge that the change set writes is kept: validation then checks its ends.
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
        gone = _incident(image, edge, deleted)
        if gone.num_rows:
            effects[edge.table_key] = _delete_more(effects.get(edge.table_key), edge, gone)
    return replace(changes, effects=tuple(effects.values()))


def _incident(image: StoredImage, edge: EdgeType, deleted: dict[TableKey, pa.Array]) -> pa.Table:
    """Row ids and addresses of surviving edges that start or end at a deleted node."""
    wanted = {}
    for column, node in ((SOURCE, edge.source), (TARGET, edge.target)):
        ids = deleted.get(node_table(node))
        if ids is not None:
            wanted[column] = ids
    found = image.located(edge.table_key, wanted)
    if pc.count_distinct(found.column(ID)).as_py() == found.num_rows:
        return found
    # A long list is looked up once for each end, so an edge between two deleted nodes comes twice.
    first = pc.unique(found.column(ID))
    return found.take(pc.index_in(first, value_set=found.column(ID)))


def _delete_more(effect: Effect | None, edge: EdgeType, gone: pa.Table) -> EditRows:
    ids = pa.concat_arrays([NO_IDS, *gone.column(ID).chunks])
    if effect is None:
        return EditRows(edge.table_key, deletes=ids, located=Located(deleted=gone))
    assert isinstance(effect, EditRows), "a replaced table has no surviving edges"
    earlier = [] if effect.deletes is None else [effect.deletes]
    known = effect.located.deleted
    located = gone if known is None else pa.concat_tables([known, gone.select(known.column_names)])
    return replace(
        effect,
        deletes=pa.concat_arrays([*earlier, ids]),
        located=replace(effect.located, deleted=located),
    )
