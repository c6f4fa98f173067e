"""The common ancestor that a merge compares both sides with.

Two branches that merged each other both ways (a criss-cross) have several best common ancestors.
These are merged with each other first, and the result is the ancestor. It exists only during the
merge, as overlays over one of the snapshots. Where the ancestors disagree, the overlay marks the
columns as disputed: neither side equals the ancestor there.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.catalog.model import Catalog
from omnigraph.diff.entity_rows import identity_of
from omnigraph.errors import SchemaRefused
from omnigraph.manifest.lineage import best_common_ancestors, require_common
from omnigraph.merge.decisions import Side, Take
from omnigraph.merge.merged_catalog import MergedCatalog
from omnigraph.merge.tables import (
    MergeStorage,
    SideContent,
    Sides,
    tables_to_merge,
    unified,
    write_overlay,
)


def common_ancestor(storage: MergeStorage, ours: str, theirs: str) -> SideContent:
    """The best common ancestor of two commits; of several, the merge of them."""
    return _ancestor(storage, (ours,), theirs)


def _ancestor(storage: MergeStorage, ours: tuple[str, ...], theirs: str) -> SideContent:
    """The ancestor of `theirs` and of a merge of all of `ours`; that merge is not a commit."""
    lineage = storage.lineage
    found = best_common_ancestors(lineage, ours, theirs)
    first, *others = require_common(found, ours[0], theirs)
    content = SideContent(lineage.snapshot(first))
    for position, other in enumerate(others):
        base = _ancestor(storage, (first, *others[:position]), other)
        content = _merged(storage, Sides(base, content, SideContent(lineage.snapshot(other))))
    return content


def _merged(storage: MergeStorage, sides: Sides) -> SideContent:
    """Ours with overlays of what theirs changed."""
    sides = unified(sides)
    base, ours, theirs = (side.catalog for side in sides.all)
    catalog = MergedCatalog(ours) if ours == theirs else _joined(base, ours, theirs)
    # A table that lacks columns of the joined schema is listed whole: the overlay has them.
    grown = {identity_of(c.after) for c in catalog.adjusted if c.after and c.moves_columns}
    grown |= {identity_of(c.after) for c in catalog.reshaped if c.after}
    overlays = dict(sides.ours.overlays)
    for table, ids in tables_to_merge(storage, sides, catalog, forced={}):
        identity = identity_of(table.entity)
        merge = replace(table, whole=False, completes=identity in grown)
        chunks = merge.chunks(storage.store, ids, decisions=None)
        overlay = write_overlay(table.entity, chunks, storage.scratch)
        if overlay is not None:
            overlays[identity] = (*overlays.get(identity, ()), overlay)
    declared = None if catalog.catalog == sides.ours.snapshot.catalog else catalog.catalog
    return SideContent(sides.ours.snapshot, overlays, declared)


def _joined(base: Catalog, ours: Catalog, theirs: Catalog) -> MergedCatalog:
    """Where the ancestors contradict each other, the schema is that of the first one."""
    from omnigraph.merge.schemas import merge_catalogs

    try:
        return merge_catalogs(base, ours, theirs, decide=lambda _: Take(Side.OURS))
    except SchemaRefused:
        return MergedCatalog(ours)
