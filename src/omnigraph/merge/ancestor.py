"""What a merge has to look at, table by table, and the ancestor it is made against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.catalog.model import EntityType
from omnigraph.diff.differing_ids import DifferingIds, TablePair
from omnigraph.diff.id_runs import IdRuns, Scratch
from omnigraph.errors import SchemaRefused
from omnigraph.lance_store.reads.scan import id_batches
from omnigraph.lance_store.store import Store
from omnigraph.manifest.lineage import Lineage, best_common_ancestors, require_common
from omnigraph.merge.schemas import MergedCatalog, merge_catalogs
from omnigraph.merge.tables import (
    Identity,
    SideContent,
    TableMerge,
    candidate_ids,
    differing,
    write_overlay,
)
from omnigraph.merge.three_way import Forced
from omnigraph.values.identifiers import TableKey

NOTHING_FORCED = Forced()


@dataclass(frozen=True, slots=True)
class Sides:
    """The three contents of a merge."""

    base: SideContent
    ours: SideContent
    theirs: SideContent

    @property
    def all(self) -> tuple[SideContent, SideContent, SideContent]:
        return self.base, self.ours, self.theirs


class Merger:
    """Finds what there is to merge between whatever the commit graph can show."""

    def __init__(self, store: Store, lineage: Lineage, scratch: Scratch) -> None:
        self._store = store
        self._lineage = lineage
        self._scratch = scratch

    def ancestor(self, ours: str, theirs: str) -> SideContent:
        """The best common ancestor; after a criss-cross the ancestors merged with each other."""
        return self._ancestor((ours,), theirs)

    def _ancestor(self, ours: tuple[str, ...], theirs: str) -> SideContent:
        """Of `theirs` and a merge of all of `ours`, which may never have been committed."""
        first, *others = require_common(
            best_common_ancestors(self._lineage, ours, theirs), ours[0], theirs
        )
        content = SideContent(self._lineage.snapshot(first))
        for position, other in enumerate(others):
            base = self._ancestor((first, *others[:position]), other)
            sides = Sides(base, content, SideContent(self._lineage.snapshot(other)))
            content = self._merged_ancestors(sides)
        return content

    def tables(
        self, sides: Sides, catalog: MergedCatalog, forced: Mapping[TableKey, Forced]
    ) -> Iterator[tuple[TableMerge, IdRuns]]:
        """Every type that theirs changed since the base, with the ids to look at."""
        by_identity = {identity_of(e): e for e in catalog.catalog.entity_types()}
        reshaped = {identity_of(e) for e in catalog.reshaped}
        base, theirs = sides.base.snapshot, sides.theirs.snapshot
        changed = DifferingIds(self._store, self._lineage, base, theirs, self._scratch)
        pairs = {pair.identity: pair for pair in differing(sides.base, sides.theirs)}
        for identity, entity in by_identity.items():
            concerned = entity.table_key in forced or identity in reshaped
            if concerned and identity not in pairs:
                tables = (side.of(identity).table for side in (sides.base, sides.theirs))
                pairs[identity] = TablePair(identity, *tables)
        for identity, pair in pairs.items():
            known = by_identity.get(identity)
            if known is not None:
                table = TableMerge(
                    known,
                    base=sides.base.of(identity),
                    ours=sides.ours.of(identity),
                    theirs=sides.theirs.of(identity),
                    forced=forced.get(known.table_key, NOTHING_FORCED),
                    untouched=sides.ours.has_rows_of(sides.base, identity),
                    whole=identity in reshaped,
                )
                runs = candidate_ids(changed, pair, sides.all)
                self._add_further(runs, table)
                yield table, runs

    def _add_further(self, runs: IdRuns, table: TableMerge) -> None:
        """Ids that nobody changed and that have to be looked at all the same."""
        runs.add(pa.array(table.forced.ids, pa.string()))
        ours = table.ours.table
        if table.whole and ours is not None:
            for ids in id_batches(self._store.open(ours.pin.at)):
                runs.add(ids)

    def _merged_ancestors(self, sides: Sides) -> SideContent:
        catalogs = [side.snapshot.catalog for side in sides.all]
        try:
            catalog = MergedCatalog(merge_catalogs(*catalogs).catalog)
        except SchemaRefused:
            catalog = MergedCatalog(catalogs[1])
        overlays = dict(sides.ours.overlays)
        for table, ids in self.tables(sides, catalog, {}):
            chunks = table.chunks(self._store, ids, None)
            overlay = write_overlay(table.entity, chunks, self._scratch)
            if overlay is not None:
                identity = identity_of(table.entity)
                overlays[identity] = (*overlays.get(identity, ()), overlay)
        return SideContent(sides.ours.snapshot, overlays)


def identity_of(entity: EntityType) -> Identity:
    return entity.table_key.kind.value, entity.identity
