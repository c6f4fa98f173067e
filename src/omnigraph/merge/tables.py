"""Merged rows laid over a snapshot: the virtual ancestor of a criss-cross, on disk while it lives.

One file of a type, in the order of ids: what happened to each, which of its columns two ancestors
disagreed about, and its row if it has one. It is mapped, so only what a chunk of ids needs is read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import default_values, table_schema
from omnigraph.catalog.model import ID, EntityType
from omnigraph.diff.differing_ids import DifferingIds, TablePair, differing_tables
from omnigraph.diff.entity_rows import (
    AlignedRows,
    ChunkSize,
    TableAt,
    align,
    common_schema,
    rows_of,
    same_content,
    tables_by_identity,
)
from omnigraph.diff.id_runs import CHUNK_IDS, IdRuns, Scratch
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.merge.decisions import Decisions
from omnigraph.merge.three_way import Disputed, Forced, MergedRows, ThreeSides, merge_rows

_FATE, _DISPUTED = "__fate", "__disputed"
_KEPT, _WRITTEN, _DELETED = range(3)


@dataclass(frozen=True, slots=True)
class Overlay:
    """Rows of one type that differ from what is below, and disputes about others."""

    batches: tuple[pa.RecordBatch, ...]
    first_ids: tuple[str, ...]

    def ids(self) -> Iterator[pa.Array]:
        for batch in self.batches:
            yield batch.column(ID)

    def over(self, below: AlignedRows, ids: pa.Array) -> AlignedRows:
        """The rows of sorted `ids`, `below` being what they are without this."""
        part = self._part(ids)
        if part.num_rows == 0:
            return below
        schema = below.rows.schema
        above = align(part.filter(pc.equal(part.column(_FATE), _WRITTEN)), ids, schema)
        gone = part.filter(pc.equal(part.column(_FATE), _DELETED)).column(ID)
        is_gone = pc.is_in(ids, value_set=gone.combine_chunks()).to_numpy(zero_copy_only=False)
        pick = np.where(above.present, len(ids), 0) + np.arange(len(ids))
        stacked = pa.concat_tables([below.rows, above.rows])
        present = (below.present & ~np.asarray(is_gone)) | above.present
        return AlignedRows(stacked.take(pa.array(pick)), present)

    def disputed(self, ids: pa.Array) -> Disputed:
        part = self._part(ids).select([ID, _DISPUTED])
        part = part.filter(pc.greater(pc.list_value_length(part.column(_DISPUTED)), 0))
        found = zip(part.column(ID).to_pylist(), part.column(_DISPUTED).to_pylist(), strict=True)
        return {entity_id: frozenset(names) for entity_id, names in found}

    def _part(self, ids: pa.Array) -> pa.Table:
        start = max(bisect_right(self.first_ids, ids[0].as_py()) - 1, 0)
        stop = bisect_left(self.first_ids, ids[-1].as_py())
        within = pa.Table.from_batches(
            self.batches[start : max(stop, start) + 1], self.batches[0].schema
        )
        return within.filter(pc.is_in(within.column(ID), value_set=ids))


def write_overlay(
    entity: EntityType, chunks: Iterable[MergedRows], scratch: Scratch
) -> Overlay | None:
    """Chunks in the order of ids; None when they change and dispute nothing."""
    path = str(scratch.new_file(".arrow"))
    own = [pa.field(ID, pa.string()), pa.field(_FATE, pa.int8())]
    own.append(pa.field(_DISPUTED, pa.list_(pa.string())))
    columns = [f.with_nullable(True) for f in table_schema(entity) if f.name != ID]
    schema = pa.schema([*own, *columns])
    first_ids = []
    with pa.ipc.new_file(path, schema) as writer:
        for chunk in chunks:
            for batch in _rows(chunk, schema).to_batches():
                first_ids.append(batch.column(ID)[0].as_py())
                writer.write_batch(batch)
    if not first_ids:
        return None
    reader = pa.ipc.open_file(pa.memory_map(path))
    batches = tuple(reader.get_batch(index) for index in range(reader.num_record_batches))
    return Overlay(batches, tuple(first_ids))


def _rows(chunk: MergedRows, schema: pa.Schema) -> pa.Table:
    written = chunk.written.column(ID).to_pylist()
    touched = {*written, *chunk.deleted.to_pylist()}
    kept = [entity_id for entity_id in chunk.disputed if entity_id not in touched]
    ids = pa.chunked_array([written, chunk.deleted, kept], pa.string())
    fates = [_WRITTEN] * len(written) + [_DELETED] * len(chunk.deleted) + [_KEPT] * len(kept)
    disputed = [sorted(chunk.disputed.get(entity_id, ())) for entity_id in ids.to_pylist()]
    rest = len(ids) - len(written)
    rows = [ids, pa.array(fates, pa.int8()), pa.array(disputed, pa.list_(pa.string()))]
    for column in list(schema)[len(rows) :]:
        values = chunk.written.column(column.name)
        rows.append(pa.chunked_array([*values.chunks, pa.nulls(rest, column.type)], column.type))
    table = pa.table(rows, schema=schema)
    return table.take(pc.sort_indices(table.column(ID))).combine_chunks()


Side = tuple[AlignedRows, TableAt | None]


def completed(side: Side, entity: EntityType, other: Side | None = None) -> AlignedRows:
    """The rows of a side with a value for every property of `entity`."""
    found, table = side
    if table is None or table.entity == entity:
        return found
    defaults, rows = default_values(entity), found.rows
    present = pa.array(found.present)
    for declared in entity.properties:
        if declared.name in table.columns:
            continue
        place = rows.schema.get_field_index(declared.name)
        field = rows.schema.field(place)
        value = pa.scalar(defaults.get(declared.name), field.type)
        column = pc.if_else(present, value, pa.scalar(None, field.type))
        if other is not None and other[1] is not None and declared.name in other[1].columns:
            shared = pa.array(found.present & other[0].present)
            column = pc.if_else(shared, other[0].rows.column(place), column)
        rows = rows.set_column(place, field, column)
    return replace(found, rows=rows)


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


Identity = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SideContent:
    """What one side holds."""

    snapshot: Snapshot
    overlays: Mapping[Identity, tuple[Overlay, ...]] = field(default_factory=dict)
    """By type, the lowest first."""

    def of(self, identity: Identity) -> SideTable:
        """One type of it."""
        table = tables_by_identity(self.snapshot).get(identity)
        return SideTable(table, tuple(self.overlays.get(identity, ())))

    def has_rows_of(self, other: SideContent, identity: Identity) -> bool:
        """Both hold the same rows of a type, known without looking at them."""
        mine, yours = self.of(identity), other.of(identity)
        if mine.table is None or yours.table is None or mine.overlays or yours.overlays:
            return False
        return same_content(mine.table.pin, yours.table.pin)


def differing(a: SideContent, b: SideContent) -> Iterator[TablePair]:
    """Types whose rows may differ between two sides."""
    pairs = differing_tables(a.snapshot, b.snapshot)
    yield from pairs
    seen = {pair.identity for pair in pairs}
    for identity in {**a.overlays, **b.overlays}:
        tables = a.of(identity).table, b.of(identity).table
        if identity not in seen and any(tables):
            yield TablePair(identity, *tables)


def candidate_ids(changed: DifferingIds, pair: TablePair, sides: tuple[SideContent, ...]) -> IdRuns:
    """Ids that may differ, overlays included."""
    runs = changed.runs(pair)
    add_overlay_ids(runs, pair.identity, sides)
    return runs


def add_overlay_ids(runs: IdRuns, identity: Identity, sides: tuple[SideContent, ...]) -> None:
    for side in sides:
        for overlay in side.overlays.get(identity, ()):
            for ids in overlay.ids():
                runs.add(ids)
