"""Hashes instead of ids: joins and groups by 64-bit integers, where no operator reads the texts.

Two ids of one type may have one hash. So the ids of every type that a query touches are read and
compared once for each version of its table. Every end of an edge is the id of a node. Where no two
ids share a hash, equal hashes thus mean equal ids, and the answer is exact.

Workers import this module, so it opens no graph.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.lance_store.reads.scan import read_batches
from omnigraph.lance_store.store import Store
from omnigraph.load.proofs import no_row_twice, row_hashes
from omnigraph.values.bounded_cache import BoundedCache

if TYPE_CHECKING:
    from omnigraph.manifest.records import TablePin

# More ids take longer to compare in one process than their texts take to join in many.
_MOST_IDS = 50_000_000
_IDS_PER_BATCH = 256 * 1024

_told_apart: BoundedCache[tuple[str, int, str], bool] = BoundedCache(1024)


def hashes_tell_apart(store: Store, pins: Iterable[TablePin], folder: str | None) -> bool:
    """Whether in each of these tables no two ids have the same hash.

    Many hashes go to files in `folder`.
    """
    return all(_are_distinct(store, pin, folder) for pin in pins)


def _are_distinct(store: Store, pin: TablePin, folder: str | None) -> bool:
    if pin.row_count > _MOST_IDS:
        return False
    key = (store.dataset_uri(pin.location, pin.branch), pin.version, pin.content_epoch)
    known = _told_apart.get(key)
    if known is None:
        batches = read_batches(store.open(pin.at), ["id"], batch_rows=_IDS_PER_BATCH)
        with tempfile.TemporaryDirectory(prefix="omnigraph-spark-", dir=folder) as files:
            known = no_row_twice((pa.Table.from_batches([b]) for b in batches), Path(files))
        _told_apart.put(key, known)
    return known


def with_hashes(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows with hashes in these columns of texts."""
    for name in names:
        hashes = pa.array(hashes_of(rows.column(name)))
        rows = rows.set_column(rows.schema.get_field_index(name), name, hashes)
    return rows


def hashes_of(ids: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    found = row_hashes([ids])
    assert found is not None, "the driver has hashed all ids of this version"
    return found.view(np.int64)
