"""Which rows of a large input are stored already, and which of those differ: one pass over a table.

The input stays on local disk, mapped; in memory are its ids and a batch of the stored rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID
from omnigraph.lance_store.reads.scan import read_batches
from omnigraph.lance_store.store import Dataset
from omnigraph.writes.row_compare import Mask, differing_rows

_BATCH_BYTES = 256 * 1024 * 1024
_SMALLEST_BATCH = 8 * 1024
_LARGEST_BATCH = 1024 * 1024
"""Rows; the ids of the input are hashed once for every batch, so few and large ones are best."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of every input row: is its id stored, and is what is stored something else?"""

    exists: Mask
    differs: Mask


def compare_with_stored(
    dataset: Dataset, rows: pa.Table, ids: pa.Array, columns: Sequence[str]
) -> Comparison:
    """`ids` are those of `rows`, distinct, NULL for rows that are to be passed over."""
    found = Comparison(np.zeros(len(ids), bool), np.zeros(len(ids), bool))
    given = _Rows(rows.select(list(columns)))
    size = rows.nbytes // max(rows.num_rows, 1) + 1
    batch_rows = min(max(_BATCH_BYTES // size, _SMALLEST_BATCH), _LARGEST_BATCH)
    for batch in read_batches(dataset, columns, batch_rows=batch_rows):
        position = pc.index_in(batch.column(ID), value_set=ids)
        if position.null_count == len(position):
            continue
        stored = pa.Table.from_batches([batch])
        if position.null_count:
            stored, position = stored.filter(position.is_valid()), position.drop_null()
        order = pc.sort_indices(position)
        at = position.take(order).to_numpy()
        found.exists[at] = True
        found.differs[at] = differing_rows(stored.take(order), given.take(at))
    return found


class _Rows:
    """Rows of many batches by position; Arrow would put the batches together each time."""

    def __init__(self, rows: pa.Table) -> None:
        self._batches = rows.to_batches()
        self._schema = rows.schema
        self._starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)])

    def take(self, ascending: npt.NDArray[np.int32]) -> pa.Table:
        cuts = np.searchsorted(ascending, self._starts)
        parts = [
            batch.take(pa.array(ascending[cuts[n] : cuts[n + 1]] - self._starts[n]))
            for n, batch in enumerate(self._batches)
            if cuts[n] < cuts[n + 1]
        ]
        return pa.Table.from_batches(parts, self._schema)
