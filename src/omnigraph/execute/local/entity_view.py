"""The rows of a table by position: dense, in id order, columns loaded when somebody asks.

A position is the rank of an entity's id, so comparing positions is comparing ids: ties, joins and
visited sets are integer work. Several types behind one variable form a union of views.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lance_store.scan import read_row_addresses, read_table
from omnigraph.lance_store.store import Dataset

Positions = npt.NDArray[np.int32]

MISSING = -1

# Above this many keys one hash of the ids beats a binary search per key.
_FEW_KEYS = 64


class EntityView(Protocol):
    """What an executor needs to know of the entities a variable may be bound to."""

    @property
    def count(self) -> int: ...

    @property
    def types(self) -> tuple[str, ...]: ...

    @property
    def all_positions(self) -> Positions:
        """Every position, ascending: the one array that means all, known by identity."""

    @property
    def ids(self) -> pa.Array:
        """By position."""

    @property
    def tables(self) -> tuple[TableView, ...]:
        """What the view is made of."""

    @property
    def ranks(self) -> npt.NDArray[np.int64] | None:
        """Rank of each position's id; None when positions are ranks already."""

    def column(self, name: str) -> pa.Array:
        """One stored column by position."""

    def find(self, ids: pa.Array) -> Positions:
        """Positions of these ids, MISSING where there is none."""

    def type_codes(self, positions: Positions) -> npt.NDArray[np.int64]:
        """Which of `types` each position has."""


class TableView:
    """One table at one version."""

    def __init__(self, type_name: str, dataset: Dataset) -> None:
        self.dataset = dataset
        self._lock = threading.Lock()
        self._columns: dict[str, pa.Array] = {}
        self._codes: dict[str, tuple[npt.NDArray[np.int64], int]] = {}
        self._bytes = 0
        self.types = (type_name,)
        self.ranks = None

    @property
    def bytes_held(self) -> int:
        return self._bytes

    @property
    def tables(self) -> tuple[TableView, ...]:
        return (self,)

    @cached_property
    def plain_columns(self) -> tuple[str, ...]:
        """What an entity shows of itself: everything but blobs and vectors."""
        return tuple(
            field.name
            for field in self.dataset.schema
            if not isinstance(field.type, pa.ExtensionType)
            and not pa.types.is_fixed_size_list(field.type)
        )

    @cached_property
    def count(self) -> int:
        return int(self.dataset.count_rows())

    @cached_property
    def all_positions(self) -> Positions:
        return np.arange(self.count, dtype=np.int32)

    @property
    def ids(self) -> pa.Array:
        return self._sorted_ids[0]

    def column(self, name: str) -> pa.Array:
        if name == "id":
            return self.ids
        with self._lock:
            found = self._columns.get(name)
        if found is None:
            stored = _one_chunk(read_table(self.dataset, [name]).column(name))
            order = self._sorted_ids[1]
            found = stored if order is None else stored.take(order)
            with self._lock:
                self._columns[name] = found
                self._bytes += found.nbytes
        return found

    @cached_property
    def addresses(self) -> npt.NDArray[np.uint64]:
        """Row address by position: how search names rows."""
        stored = read_row_addresses(self.dataset)
        order = self._sorted_ids[1]
        return stored if order is None else stored[order.to_numpy()]

    def codes(self, name: str) -> tuple[npt.NDArray[np.int64], int]:
        """A text column as small integers by position, and how many; 0 and the last are NULL."""
        with self._lock:
            found = self._codes.get(name)
        if found is None:
            encoded = self.column(name).dictionary_encode()
            indices = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
            codes = np.zeros(len(indices) + 1, np.int64)
            codes[:-1] = indices + 1
            found = (codes, len(encoded.dictionary) + 1)
            with self._lock:
                self._codes[name] = found
                self._bytes += codes.nbytes
        return found

    def find(self, ids: pa.Array) -> Positions:
        if len(ids) <= _FEW_KEYS:
            return np.fromiter((self.find_one(i) for i in ids.to_pylist()), np.int32, len(ids))
        found = pc.fill_null(pc.index_in(ids, value_set=self.ids), MISSING)
        return np.asarray(found.to_numpy(zero_copy_only=False), np.int32)

    def type_codes(self, positions: Positions) -> npt.NDArray[np.int64]:
        return np.zeros(len(positions), np.int64)

    @cached_property
    def _sorted_ids(self) -> tuple[pa.Array, pa.Array | None]:
        """(ids ascending, storage row of each; None when they are stored that way)."""
        stored = _one_chunk(read_table(self.dataset, ["id"]).column("id"))
        order = pc.sort_indices(stored)
        in_order = np.array_equal(order.to_numpy(), np.arange(len(stored)))
        ids = stored if in_order else stored.take(order)
        self._bytes += ids.nbytes
        return ids, None if in_order else order

    def find_one(self, wanted: str | None) -> int:
        """By binary search: no hash of all ids is built for a single one."""
        if wanted is None:
            return MISSING
        ids, low, high = self.ids, 0, self.count
        while low < high:
            middle = (low + high) // 2
            found = ids[middle].as_py()
            if found == wanted:
                return middle
            if found < wanted:
                low = middle + 1
            else:
                high = middle
        return MISSING


class UnionView:
    """Several tables end to end: an interface, or several edges at once."""

    def __init__(self, views: Sequence[TableView]) -> None:
        self.tables = tuple(views)
        self.types = tuple(view.types[0] for view in views)
        self.offsets = np.cumsum([0, *(view.count for view in views)])

    @property
    def count(self) -> int:
        return int(self.offsets[-1])

    @cached_property
    def all_positions(self) -> Positions:
        return np.arange(self.count, dtype=np.int32)

    @cached_property
    def ids(self) -> pa.Array:
        return pa.concat_arrays([view.ids for view in self.tables])

    @cached_property
    def ranks(self) -> npt.NDArray[np.int64]:
        order = pc.sort_indices(self.ids).to_numpy()
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        # The same id in two types is a tie on the id: equal ranks, so that the next key decides.
        ids = self.ids.take(pa.array(order))
        if len(ids) > 1:
            same = pc.equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
            ranks[order] = np.cumsum(np.r_[0, ~same])
        return ranks

    def column(self, name: str) -> pa.Array:
        return pa.concat_arrays([view.column(name) for view in self.tables])

    def find(self, ids: pa.Array) -> Positions:
        """The first type that has the id; positions of one type come from its own view."""
        found = np.full(len(ids), MISSING, np.int32)
        for view, offset in zip(self.tables, self.offsets[:-1], strict=True):
            local = view.find(ids)
            hit = (local != MISSING) & (found == MISSING)
            found[hit] = local[hit] + offset
        return found

    def type_codes(self, positions: Positions) -> npt.NDArray[np.int64]:
        return np.searchsorted(self.offsets[1:], positions, side="right")


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return (
            pa.concat_arrays(combined.chunks) if combined.num_chunks else pa.array([], column.type)
        )
    return combined
