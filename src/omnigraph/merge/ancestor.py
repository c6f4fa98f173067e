"""The common ancestor that a merge compares both sides with.

Two branches that merged each other both ways (a criss-cross) have several best common ancestors.
These are merged with each other first, and the result is the ancestor. It exists only during the
merge, as overlays over one of the snapshots. Where the ancestors disagree, the overlay marks the
columns as disputed: neither side equals the ancestor there.
"""

from __future__ import annotations

from omnigraph.diff.entity_rows import identity_of
from omnigraph.errors import SchemaRefused
from omnigraph.manifest.lineage import best_common_ancestors, require_common
from omnigraph.merge.schemas import MergedCatalog, merge_catalogs
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
    base, ours, theirs = (side.snapshot.catalog for side in sides.all)
    try:
        catalog = MergedCatalog(merge_catalogs(base, ours, theirs).catalog)
    except SchemaRefused:
        catalog = MergedCatalog(ours)
    overlays = dict(sides.ours.overlays)
    for table, ids in tables_to_merge(storage, sides, catalog, forced={}):
        chunks = table.chunks(storage.store, ids, decisions=None)
        overlay = write_overlay(table.entity, chunks, storage.scratch)
        if overlay is not None:
            identity = identity_of(table.entity)
            overlays[identity] = (*overlays.get(identity, ()), overlay)
    return SideContent(sides.ours.snapshot, overlays)
