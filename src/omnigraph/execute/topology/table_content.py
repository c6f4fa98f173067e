"""The content of a table: ids and columns by position, in id order.

A content is named by the commit that last changed its rows. Compaction and index builds move rows
on disk but do not change the content, and branches that have not written share it. A content is
read from storage, mapped from the cache directory, or derived from an older content and the ids
that commits changed (`PatchedContent`).
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import SnapshotReclaimed, StorageFailure
from omnigraph.execute.topology.builds import build_step
from omnigraph.execute.topology.cache_files import ContentName, StorageOrder, StoredTopology
from omnigraph.execute.topology.edge_ends import IntegerTables, find_ends, in_two_threads
from omnigraph.execute.topology.id_changes import (
    MISSING,
    PositionPatch,
    Positions,
    patched_array,
)
from omnigraph.execute.topology.id_search import IntegerTable, SortedIds, find_integers
from omnigraph.execute.topology.memory_cache import Held, counted
from omnigraph.execute.topology.plain_values import PlainColumn, plain_column
from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS, find_recent_rows, find_rows
from omnigraph.lance_store.reads.scan import (
    bytes_per_row,
    read_batches,
    read_row_addresses,
    read_table,
)
from omnigraph.lance_store.store import Dataset, DatasetVersion
from omnigraph.values.text_order import text_order

Addresses = npt.NDArray[np.uint64]

# The bytes of a content without rows: its objects and its part of the open dataset, as measured.
_EMPTY_BYTES = 3_000

# The bytes of a row while its id is read, sorted and found, without its columns.
_SORTED_ROW_BYTES = 64

# Mapping a file of ids and checking it, against reading and sorting them.
_MAPPED_SHARE = 0.1

# The ends of so many edges are read at once.
_BATCH_ROWS = 1 << 17

# For more rows, or after more reads, a derived column is copied.
_FEW = 2000
_READS_BEFORE_COPY = 200

# One binary search takes 2.5 us, hashing one id 0.09 us.
_HASHED_PER_SEARCH = 28


@dataclass(frozen=True, slots=True)
class ColumnCodes:
    """A text column as numbers: equal texts have equal codes. The last code is that of NULL."""

    codes: npt.NDArray[np.int64]
    """By position. One more entry at the end is NULL: the one at MISSING."""
    count: int
    firsts: npt.NDArray[np.int64]
    """The first position of each code; that of NULL is -1 when the column has none."""

    @property
    def own_bytes(self) -> int:
        return int(self.codes.nbytes + self.firsts.nbytes)


def column_codes(column: pa.Array) -> ColumnCodes:
    encoded = column.dictionary_encode()
    null = len(encoded.dictionary)
    codes = np.full(len(column) + 1, null, np.int64)
    codes[:-1] = pc.fill_null(encoded.indices, null).to_numpy(zero_copy_only=False)
    firsts = np.full(null + 1, -1, np.int64)
    firsts[codes[-2::-1]] = np.arange(len(column))[::-1]
    return ColumnCodes(codes, null + 1, firsts)


class TableContent(Held, ABC):
    """The position of an entity is the rank of its id."""

    def __init__(self, name: ContentName, at: DatasetVersion, dataset: Dataset) -> None:
        self.name = name
        self.at = at
        self.dataset = dataset
        self.lock = self._making = threading.RLock()
        self.columns: dict[str, pa.Array] = {}
        self.wanted: set[str] = set()
        """Columns that queries have read from storage. A build loads them, too."""
        self._codes: dict[str, ColumnCodes] = {}
        self._plain: dict[str, PlainColumn] = {}
        self._moved_to: StoredContent | None = None

    @property
    def unscoped(self) -> TableContent:
        """The content with all rows of the table: this one, unless a rule leaves some out."""
        return self

    @property
    @abstractmethod
    def count(self) -> int: ...

    @property
    @abstractmethod
    def ids(self) -> pa.Array:
        """Ascending."""

    @property
    @abstractmethod
    def is_built(self) -> bool:
        """Whether positions can be found without reading the table. Maps a file of the ids."""

    @property
    @abstractmethod
    def is_loaded(self) -> bool:
        """Whether positions can be found with what is in memory."""

    @property
    def piece(self) -> Hashable:
        """Names what `build` makes."""
        return "content", self.name

    @property
    def build_cost(self) -> float:
        """The cost of `build` in rows that are read and sorted."""
        return float(self.count)

    @cached_property
    def build_bytes(self) -> int:
        """A guess at the memory that `build` takes at most."""
        return self.unscoped.count * (_SORTED_ROW_BYTES + bytes_per_row(self.dataset))

    def build(self) -> None:
        """Load the ids, and the columns that queries have read from storage."""
        _ = self.ids
        for name in sorted(self.wanted):
            build_step()
            self.column(name)

    def want(self, name: str) -> None:
        """A query has read a column from storage."""
        kind = self.dataset.schema.field(name).type
        if not isinstance(kind, pa.ExtensionType) and not pa.types.is_fixed_size_list(kind):
            self.wanted.add(name)

    @property
    def integers(self) -> IntegerTable | None:
        """The ids as numbers; None when they are none, or when another content finds them."""
        return None

    @abstractmethod
    def rank(self, wanted: str) -> tuple[int, bool]:
        """The number of smaller ids, and whether the id exists."""

    @abstractmethod
    def addresses_at(self, dataset: Dataset) -> Addresses:
        """The row address of each position in a version that has this content."""

    @abstractmethod
    def load_column(self, name: str) -> pa.Array: ...

    @property
    @abstractmethod
    def loaded_ids(self) -> pa.Array | None:
        """The ids, if nothing has to be read; else None."""

    def moved(self, at: DatasetVersion, dataset: Dataset, stored: StoredTopology) -> StoredContent:
        """The same rows in another version. Values by position are valid there, too.

        What this content is loading is given to the other one when it is loaded. Both share the
        lock, so it is loaded once. `_moved_to` is set first, so that nothing is missed.
        """
        content = StoredContent(self.name, at, dataset, stored)
        content.lock = content._making = self.lock  # noqa: SLF001 - of the same family
        self._moved_to = content
        content.take(self.loaded_ids, dict(self.columns))
        content._codes = dict(self._codes)  # noqa: SLF001
        content.wanted = set(self.wanted)
        return content

    def _give(self, ids: pa.Array | None, columns: dict[str, pa.Array]) -> None:
        """Give what was loaded to the contents that this one moved to meanwhile."""
        later = self._moved_to
        while later is not None:
            later.take(ids, columns)
            later = later._moved_to  # noqa: SLF001

    def column(self, name: str) -> pa.Array:
        if name == "id":
            return self.ids
        found = self.columns.get(name)
        if found is None:
            with self.lock:
                found = self.columns.get(name)
                if found is None:
                    found = self.columns[name] = self.load_column(name)
                    self._give(None, {name: found})
            self.grown()
        return found

    def has_column(self, name: str) -> bool:
        """Whether a column is in memory."""
        return name == "id" or name in self.columns

    def few_ids(self, positions: Positions) -> pa.Array:
        """The ids at a few positions; NULL at MISSING."""
        return self.ids.take(pa.array(positions, mask=positions == MISSING))

    def few_values(self, name: str, positions: Positions) -> pa.Array | None:
        """A column in memory at a few positions; None when the whole column is as good."""
        return None

    def ends_among(
        self, sources: TableContent, targets: TableContent
    ) -> tuple[Positions, Positions]:
        """For each edge, the positions of the nodes that its two ends name."""
        return in_two_threads(self._find_end, ("src", sources), ("dst", targets), self.count)

    def unordered_ends(
        self, sources: TableContent, targets: TableContent
    ) -> tuple[Positions, Positions]:
        """`ends_among` in any order of the edges, but the same for both ends."""
        return self.ends_among(sources, targets)

    def _find_end(self, end: tuple[str, TableContent]) -> Positions:
        name, nodes = end
        return nodes.find(self.column(name))

    def rows_of(self, ids: pa.Array, columns: Sequence[str]) -> pa.Table:
        """`id` and these columns of the rows with these ids, in any order."""
        return find_rows(self.dataset, ids, columns)

    def shed(self) -> None:
        # Without the lock, because the calling thread may hold the lock of another content.
        # Readers keep the arrays that they have.
        self.columns = {}
        self._codes = {}
        self._plain = {}

    def plain_column(self, name: str) -> PlainColumn | None:
        """A column in memory whose values are plain Python values; else None."""
        found = self._plain.get(name)
        if found is None:
            column = self.column_in_memory(name)
            found = None if column is None else plain_column(column)
            if found is not None:
                self._plain[name] = found
        return found

    def column_in_memory(self, name: str) -> pa.Array | None:
        return self.columns.get(name)

    def codes(self, name: str) -> ColumnCodes:
        """A text column as codes."""
        found = self._codes.get(name)
        if found is None:
            found = self._codes[name] = column_codes(self.column(name))
            self.grown()
        return found

    def find_one(self, wanted: str | None) -> int:
        """By binary search, because hashing all ids does not pay for one."""
        if wanted is None:
            return MISSING
        rank, there = self.rank(wanted)
        return rank if there else MISSING

    def find(self, ids: pa.Array) -> Positions:
        if len(ids) * _HASHED_PER_SEARCH <= self.count:
            return np.fromiter((self.find_one(i) for i in ids.to_pylist()), np.int32, len(ids))
        return self.find_many(ids)

    def find_many(self, ids: pa.Array) -> Positions:
        by_number = find_integers(ids, self.ids)
        if by_number is not None:
            return by_number
        found = pc.fill_null(pc.index_in(ids, value_set=self.ids), MISSING)
        return np.asarray(found.to_numpy(zero_copy_only=False), np.int32)

    @property
    def own_bytes(self) -> int:
        columns = sum(int(column.nbytes) for column in list(self.columns.values()))
        codes = sum(found.own_bytes for found in list(self._codes.values()))
        return _EMPTY_BYTES + columns + codes


class StoredContent(TableContent):
    """A content with ids that were sorted once, or mapped from the cache directory."""

    def __init__(
        self,
        name: ContentName,
        at: DatasetVersion,
        dataset: Dataset,
        stored: StoredTopology,
        ids: pa.Array | None = None,
    ) -> None:
        super().__init__(name, at, dataset)
        self._stored = stored
        self._ids = ids
        self._order: StorageOrder | None = None

    def take(self, ids: pa.Array | None, columns: dict[str, pa.Array]) -> None:
        """Take what a content with the same rows has loaded."""
        if self._ids is None:
            self._ids = ids
        self.columns = {**columns, **self.columns}
        self.grown()

    @cached_property
    def count(self) -> int:
        return int(self.dataset.count_rows())

    @property
    def is_built(self) -> bool:
        if self._ids is None:
            self._ids = self._stored.ids(self.name, self.count)
            if self._ids is not None:
                self.grown()
        return self._ids is not None

    @property
    def is_loaded(self) -> bool:
        return self._ids is not None

    @property
    def build_cost(self) -> float:
        return self.count * (_MAPPED_SHARE if self._stored.has_ids(self.name) else 1.0)

    @property
    def ids(self) -> pa.Array:
        found = self._ids
        if found is None:
            with self.lock:
                found = self._ids
                if found is None:
                    found = self._stored.ids(self.name, self.count)
                if found is None:
                    found = self._sort()
                self._ids = found
                self._give(found, {})
            self.grown()
        return found

    def column_in_memory(self, name: str) -> pa.Array | None:
        return self._ids if name == "id" else self.columns.get(name)

    @property
    def loaded_ids(self) -> pa.Array | None:
        return self._ids

    def rank(self, wanted: str) -> tuple[int, bool]:
        return self._sorted.rank(wanted)

    @counted
    def _sorted(self) -> SortedIds:
        return SortedIds(self.ids)

    @property
    def integers(self) -> IntegerTable | None:
        return IntegerTable.of(self.ids)

    def load_column(self, name: str) -> pa.Array:
        stored = one_chunk(read_table(self.dataset, [name]).column(name))
        order = self.order
        return stored if order is None else stored.take(order)

    def ends_among(
        self, sources: TableContent, targets: TableContent
    ) -> tuple[Positions, Positions]:
        """Reads the columns without keeping them.

        Sorting positions is ten times faster than texts.
        """
        if "src" in self.columns and "dst" in self.columns:
            return super().ends_among(sources, targets)
        first, second = self.unordered_ends(sources, targets)
        order = self.order
        if order is None:
            return first, second
        rows = order.to_numpy()
        return in_two_threads(lambda found: found[rows], first, second, self.count)

    def unordered_ends(
        self, sources: TableContent, targets: TableContent
    ) -> tuple[Positions, Positions]:
        """In the order of storage, so the ids of the edges are not read."""
        found = self._integer_ends(sources, targets)
        if found is not None:
            return found
        build_step()
        rows = read_table(self.dataset, ["src", "dst"])
        build_step()

        def find(end: tuple[str, TableContent]) -> Positions:
            name, nodes = end
            return nodes.find(one_chunk(rows.column(name)))

        return in_two_threads(find, ("src", sources), ("dst", targets), self.count)

    def _integer_ends(
        self, sources: TableContent, targets: TableContent
    ) -> tuple[Positions, Positions] | None:
        """A batch at a time, if the ids of the nodes are integers."""
        if self.count <= _FEW:
            return None

        def tables() -> IntegerTables | None:
            first = sources.integers
            if first is None or targets is sources:
                return None if first is None else (first, first)
            second = targets.integers
            return None if second is None else (first, second)

        batches = read_batches(self.dataset, ["src", "dst"], batch_rows=_BATCH_ROWS)
        return find_ends(batches, tables, self.count)

    def addresses_at(self, dataset: Dataset) -> Addresses:
        addresses = read_row_addresses(dataset)
        if dataset is self.dataset:
            order = self.order
            return addresses if order is None else addresses[order.to_numpy()]
        return by_position(self, dataset, addresses)

    @property
    def order(self) -> pa.Array | None:
        """The storage row of each position; None when rows are stored in id order."""
        found = self._order
        if found is None:
            with self.lock:
                _ = self.ids  # sorting the ids also gives the order
                found = self._order
                if found is None:
                    found = self._order = self._find_order()
            self.grown()
        return found.rows

    @property
    def own_bytes(self) -> int:
        ids, order = self._ids, self._order
        found = super().own_bytes
        if ids is not None:
            found += int(ids.nbytes)
        if order is not None and order.rows is not None:
            found += int(order.rows.nbytes)
        signposts: SortedIds | None = self.__dict__.get("_sorted")
        return found if signposts is None else found + signposts.own_bytes

    def shed(self) -> None:
        super().shed()
        self._ids = self._order = None
        self.__dict__.pop("_sorted", None)

    def _sort(self) -> pa.Array:
        build_step()
        rows = one_chunk(read_table(self.dataset, ["id"]).column("id"))
        order: pa.Array | None = None
        build_step()
        if not is_ascending(rows):
            # Storage rows fit into 32 bits, as positions do.
            order = pa.array(text_order(rows).astype(np.int32))
        build_step()
        ids = rows if order is None else rows.take(order)
        self._order = StorageOrder(order)
        self._stored.keep_ids(self.name, ids)
        self._stored.keep_order(self.name, self.at, len(ids), self._order)
        return ids

    def _find_order(self) -> StorageOrder:
        """For mapped ids: map the order of this version, too, or find each row by its id."""
        build_step()
        known = self._stored.order(self.name, self.at, self.count)
        if known is not None:
            return known
        rows = one_chunk(read_table(self.dataset, ["id"]).column("id"))
        order = np.empty(self.count, np.int32)
        order[self.find(rows)] = np.arange(self.count, dtype=np.int32)
        in_order = bool((np.diff(order) == 1).all())
        found = StorageOrder(None if in_order else pa.array(order))
        self._stored.keep_order(self.name, self.at, self.count, found)
        return found


class PatchedContent(TableContent):
    """Derived from an older content, and equal to the content that a read would give.

    Arrays are copied only when a caller needs a whole one.
    """

    def __init__(
        self,
        name: ContentName,
        at: DatasetVersion,
        dataset: Dataset,
        base: StoredContent,
        patch: PositionPatch,
    ) -> None:
        super().__init__(name, at, dataset)
        self.base = base
        self.patch = patch
        self._changed: dict[str, pa.Array] = {}
        self._few_reads = 0

    @property
    def count(self) -> int:
        return self.patch.new_count

    @property
    def is_built(self) -> bool:
        return True

    @property
    def is_loaded(self) -> bool:
        return self.base.is_loaded

    @property
    def build_cost(self) -> float:
        return self.base.build_cost

    @counted
    def ids(self) -> pa.Array:
        if not self.patch.moves:
            return self.base.ids
        return patched_array(
            self.base.ids, self.patch, self.patch.inserted_ids, self.patch.updated_ids
        )

    @property
    def loaded_ids(self) -> pa.Array | None:
        return None if self.base.loaded_ids is None else self.ids

    def rank(self, wanted: str) -> tuple[int, bool]:
        return self.patch.rank(self.base, wanted)

    def has_column(self, name: str) -> bool:
        return super().has_column(name) or self.base.has_column(name)

    def few_ids(self, positions: Positions) -> pa.Array:
        if "ids" in self.__dict__ or not self.patch.moves:
            return super().few_ids(positions)
        return self._patched(self.base.ids, self._changed_ids, positions)

    def few_values(self, name: str, positions: Positions) -> pa.Array | None:
        """Without a copy of the column, which costs as much as a few hundred such reads."""
        if name in self.columns or name not in self.base.columns or len(positions) > _FEW:
            return None
        self._few_reads += 1
        if self._few_reads > _READS_BEFORE_COPY:
            return None
        old = self.base.columns.get(name)
        if old is None:
            return None
        self._changed_values(name)
        return self._patched(old, self._changed[name], positions)

    def _patched(self, old: pa.Array, changed: pa.Array, positions: Positions) -> pa.Array:
        at = np.searchsorted(self._changed_positions, positions)
        at = np.minimum(at, max(0, len(self._changed_positions) - 1))
        if len(self._changed_positions):
            is_changed = self._changed_positions[at] == positions
        else:
            is_changed = np.zeros(len(positions), bool)
        before = self.patch.back(positions)
        unchanged = old.take(pa.array(before, mask=is_changed | (positions == MISSING)))
        if not is_changed.any():
            return unchanged
        rows = self._changed_rows[at[is_changed]]
        both = pa.concat_arrays([unchanged, changed.take(pa.array(rows))])
        place = np.arange(len(positions))
        place[is_changed] = len(positions) + np.arange(len(rows))
        return both.take(pa.array(place))

    @cached_property
    def _changed_order(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(positions of the changed rows, ascending; the place of each in `_changed_ids`)."""
        places = np.concatenate([self.patch.inserted, self.patch.forward(self.patch.updated)])
        order = np.argsort(places, kind="stable")
        return places[order].astype(np.int64), order

    @property
    def _changed_positions(self) -> npt.NDArray[np.int64]:
        return self._changed_order[0]

    @property
    def _changed_rows(self) -> npt.NDArray[np.int64]:
        return self._changed_order[1]

    def find_many(self, ids: pa.Array) -> Positions:
        old = self.base.find_many(ids)
        known = old != MISSING
        if len(self.patch.deleted):
            known &= ~self.patch.is_deleted(old)
        found = np.full(len(ids), MISSING, np.int32)
        found[known] = self.patch.forward(old[known])
        if len(self.patch.inserted_ids):
            place = pc.index_in(ids, value_set=self.patch.inserted_ids)
            new = place.is_valid().to_numpy(zero_copy_only=False)
            found[new] = self.patch.inserted[place.drop_null().to_numpy()]
        return found

    def load_column(self, name: str) -> pa.Array:
        try:
            old = self.base.column(name)
        except (SnapshotReclaimed, StorageFailure):
            # The version of the base is cleaned up. The version of this content has all rows.
            rows = read_table(self.dataset, ["id", name])
            order = np.empty(self.count, np.int64)
            order[self.find(one_chunk(rows.column("id")))] = np.arange(self.count)
            return one_chunk(rows.column(name)).take(pa.array(order))
        return patched_array(old, self.patch, *self._changed_values(name))

    def addresses_at(self, dataset: Dataset) -> Addresses:
        """Unchanged rows keep their addresses, unless a compaction moved them."""
        stored = read_row_addresses(dataset)
        if dataset is self.dataset:
            try:
                old = self.base.addresses_at(self.base.dataset)
            except (SnapshotReclaimed, StorageFailure):
                return by_position(self, dataset, stored)
            changed = self._changed_values(ROW_ADDRESS)
            placed: Addresses = patched_array(pa.array(old), self.patch, *changed).to_numpy()
            if np.array_equal(np.sort(placed), np.sort(stored)):
                return placed
        return by_position(self, dataset, stored)

    @property
    def own_bytes(self) -> int:
        ids: pa.Array | None = self.__dict__.get("ids") if self.patch.moves else None
        changed = sum(int(column.nbytes) for column in list(self._changed.values()))
        return super().own_bytes + changed + (0 if ids is None else int(ids.nbytes))

    @property
    def parts(self) -> Iterable[Held]:
        return (self.base,)

    def shed(self) -> None:
        super().shed()
        self.__dict__.pop("ids", None)

    def matches_storage(self) -> bool:
        """Whether the recorded rows exist. Reads the values of them that a query needs."""
        known = self.dataset.schema.names
        columns = [c for c in known if c in self.base.columns or c in ("src", "dst")]
        return self._read_changed(columns)

    def rows_of(self, ids: pa.Array, columns: Sequence[str]) -> pa.Table:
        if not all(name in self._changed for name in columns):
            return super().rows_of(ids, columns)
        place = pc.index_in(ids, value_set=self._changed_ids)
        if place.null_count:
            return super().rows_of(ids, columns)
        return pa.table({"id": ids, **{c: self._changed[c].take(place) for c in columns}})

    def changed_rows(self, columns: Sequence[str]) -> pa.Table:
        """These columns of the inserted rows, then of the updated rows, each in id order."""
        self._require_changed([name for name in columns if name != "id"])
        known = {**self._changed, "id": self._changed_ids}
        return pa.table({name: known[name] for name in columns})

    def settled(self, stored: StoredTopology) -> StoredContent:
        """A copy that needs no base, with the columns that are in memory."""
        content = StoredContent(self.name, self.at, self.dataset, stored, self.ids)
        with self.base.lock:
            names = list(self.base.columns)
        content.columns.update({name: self.column(name) for name in names})
        return content

    def _changed_values(self, name: str) -> tuple[pa.Array, pa.Array]:
        """(values of the inserted rows, values of the updated rows), each in id order."""
        self._require_changed([name])
        values, cut = self._changed[name], len(self.patch.inserted_ids)
        return values.slice(0, cut), values.slice(cut)

    def _require_changed(self, columns: Sequence[str]) -> None:
        unread = [name for name in columns if name not in self._changed]
        if unread and not self._read_changed(unread):
            raise StorageFailure(f"{self.at}: rows that a commit recorded are missing")

    @cached_property
    def _changed_ids(self) -> pa.Array:
        return pa.concat_arrays([self.patch.inserted_ids, self.patch.updated_ids])

    def _read_changed(self, columns: Sequence[str]) -> bool:
        ids = self._changed_ids
        rows = find_recent_rows(self.dataset, self.base.dataset, ids, columns)
        place = pc.index_in(ids, value_set=one_chunk(rows.column("id")))
        if place.null_count or rows.num_rows != len(ids):
            return False
        for column in (*columns, ROW_ADDRESS):
            self._changed[column] = one_chunk(rows.column(column)).take(place)
        return True


def by_position(content: TableContent, dataset: Dataset, addresses: Addresses) -> Addresses:
    """Addresses in another version: the ids there give the position of each row."""
    rows = one_chunk(read_table(dataset, ["id"]).column("id"))
    placed = np.empty(content.count, np.uint64)
    placed[content.find(rows)] = addresses
    return placed


def is_ascending(ids: pa.Array) -> bool:
    return len(ids) < 2 or bool(pc.all(pc.less_equal(ids[:-1], ids[1:])).as_py())


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return (
            pa.concat_arrays(combined.chunks) if combined.num_chunks else pa.array([], column.type)
        )
    return combined
