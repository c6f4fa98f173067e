"""In which ids a merge may differ from its other parent, recorded so that no later walk has to ask.

Where ours still has what the base has, the result is what theirs has. So the result can differ from
theirs only in what ours changed since the base, and in what a broken rule forced.
"""

from __future__ import annotations

import pyarrow as pa

from omnigraph.commit.staging import record_list
from omnigraph.diff.id_runs import IdRuns, Scratch
from omnigraph.diff.table_pairs import ChangedIds, TablePair
from omnigraph.lance_store.store import Store
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.records import TableChanges
from omnigraph.merge.content import Identity, add_overlay_ids, differing
from omnigraph.merge.merger import Sides
from omnigraph.merge.resolve import Merged
from omnigraph.merge.table_output import Output
from omnigraph.settings.models import HistorySettings
from omnigraph.values.clock import Clock
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.change_list import ChangeListWriter, Op


class OtherParent:
    """Records the differences of one merge from the branch it merged."""

    def __init__(
        self,
        store: Store,
        lineage: Lineage,
        scratch: Scratch,
        history: HistorySettings,
        clock: Clock,
    ) -> None:
        self._store = store
        self._lineage = lineage
        self._scratch = scratch
        self._history = history
        self._clock = clock

    def differences(self, merged: Merged[Output]) -> tuple[TableChanges, ...] | None:
        """None when a record is missing: a scan for what nobody may ever ask is not worth it."""
        sides = merged.sides
        base, ours = sides.base.snapshot, sides.ours.snapshot
        changed = ChangedIds(self._store, self._lineage, base, ours, self._scratch)
        pairs = {pair.identity: pair for pair in differing(sides.base, sides.ours)}
        found = []
        for entity in ours.catalog.entity_types():
            key, identity = entity.table_key, (entity.table_key.kind.value, entity.identity)
            if not _in_one_place(sides, identity):
                found.append(TableChanges(key, 0, 0, 0, ids=None))
                continue
            runs = self._changed_by_us(changed, pairs.get(identity))
            if runs is None:
                return None
            add_overlay_ids(runs, identity, sides.all)
            runs.add(pa.array(merged.forced_ids(key), pa.string()))
            listed = self._listed(key, runs)
            if listed.updated:
                found.append(listed)
        return tuple(found)

    def _changed_by_us(self, changed: ChangedIds, pair: TablePair | None) -> IdRuns | None:
        return IdRuns(self._scratch) if pair is None else changed.recorded(pair)

    def _listed(self, key: TableKey, runs: IdRuns) -> TableChanges:
        writer = ChangeListWriter(self._scratch.new_file(".arrow"))
        for ids in runs.chunks():
            writer.add(Op.UPDATE, ids)
        return record_list(key, writer.finish(), self._store, self._history, self._clock)


def _in_one_place(sides: Sides, identity: Identity) -> bool:
    """The rows of a type made twice are in two tables, and ids of one say nothing of the other."""
    tables = [side.of(identity).table for side in sides.all]
    return len({table.pin.location if table else None for table in tables}) == 1
