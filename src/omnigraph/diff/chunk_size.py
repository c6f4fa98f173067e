"""How many ids to look up at once, so that their rows fit in memory however wide they are.

Files say what rows take when compressed; what they take in memory is learned from the first ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.diff.entity_rows import AlignedRows, TableAt
from omnigraph.lance_store.reads.scan import bytes_per_row
from omnigraph.lance_store.store import Store

_FIRST_IDS = 4096
_FEWEST_IDS = 64


class ChunkSize:
    """Asked before every chunk, told of its rows afterwards."""

    def __init__(
        self, store: Store, tables: Iterable[TableAt | None], most_bytes: int, most_ids: int
    ) -> None:
        self._most_bytes = most_bytes
        self._most_ids = most_ids
        known = [table for table in tables if table is not None]
        self._width = max([bytes_per_row(store.open(t.pin.at)) for t in known], default=1)
        self._learned = False

    def __call__(self) -> int:
        most = self._most_ids if self._learned else min(_FIRST_IDS, self._most_ids)
        return max(1, min(most, max(_FEWEST_IDS, self._most_bytes // max(self._width, 1))))

    def learn(self, *sides: AlignedRows) -> None:
        self._learned = True
        for side in sides:
            self._width = max(self._width, side.rows.nbytes // max(side.rows.num_rows, 1))
