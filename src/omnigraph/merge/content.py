"""One side of a merge: a snapshot, or a snapshot with merged rows laid over it.

The second kind is the virtual ancestor of a criss-cross: the best common ancestors merged with each
other. It lives only as long as the merge that needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from omnigraph.diff.entity_rows import (
    AlignedRows,
    TableAt,
    rows_of,
    same_content,
    tables_by_identity,
)
from omnigraph.diff.id_runs import IdRuns
from omnigraph.diff.table_pairs import ChangedIds, TablePair, differing_tables
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.merge.overlays import Overlay
from omnigraph.merge.three_way import Disputed

Identity = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Content:
    """What one side holds."""

    snapshot: Snapshot
    overlays: Mapping[Identity, tuple[Overlay, ...]] = field(default_factory=dict)
    """By type, the lowest first."""

    def table(self, identity: Identity) -> TableAt | None:
        return tables_by_identity(self.snapshot).get(identity)

    def disputed(self, identity: Identity, ids: pa.Array) -> Disputed:
        found: dict[str, frozenset[str]] = {}
        for overlay in self.overlays.get(identity, ()):
            found.update(overlay.disputed(ids))
        return found

    def has_rows_of(self, other: Content, identity: Identity) -> bool:
        """Both hold the same rows of a type, known without looking at them."""
        mine, yours = self.table(identity), other.table(identity)
        if mine is None or yours is None or {**self.overlays, **other.overlays}.get(identity):
            return False
        return same_content(mine.pin, yours.pin)

    def rows(
        self,
        store: Store,
        identity: Identity,
        ids: pa.Array,
        schema: pa.Schema,
        since: TableAt | None = None,
    ) -> AlignedRows:
        found = rows_of(store, self.table(identity), ids, schema, since)
        for overlay in self.overlays.get(identity, ()):
            found = overlay.over(found, ids)
        return found


def differing(a: Content, b: Content) -> Iterator[TablePair]:
    """Types whose rows may differ between two sides."""
    pairs = differing_tables(a.snapshot, b.snapshot)
    yield from pairs
    seen = {pair.identity for pair in pairs}
    for identity in {**a.overlays, **b.overlays}:
        if identity not in seen and (a.table(identity) or b.table(identity)):
            yield TablePair(identity, a.table(identity), b.table(identity))


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
