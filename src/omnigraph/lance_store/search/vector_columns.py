"""Vector columns in memory, by fragment, for exact search over any set of rows.

The key of a block is the data file and the deletion file of a fragment, neither of which changes.
All versions and branches that share a fragment therefore share its block.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS
from omnigraph.lance_store.store import Dataset

_BATCH_ROWS = 65_536
# The objects of a block, as measured: a small commit makes a block of little else.
_EMPTY_BLOCK = 1_500
_Key = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class VectorBlock:
    """Rows that have a direction (neither NULL nor zero), ascending by address."""

    rows: np.ndarray[Any, np.dtype[np.uint64]]
    ids: pa.Array
    vectors: np.ndarray[Any, np.dtype[np.float32]]
    inverse_norms: np.ndarray[Any, np.dtype[np.float32]]

    @property
    def nbytes(self) -> int:
        arrays = self.rows.nbytes + self.vectors.nbytes + self.inverse_norms.nbytes
        return int(_EMPTY_BLOCK + arrays + self.ids.nbytes)


class VectorColumns:
    """A bounded cache of blocks; a column that does not fit is streamed from storage instead."""

    def __init__(self, budget_bytes: int = 1 << 30) -> None:
        self._budget = budget_bytes
        self._blocks: OrderedDict[_Key, VectorBlock] = OrderedDict()
        self._used = 0
        self._keys: WeakKeyDictionary[Dataset, dict[str, list[_Key]]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        return self._used

    def fits(self, dataset: Dataset, column: str) -> bool:
        width = dataset.schema.field(column).type.list_size
        return bool(dataset.count_rows() * (width * 4 + 64) <= self._budget)

    def resident(self, dataset: Dataset, column: str) -> list[VectorBlock] | None:
        """All blocks of a column if they are in memory, else None."""
        if not self.fits(dataset, column):
            return None
        keys = self._fragment_keys(dataset, column)
        with self._lock:
            if not all(key in self._blocks for key in keys):
                return None
            return [self._blocks[key] for key in keys]

    def blocks(self, dataset: Dataset, column: str) -> Iterator[VectorBlock]:
        """Every block of the column."""
        if not self.fits(dataset, column):
            yield from _read(dataset, column, None)
            return
        keys = self._fragment_keys(dataset, column)
        with self._lock:
            known = {key: self._blocks[key] for key in keys if key in self._blocks}
            for key in known:
                self._blocks.move_to_end(key)
        missing = {key[0]: key for key in keys if key not in known}
        if missing:
            known.update(self._load(dataset, column, missing))
        yield from (known[key] for key in keys)

    def _load(
        self, dataset: Dataset, column: str, missing: dict[int, _Key]
    ) -> dict[_Key, VectorBlock]:
        fragments = [f for f in dataset.get_fragments() if f.fragment_id in missing]
        parts: dict[int, list[VectorBlock]] = {fragment: [] for fragment in missing}
        for block in _read(dataset, column, fragments):
            for fragment, piece in _by_fragment(block):
                parts[fragment].append(piece)
        width = dataset.schema.field(column).type.list_size
        loaded = {missing[f]: _joined(pieces, width) for f, pieces in parts.items()}
        with self._lock:
            for key, block in loaded.items():
                self._keep(key, block)
        return loaded

    def _keep(self, key: _Key, block: VectorBlock) -> None:
        if key in self._blocks:
            return
        self._blocks[key] = block
        self._used += block.nbytes
        while self._used > self._budget:
            _, dropped = self._blocks.popitem(last=False)
            self._used -= dropped.nbytes

    def _fragment_keys(self, dataset: Dataset, column: str) -> list[_Key]:
        """Kept for each open version, because listing thousands of fragments is slow."""
        with self._lock:
            of_version = self._keys.setdefault(dataset, {})
        keys = of_version.get(column)
        if keys is None:
            field = next(f.id() for f in dataset.lance_schema.fields() if f.name() == column)
            keys = [_key(f.metadata, field) for f in dataset.get_fragments()]
            of_version[column] = keys
        return keys


def _key(fragment: Any, field: int) -> _Key:
    # No file has a column that was added without values.
    file = next((f.path for f in fragment.files if field in f.fields), None)
    # Its text has no id, so two deletion files of as many rows would be the same.
    deletion = fragment.deletion_file
    return fragment.id, f"{file}#{field}", deletion.path(fragment.id) if deletion else ""


def _read(dataset: Dataset, column: str, fragments: list[Any] | None) -> Iterator[VectorBlock]:
    scanner = dataset.scanner(
        columns=["id", column],
        with_row_address=True,
        fragments=fragments,
        batch_size=_BATCH_ROWS,
    )
    for batch in scanner.to_batches():
        yield block_of(batch.column(ROW_ADDRESS), batch.column("id"), batch.column(column))


def block_of(rows: pa.Array, ids: pa.Array, vectors: pa.Array) -> VectorBlock:
    """The rows that have a direction."""
    width = vectors.type.list_size
    valid = vectors.is_valid().to_numpy(zero_copy_only=False)
    flat = vectors.drop_null().flatten().to_numpy(zero_copy_only=False)
    matrix = np.asarray(flat, dtype=np.float32).reshape(-1, width)
    norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
    directed = norms > 0
    positions = np.flatnonzero(valid)[directed]
    return VectorBlock(
        rows=rows.to_numpy(zero_copy_only=False)[positions],
        ids=ids.take(pa.array(positions)),
        vectors=matrix[directed],
        inverse_norms=(1.0 / norms[directed]).astype(np.float32),
    )


def _by_fragment(block: VectorBlock) -> Iterator[tuple[int, VectorBlock]]:
    fragments = (block.rows >> np.uint64(32)).astype(np.int64)
    starts = np.flatnonzero(np.diff(fragments, prepend=-1))
    for start, stop in pairwise([*starts, len(fragments)]):
        cut = slice(int(start), int(stop))
        yield (
            int(fragments[start]),
            VectorBlock(
                block.rows[cut],
                block.ids[cut],
                block.vectors[cut],
                block.inverse_norms[cut],
            ),
        )


def _joined(pieces: list[VectorBlock], width: int) -> VectorBlock:
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        rows = np.empty(0, dtype=np.uint64)
        norms = np.empty(0, dtype=np.float32)
        vectors = np.empty((0, width), dtype=np.float32)
        return VectorBlock(rows, pa.array([], pa.string()), vectors, norms)
    return VectorBlock(
        np.concatenate([p.rows for p in pieces]),
        pa.concat_arrays([p.ids for p in pieces]),
        np.concatenate([p.vectors for p in pieces]),
        np.concatenate([p.inverse_norms for p in pieces]),
    )
