"""Merge contents table by table, and build the ancestor a merge is made against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.catalog.model import EntityType
from omnigraph.diff.chunk_size import ChunkSize
from omnigraph.diff.entity_rows import common_schema
from omnigraph.diff.id_runs import CHUNK_IDS, IdRuns, Scratch
from omnigraph.diff.table_pairs import ChangedIds, TablePair
from omnigraph.errors import SchemaRefused
from omnigraph.lance_store.reads.scan import id_batches
from omnigraph.lance_store.store import Store
from omnigraph.manifest.ancestry import best_common_ancestors, require_common
from omnigraph.manifest.lineage import Lineage
from omnigraph.merge.catalogs import MergedCatalog, merge_catalogs
from omnigraph.merge.content import Content, Identity, candidate_ids, differing
from omnigraph.merge.decisions import Decisions
from omnigraph.merge.missing_columns import completed
from omnigraph.merge.overlays import write_overlay
from omnigraph.merge.three_way import Forced, MergedRows, ThreeSides, merge_rows
from omnigraph.values.identifiers import TableKey

NOTHING_FORCED = Forced()

CHUNK_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sides:
    """The three contents of a merge."""

    base: Content
    ours: Content
    theirs: Content

    @property
    def all(self) -> tuple[Content, Content, Content]:
        return self.base, self.ours, self.theirs


@dataclass(frozen=True, slots=True)
class _TablePlan:
    """How one type is merged: which ids to look at, and whether all rows are written anew."""

    identity: Identity
    entity: EntityType
    runs: IdRuns
    whole: bool


class Merger:
    """Merges whatever the commit graph can show, in chunks of ids."""

    def __init__(self, store: Store, lineage: Lineage, scratch: Scratch) -> None:
        self._store = store
        self._lineage = lineage
        self._scratch = scratch

    def ancestor(self, ours: str, theirs: str) -> Content:
        """The best common ancestor; after a criss-cross the ancestors merged with each other."""
        return self._ancestor((ours,), theirs)

    def _ancestor(self, ours: tuple[str, ...], theirs: str) -> Content:
        """Of `theirs` and a merge of all of `ours`, which may never have been committed."""
        first, *others = require_common(
            best_common_ancestors(self._lineage, ours, theirs), ours[0], theirs
        )
        content = Content(self._lineage.snapshot(first))
        for position, other in enumerate(others):
            base = self._ancestor((first, *others[:position]), other)
            sides = Sides(base, content, Content(self._lineage.snapshot(other)))
            content = self._merged_ancestors(sides)
        return content

    def merge(
        self,
        sides: Sides,
        catalog: MergedCatalog,
        decisions: Decisions | None,
        forced: Mapping[TableKey, Forced],
    ) -> Iterator[tuple[EntityType, Iterator[MergedRows]]]:
        """Per type that theirs changed since the base: its merged chunks in id order."""
        by_identity = {identity_of(e): e for e in catalog.catalog.entity_types()}
        reshaped = {identity_of(e) for e in catalog.reshaped}
        base, theirs = sides.base.snapshot, sides.theirs.snapshot
        changed = ChangedIds(self._store, self._lineage, base, theirs, self._scratch)
        pairs = {pair.identity: pair for pair in differing(sides.base, sides.theirs)}
        for identity, entity in by_identity.items():
            concerned = entity.table_key in forced or identity in reshaped
            if concerned and identity not in pairs:
                pairs[identity] = TablePair(
                    identity, sides.base.table(identity), sides.theirs.table(identity)
                )
        for identity, pair in pairs.items():
            known = by_identity.get(identity)
            if known is not None:
                settled = forced.get(known.table_key, NOTHING_FORCED)
                runs = candidate_ids(changed, pair, sides.all)
                runs.add(pa.array(settled.ids, pa.string()))
                plan = _TablePlan(identity, known, runs, identity in reshaped)
                yield known, self._chunks(plan, sides, decisions, settled)

    def _chunks(
        self, plan: _TablePlan, sides: Sides, decisions: Decisions | None, forced: Forced
    ) -> Iterator[MergedRows]:
        identity, entity, runs = plan.identity, plan.entity, plan.runs
        tables = [side.table(identity) for side in sides.all]
        schema = common_schema(*(t.entity if t else None for t in tables), entity)
        if plan.whole and tables[1] is not None:
            for ids in id_batches(self._store.open(tables[1].pin.at)):
                runs.add(ids)
        untouched = sides.ours.has_rows_of(sides.base, identity)
        size = ChunkSize(self._store, tables, CHUNK_BYTES, CHUNK_IDS)
        for ids in runs.chunks(size=size):
            base = sides.base.rows(self._store, identity, ids, schema)
            ours = base if untouched else sides.ours.rows(self._store, identity, ids, schema)
            theirs = sides.theirs.rows(self._store, identity, ids, schema, since=tables[0])
            size.learn(base, ours, theirs)
            three = ThreeSides(
                entity,
                ids,
                completed((base, tables[0]), entity),
                completed((ours, tables[1]), entity, (theirs, tables[2])),
                completed((theirs, tables[2]), entity, (ours, tables[1])),
                sides.base.disputed(identity, ids),
                plan.whole,
            )
            yield merge_rows(three, decisions, forced)

    def _merged_ancestors(self, sides: Sides) -> Content:
        catalogs = [side.snapshot.catalog for side in sides.all]
        try:
            catalog = MergedCatalog(merge_catalogs(*catalogs).catalog)
        except SchemaRefused:
            catalog = MergedCatalog(catalogs[1])
        overlays = dict(sides.ours.overlays)
        for entity, chunks in self.merge(sides, catalog, None, {}):
            overlay = write_overlay(entity, chunks, self._scratch)
            if overlay is not None:
                identity = identity_of(entity)
                overlays[identity] = (*overlays.get(identity, ()), overlay)
        return Content(sides.ours.snapshot, overlays)


def identity_of(entity: EntityType) -> Identity:
    return entity.table_key.kind.value, entity.identity
