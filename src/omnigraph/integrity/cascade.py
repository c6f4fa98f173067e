"""Deleting a node deletes its edges: the change set gets further deletes."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType
from omnigraph.integrity.rules import edges_touching
from omnigraph.integrity.stored_image import NO_IDS, StoredImage, deltas_of
from omnigraph.lance_store.reads.row_lookup import find_any
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import EntityKind, TableKey, node_table
from omnigraph.writes.changeset import ChangeSet, EditRows, Effect, Located

# A long list may name many nodes that do not exist, and the search for their edges is then waste.
_MOST_IDS = 100
_threads = ThreadPoolExecutor(4, "edge-search")


class EdgeSearch:
    """Searches for the edges of nodes beside the lookup of the nodes themselves.

    A search begins before it is known which of the nodes exist and are deleted. Its result is used
    if all of them are, and no others. It is right for the snapshot at any time, because the
    versions of a snapshot do not change.
    """

    def __init__(self, snapshot: Snapshot, store: Store) -> None:
        self._snapshot = snapshot
        self._store = store
        self._begun: dict[TableKey, tuple[Mapping[str, pa.Array], Future[pa.Table]]] = {}

    def begin(self, table: TableKey, ids: pa.Array) -> None:
        """Nothing is searched for edges that are deleted themselves."""
        if table.kind is not EntityKind.NODE or len(ids) > _MOST_IDS:
            return
        deleted = {table: pa.array(sorted(ids.to_pylist()), pa.string())}
        for edge in edges_touching(self._snapshot.catalog, table):
            pin = self._snapshot.pin(edge.table_key)
            if pin.row_count:
                wanted = _ends_at(edge, deleted)
                stored = self._store.open(pin.at)
                found = _threads.submit(find_any, stored, wanted, [])
                self._begun[edge.table_key] = (wanted, found)

    def found(self, edge: TableKey, wanted: Mapping[str, pa.Array]) -> pa.Table | None:
        """The edges with these ends, if they were searched for; waits for them."""
        sought, found = self._begun.get(edge, (None, None))
        if found is None or sought != wanted:
            return None
        return found.result()


def with_cascades(
    snapshot: Snapshot, store: Store, changes: ChangeSet, search: EdgeSearch | None = None
) -> ChangeSet:
    """The change set plus the deletion of every stored edge that starts or ends at a deleted node.

    An edge that the change set writes is kept: validation then checks its ends. `search` may have
    found edges of this snapshot already.
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
        gone = _incident(image, edge, deleted, search)
        if gone.num_rows:
            effects[edge.table_key] = _delete_more(effects.get(edge.table_key), edge, gone)
    return replace(changes, effects=tuple(effects.values()))


def _incident(
    image: StoredImage,
    edge: EdgeType,
    deleted: Mapping[TableKey, pa.Array],
    search: EdgeSearch | None,
) -> pa.Table:
    """Row ids and addresses of surviving edges that start or end at a deleted node."""
    wanted = _ends_at(edge, deleted)
    stored = None if search is None else search.found(edge.table_key, wanted)
    found = image.located(edge.table_key, wanted, stored)
    if pc.count_distinct(found.column(ID)).as_py() == found.num_rows:
        return found
    # A long list is looked up once for each end, so an edge between two deleted nodes comes twice.
    first = pc.unique(found.column(ID))
    return found.take(pc.index_in(first, value_set=found.column(ID)))


def _ends_at(edge: EdgeType, deleted: Mapping[TableKey, pa.Array]) -> dict[str, pa.Array]:
    """The deleted nodes that an edge of this type may have, by the column of the end."""
    ends = ((SOURCE, node_table(edge.source)), (TARGET, node_table(edge.target)))
    return {column: deleted[node] for column, node in ends if node in deleted}


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
