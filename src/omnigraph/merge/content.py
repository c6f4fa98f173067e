"""One side of a merge: a snapshot, or a snapshot with merged rows laid over it.

The second kind is the virtual ancestor of a criss-cross: the best common ancestors merged with each
other. It lives only as long as the merge that needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from omnigraph.diff.entity_rows import (
    same_content,
    tables_by_identity,
)
from omnigraph.diff.id_runs import IdRuns
from omnigraph.diff.table_pairs import ChangedIds, TablePair, differing_tables
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.merge.overlays import Overlay
from omnigraph.merge.table_merge import SideTable

Identity = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Content:
    """What one side holds."""

    snapshot: Snapshot
    overlays: Mapping[Identity, tuple[Overlay, ...]] = field(default_factory=dict)
    """By type, the lowest first."""

    def of(self, identity: Identity) -> SideTable:
        """One type of it."""
        table = tables_by_identity(self.snapshot).get(identity)
        return SideTable(table, tuple(self.overlays.get(identity, ())))

    def has_rows_of(self, other: Content, identity: Identity) -> bool:
        """Both hold the same rows of a type, known without looking at them."""
        mine, yours = self.of(identity), other.of(identity)
        if mine.table is None or yours.table is None or mine.overlays or yours.overlays:
            return False
        return same_content(mine.table.pin, yours.table.pin)


def differing(a: Content, b: Content) -> Iterator[TablePair]:
    """Types whose rows may differ between two sides."""
    pairs = differing_tables(a.snapshot, b.snapshot)
    yield from pairs
    seen = {pair.identity for pair in pairs}
    for identity in {**a.overlays, **b.overlays}:
        tables = a.of(identity).table, b.of(identity).table
        if identity not in seen and any(tables):
            yield TablePair(identity, *tables)


def candidate_ids(changed: ChangedIds, pair: TablePair, sides: tuple[Content, ...]) -> IdRuns:
    """Ids that may differ, overlays included."""
    runs = changed.runs(pair)
    add_overlay_ids(runs, pair.identity, sides)
    return runs


def add_overlay_ids(runs: IdRuns, identity: Identity, sides: tuple[Content, ...]) -> None:
    for side in sides:
        for overlay in side.overlays.get(identity, ()):
            for ids in overlay.ids():
                runs.add(ids)
