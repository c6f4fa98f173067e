"""The tables of a merge: what its three sides hold of each type, and which ids have to be merged.

A side is a snapshot. The ancestor of a criss-cross is a snapshot with an `Overlay`: rows that come
from merging several ancestors, in a local file, laid over the stored rows. `TableMerge` holds one
type on all sides and merges it a chunk of ids at a time. Without overlays it is plain data, which
can be sent to any process that reaches the storage.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import default_values, table_schema
from omnigraph.catalog.generated import derived_column
from omnigraph.catalog.model import (
    ID,
    Catalog,
    EntityType,
    GeneratedDefault,
    NodeType,
    default_of,
)
from omnigraph.diff.differing_ids import DifferingIds, TablePair, differing_tables
from omnigraph.diff.entity_rows import (
    AlignedRows,
    ChunkSize,
    TableAt,
    TypeIdentity,
    align,
    common_schema,
    identity_of,
    rows_of,
    same_content,
    tables_by_identity,
)
from omnigraph.diff.id_runs import IdRuns, Scratch
from omnigraph.lance_store.reads.scan import id_batches
from omnigraph.lance_store.store import Store
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.merge.converted_rows import in_one_type, own_types
from omnigraph.merge.decisions import Decisions
from omnigraph.merge.merged_catalog import (
    MergedCatalog,
    translated,
    translated_type,
    translations,
    unify,
)
from omnigraph.merge.three_way import Disputed, Forced, MergedRows, ThreeSides, merge_rows
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.identifiers import TableKey

CHUNK_BYTES = 32 * 1024 * 1024
CHUNK_IDS = 1024 * 1024

_NOTHING_FORCED = Forced()


@dataclass(frozen=True, slots=True)
class MergeStorage:
    """Where a merge reads rows and commits, and where it puts what does not fit in memory."""

    store: Store
    lineage: Lineage
    scratch: Scratch


@dataclass(frozen=True, slots=True)
class SideTable:
    """One type on one side: its table, and the overlays of merged ancestors."""

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
class SideContent:
    """All that one side holds."""

    snapshot: Snapshot
    overlays: Mapping[TypeIdentity, tuple[Overlay, ...]] = field(default_factory=dict)
    """By type, the lowest first."""
    declared: Catalog | None = None
    """The schema of merged ancestors; None: the one of the snapshot."""

    @property
    def catalog(self) -> Catalog:
        return self.snapshot.catalog if self.declared is None else self.declared

    def of(self, identity: TypeIdentity, like: EntityType | None = None) -> SideTable:
        """One type; with `like`, its columns have the names of that declaration."""
        table = tables_by_identity(self.snapshot).get(identity)
        overlays = self.overlays.get(identity, ())
        if like is not None:
            table = table.named_like(like) if table is not None else None
            overlays = tuple(overlay.named_like(like) for overlay in overlays)
        return SideTable(table, tuple(overlays))

    def without(self, identities: Collection[TypeIdentity]) -> SideContent:
        """Without some types."""
        if not identities:
            return self
        return SideContent(
            replace(self.snapshot, catalog=_less(self.snapshot.catalog, identities)),
            {i: found for i, found in self.overlays.items() if i not in identities},
            _less(self.declared, identities) if self.declared is not None else None,
        )

    def has_rows_of(self, other: SideContent, identity: TypeIdentity) -> bool:
        """Both sides hold the same rows of a type, known without reading them."""
        mine, yours = self.of(identity), other.of(identity)
        if mine.table is None or yours.table is None or mine.overlays or yours.overlays:
            return False
        return same_content(mine.table.pin, yours.table.pin)


@dataclass(frozen=True, slots=True)
class Sides:
    """The three sides: *ours* is merged into, *theirs* is merged, *base* is their ancestor."""

    base: SideContent
    ours: SideContent
    theirs: SideContent
    restores: bool = False
    """Theirs is older than the base: what only theirs has was dropped, and its values come back."""

    @property
    def all(self) -> tuple[SideContent, SideContent, SideContent]:
        return self.base, self.ours, self.theirs

    def add_overlay_ids(self, runs: IdRuns, identity: TypeIdentity) -> None:
        for side in self.all:
            for overlay in side.overlays.get(identity, ()):
                for ids in overlay.ids():
                    runs.add(ids)


def unified(sides: Sides) -> Sides:
    """The sides with one identity for what both added under one name (`unify`)."""
    found = unify(*(side.catalog for side in sides.all))
    return Sides(
        _with_catalog(sides.base, found.base),
        _with_catalog(sides.ours, found.ours),
        _with_catalog(sides.theirs, found.theirs),
        sides.restores,
    )


def _with_catalog(side: SideContent, catalog: Catalog) -> SideContent:
    if catalog is side.catalog:
        return side
    known = translations(side.catalog, catalog)
    overlays = {
        (kind, known.get(identity, identity)): tuple(o.translated(known) for o in found)
        for (kind, identity), found in side.overlays.items()
    }
    if side.declared is None:
        return SideContent(replace(side.snapshot, catalog=catalog), overlays)
    stored = translated(side.snapshot.catalog, known)
    return SideContent(replace(side.snapshot, catalog=stored), overlays, catalog)


def _less(catalog: Catalog, identities: Collection[TypeIdentity]) -> Catalog:
    return replace(
        catalog,
        nodes=tuple(n for n in catalog.nodes if identity_of(n) not in identities),
        edges=tuple(e for e in catalog.edges if identity_of(e) not in identities),
    )


def differing_types(a: SideContent, b: SideContent) -> Iterator[TablePair]:
    """Types whose rows may differ between two sides."""
    pairs = differing_tables(a.snapshot, b.snapshot)
    yield from pairs
    seen = {pair.identity for pair in pairs}
    for identity in {**a.overlays, **b.overlays}:
        before, after = a.of(identity).table, b.of(identity).table
        if identity not in seen and (before or after):
            yield TablePair(identity, before, after)


@dataclass(frozen=True, slots=True)
class TableMerge:
    """How one type is merged."""

    entity: EntityType
    base: SideTable
    ours: SideTable
    theirs: SideTable
    forced: Forced
    untouched: bool
    """Ours has the rows of the base, known without reading them."""
    whole: bool
    """All rows are written anew, because their columns change."""
    now_millis: int
    """The `now()` of defaults."""
    returned: frozenset[str] = frozenset()
    """Properties that our rows get from theirs: ours dropped them, and they come back."""
    void_ours: frozenset[str] = frozenset()
    """Properties whose values in ours do not fit any more."""
    void_theirs: frozenset[str] = frozenset()
    completes: bool = False
    """The result is an ancestor: its rows are listed with the columns that ours lacks."""

    @property
    def is_stored(self) -> bool:
        """No side has an overlay, so every process that reaches the storage can merge it."""
        return not any(side.overlays for side in (self.base, self.ours, self.theirs))

    def chunks(
        self, store: Store, ids: IdRuns, decisions: Decisions | None
    ) -> Iterator[MergedRows]:
        """What happens to the rows of `ids`, in the order of ids."""
        base_at, ours_at, theirs_at = self.base.table, self.ours.table, self.theirs.table
        stored = (base_at, ours_at, theirs_at)
        schema = common_schema(*(t.entity if t else None for t in stored), self.entity)
        own = [own_types(schema, self.entity, t.entity if t else None) for t in stored]
        size = ChunkSize(store, stored, CHUNK_BYTES, CHUNK_IDS)
        for some in ids.chunks(size=size):
            ours = self.ours.rows(store, some, own[1])
            base = ours if self._is_base_in_ours else self.base.rows(store, some, own[0])
            theirs = self.theirs.rows(store, some, own[2], since=base_at)
            size.learn(base, ours, theirs)
            declared = tuple(t.entity if t else None for t in stored)
            base, ours, theirs = in_one_type(self.entity, some, declared, (base, ours, theirs))
            base, ours = (_emptied(side, self.void_ours) for side in (base, ours))
            for name in self.void_theirs:
                theirs = _follow(theirs, name, base, ours)
            in_base = _SideRows(base, base_at, has_more=bool(self.base.overlays))
            in_ours = _SideRows(ours, ours_at)
            in_theirs = _SideRows(theirs, theirs_at)
            now = in_ours.completed(self.entity, self.now_millis, in_theirs, in_base)
            three = ThreeSides(
                self.entity,
                some,
                base=self._with_returned(
                    in_base.completed(self.entity, self.now_millis), now, theirs
                ),
                ours=now,
                theirs=in_theirs.completed(self.entity, self.now_millis, in_ours, in_base),
                disputed=self.base.disputed(some),
                whole=self.whole,
                completes=self.completes,
            )
            yield merge_rows(three, decisions, self.forced)

    @property
    def _is_base_in_ours(self) -> bool:
        """Ours has the rows of the base in the same columns, so they are read once."""
        before, now = self.base.table, self.ours.table
        if not self.untouched or before is None or now is None:
            return False
        return replace(before, pin=now.pin) == now

    def _with_returned(
        self, base: AlignedRows, ours: AlignedRows, theirs: AlignedRows
    ) -> AlignedRows:
        """The base, as if ours had never changed what comes back from theirs."""
        rows = base.rows
        for name in self.returned:
            place = rows.schema.get_field_index(name)
            known = self.base.table is not None and name in self.base.table.columns
            gone = (base if known else theirs).rows.column(place)
            column = pc.if_else(pa.array(ours.present), ours.rows.column(place), gone)
            rows = rows.set_column(place, rows.schema.field(place), column)
        return replace(base, rows=rows)


def tables_to_merge(
    storage: MergeStorage, sides: Sides, catalog: MergedCatalog, forced: Mapping[TableKey, Forced]
) -> Iterator[tuple[TableMerge, IdRuns]]:
    """Every type that theirs changed since the base, with the ids to merge."""
    now_millis = SYSTEM_CLOCK.now_micros() // 1000
    by_identity = {identity_of(entity): entity for entity in catalog.catalog.entity_types()}
    reshaped = {identity_of(c.after) for c in catalog.reshaped if c.after}
    changed = DifferingIds(
        storage.store,
        storage.lineage,
        sides.base.snapshot,
        sides.theirs.snapshot,
        storage.scratch,
    )
    pairs = {pair.identity: pair for pair in differing_types(sides.base, sides.theirs)}
    for identity, entity in by_identity.items():
        concerned = entity.table_key in forced or identity in reshaped
        concerned = concerned or bool(_returned(sides, catalog, entity))
        if concerned and identity not in pairs:
            before, after = sides.base.of(identity).table, sides.theirs.of(identity).table
            pairs[identity] = TablePair(identity, before, after)
    for identity, pair in pairs.items():
        known = by_identity.get(identity)
        if known is None:
            continue
        returned = _returned(sides, catalog, known)
        table = TableMerge(
            known,
            base=sides.base.of(identity, known),
            ours=sides.ours.of(identity, known),
            theirs=sides.theirs.of(identity, known),
            forced=forced.get(known.table_key, _NOTHING_FORCED),
            untouched=sides.ours.has_rows_of(sides.base, identity),
            whole=identity in reshaped,
            now_millis=now_millis,
            returned=returned,
            void_ours=_named(known, catalog.void_ours),
            void_theirs=_named(known, catalog.void_theirs),
        )
        ids = changed.runs(pair)
        if returned and pair.after is not None:
            for batch in id_batches(storage.store.open(pair.after.pin.at)):
                ids.add(batch)
        sides.add_overlay_ids(ids, identity)
        ids.add(pa.array(table.forced.ids, pa.string()))
        if table.whole and table.ours.table is not None:
            for batch in id_batches(storage.store.open(table.ours.table.pin.at)):
                ids.add(batch)
        yield table, ids


def _named(entity: EntityType, found: Mapping[TypeIdentity, frozenset[str]]) -> frozenset[str]:
    identities = found.get(identity_of(entity), frozenset())
    return frozenset(p.name for p in entity.properties if p.identity in identities)


def _emptied(side: AlignedRows, names: Iterable[str]) -> AlignedRows:
    """Without the values of some properties."""
    rows = side.rows
    for name in names:
        place = rows.schema.get_field_index(name)
        column = rows.schema.field(place)
        rows = rows.set_column(place, column, pa.nulls(rows.num_rows, column.type))
    return replace(side, rows=rows)


def _follow(side: AlignedRows, name: str, base: AlignedRows, ours: AlignedRows) -> AlignedRows:
    """The values of ours, else of the base; none for rows that only this side has."""
    rows = side.rows
    place = rows.schema.get_field_index(name)
    column = rows.schema.field(place)
    values = pc.if_else(pa.array(ours.present), ours.rows.column(place), base.rows.column(place))
    values = pc.if_else(pa.array(side.present), values, pa.scalar(None, column.type))
    return replace(side, rows=rows.set_column(place, column, values))


def _returned(sides: Sides, catalog: MergedCatalog, entity: EntityType) -> frozenset[str]:
    """Names of properties that come back to our rows from theirs."""
    identity = identity_of(entity)
    found = catalog.returned.get(identity, frozenset())
    base, theirs = sides.base.of(identity).table, sides.theirs.of(identity).table
    if sides.restores and base is not None and theirs is not None:
        # A revert: what theirs has and the base has not was dropped by the reverted commit.
        known = {p.identity for p in base.entity.properties}
        found |= {p.identity for p in theirs.entity.properties if p.identity not in known}
    return frozenset(p.name for p in entity.properties if p.identity in found)


@dataclass(frozen=True, slots=True)
class _SideRows:
    """Some rows of one side, and the table they were read from."""

    rows: AlignedRows
    table: TableAt | None
    has_more: bool = False
    """Overlays of merged ancestors may have values of columns that the table does not have."""

    def completed(
        self,
        entity: EntityType,
        now_millis: int,
        other: _SideRows | None = None,
        base: _SideRows | None = None,
    ) -> AlignedRows:
        """The rows with a value for every property of `entity`.

        Where the table has no column for a property, this side did not change it. A row that
        `other` has too gets the value of `other`, else a row that `base` has gets the value of
        `base`; any other row gets the default of the property.
        A default that writes make is NULL here if the property is nullable. Else it is
        `derived_column`, because all sides of a merge must give the same value to a row.
        """
        if self.table is None or self.table.entity == entity:
            return self.rows
        defaults, rows = default_values(entity), self.rows.rows
        present = pa.array(self.rows.present)
        for declared in entity.properties:
            if declared.name in self.table.columns:
                continue
            place = rows.schema.get_field_index(declared.name)
            stored = rows.schema.field(place)
            value = pa.scalar(defaults.get(declared.name), stored.type)
            default = default_of(declared)
            if isinstance(default, GeneratedDefault) and not declared.nullable:
                value = derived_column(default, declared, stored.type, rows.column(ID), now_millis)
            column = pc.if_else(present, value, pa.scalar(None, stored.type))
            for source in (base, other):
                if source is not None and source.table and declared.name in source.table.columns:
                    shared = pa.array(self.rows.present & source.rows.present)
                    column = pc.if_else(shared, source.rows.rows.column(place), column)
            if self.has_more:
                column = pc.coalesce(rows.column(place), column)
            rows = rows.set_column(place, stored, column)
        return replace(self.rows, rows=rows)


_FATE, _DISPUTED = "__fate", "__disputed"
_KEPT, _WRITTEN, _DELETED = range(3)


@dataclass(frozen=True, slots=True)
class Overlay:
    """Rows of one type that merging two ancestors changed, and the columns they disagree about.

    The rows are in a local file in the order of ids. Each has its fate, the disputed columns and,
    if it was written, its content. The file is mapped, so a chunk of ids reads only its part of it.
    """

    entity: EntityType
    """Declares the columns."""
    batches: tuple[pa.RecordBatch, ...]
    first_ids: tuple[str, ...]
    """The first id of every batch."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of columns in the file -> names for the reader; other columns have their own."""

    def named_like(self, other: EntityType) -> Overlay:
        """The properties that `other` has, too, under the names that they have there."""
        now = {p.identity: p.name for p in other.properties}
        names = {p.name: now.get(p.identity, f"-{p.name}") for p in self.entity.properties}
        return replace(self, names={a: b for a, b in names.items() if a != b})

    def translated(self, known: Mapping[str, str]) -> Overlay:
        """With other identities of its type and properties."""
        if isinstance(self.entity, NodeType):
            return replace(self, entity=translated_type(self.entity, known))
        return replace(self, entity=translated_type(self.entity, known))

    def ids(self) -> Iterator[pa.Array]:
        for batch in self.batches:
            yield batch.column(ID)

    def over(self, below: AlignedRows, ids: pa.Array) -> AlignedRows:
        """The rows of sorted `ids`; `below` are the rows without this overlay."""
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
        return {
            entity_id: frozenset(self.names.get(name, name) for name in names)
            for entity_id, names in found
        }

    def _part(self, ids: pa.Array) -> pa.Table:
        start = max(bisect_right(self.first_ids, ids[0].as_py()) - 1, 0)
        stop = bisect_left(self.first_ids, ids[-1].as_py())
        within = pa.Table.from_batches(
            self.batches[start : max(stop, start) + 1], self.batches[0].schema
        )
        within = within.rename_columns([self.names.get(n, n) for n in within.column_names])
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
            for batch in _overlay_rows(chunk, schema).to_batches():
                first_ids.append(batch.column(ID)[0].as_py())
                writer.write_batch(batch)
    if not first_ids:
        return None
    reader = pa.ipc.open_file(pa.memory_map(path))
    batches = tuple(reader.get_batch(index) for index in range(reader.num_record_batches))
    return Overlay(entity, batches, tuple(first_ids))


def _overlay_rows(chunk: MergedRows, schema: pa.Schema) -> pa.Table:
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
