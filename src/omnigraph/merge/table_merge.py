"""One type on its way through a merge: its table on three sides, merged a chunk of ids at a time.

Only data: without overlays it can be sent to any process that reaches the storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.catalog.model import EntityType
from omnigraph.diff.chunk_size import ChunkSize
from omnigraph.diff.entity_rows import AlignedRows, TableAt, common_schema, rows_of
from omnigraph.diff.id_runs import CHUNK_IDS, IdRuns
from omnigraph.lance_store.store import Store
from omnigraph.merge.decisions import Decisions
from omnigraph.merge.missing_columns import completed
from omnigraph.merge.overlays import Overlay
from omnigraph.merge.three_way import Disputed, Forced, MergedRows, ThreeSides, merge_rows

CHUNK_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SideTable:
    """One type on one side: what is stored, and what merged ancestors laid over it."""

    table: TableAt | None
    overlays: tuple[Overlay, ...] = ()
    """The lowest first."""

    def rows(
        self, store: Store, ids: pa.Array, schema: pa.Schema, since: TableAt | None = None
    ) -> AlignedRows:
        found = rows_of(store, self.table, ids, schema, since)
        for overlay in self.overlays:
            found = overlay.over(found, ids)
        return found

    def disputed(self, ids: pa.Array) -> Disputed:
        found: dict[str, frozenset[str]] = {}
        for overlay in self.overlays:
            found.update(overlay.disputed(ids))
        return found


@dataclass(frozen=True, slots=True)
class TableMerge:
    """How one type is merged."""

    entity: EntityType
    base: SideTable
    ours: SideTable
    theirs: SideTable
    forced: Forced
    untouched: bool
    """Ours has the rows of the base, known without looking at them."""
    whole: bool
    """All rows are written anew, with other columns."""

    @property
    def is_stored(self) -> bool:
        """Every side is in the storage, and nowhere else."""
        return not any(side.overlays for side in (self.base, self.ours, self.theirs))

    def chunks(
        self, store: Store, ids: IdRuns, decisions: Decisions | None
    ) -> Iterator[MergedRows]:
        """What becomes of the rows of `ids`, in the order of ids."""
        tables = [side.table for side in (self.base, self.ours, self.theirs)]
        schema = common_schema(*(t.entity if t else None for t in tables), self.entity)
        size = ChunkSize(store, tables, CHUNK_BYTES, CHUNK_IDS)
        for some in ids.chunks(size=size):
            base = self.base.rows(store, some, schema)
            ours = base if self.untouched else self.ours.rows(store, some, schema)
            theirs = self.theirs.rows(store, some, schema, since=tables[0])
            size.learn(base, ours, theirs)
            three = ThreeSides(
                self.entity,
                some,
                completed((base, tables[0]), self.entity),
                completed((ours, tables[1]), self.entity, (theirs, tables[2])),
                completed((theirs, tables[2]), self.entity, (ours, tables[1])),
                self.base.disputed(some),
                self.whole,
            )
            yield merge_rows(three, decisions, self.forced)
