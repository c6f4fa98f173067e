"""The rows of a table by position: dense, in id order, columns loaded when somebody asks.

A position is the rank of an entity's id, so comparing positions is comparing ids: ties, joins and
visited sets are integer work. Several types behind one variable form a union of views.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execute.topology.id_changes import MISSING, Positions
from omnigraph.execute.topology.memory_cache import Held, counted
from omnigraph.execute.topology.table_content import Addresses, TableContent, one_chunk
from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS, find_rows
from omnigraph.lance_store.search.vector_columns import VectorColumns
from omnigraph.lance_store.store import Dataset

# The objects of a view, as measured.
_EMPTY_BYTES = 500


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


class TableView(Held):
    """One table at one version: its content, and where the rows are in that version."""

    def __init__(
        self, type_name: str, dataset: Dataset, content: TableContent, vectors: VectorColumns
    ) -> None:
        self.dataset = dataset
        self.content = content
        self.vectors = vectors
        self.types = (type_name,)
        self.ranks = None
        self.uncovered: dict[str, int] = {}
        """Columns that were asked about: how many rows their index does not have."""

    @property
    def is_built(self) -> bool:
        """Positions can be asked for without reading the table."""
        return self.content.is_built

    @property
    def own_bytes(self) -> int:
        made = (self.__dict__.get(name) for name in ("addresses", "all_positions"))
        return _EMPTY_BYTES + sum(int(array.nbytes) for array in made if array is not None)

    @property
    def parts(self) -> Iterable[Held]:
        return (self.content,)

    def shed(self) -> None:
        # `all_positions` stays: operators of a query that runs compare with that very array.
        self.__dict__.pop("addresses", None)

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

    @property
    def count(self) -> int:
        return self.content.count

    @counted
    def all_positions(self) -> Positions:
        return np.arange(self.count, dtype=np.int32)

    @property
    def ids(self) -> pa.Array:
        return self.content.ids

    def column(self, name: str) -> pa.Array:
        return self.content.column(name)

    @counted
    def addresses(self) -> Addresses:
        """Row address by position: how search names rows."""
        return self.content.addresses_at(self.dataset)

    def codes(self, name: str) -> tuple[npt.NDArray[np.int64], int]:
        """A text column as small integers by position, and how many; 0 and the last are NULL."""
        return self.content.codes(name)

    def find(self, ids: pa.Array) -> Positions:
        return self.content.find(ids)

    def find_one(self, wanted: str | None) -> int:
        return self.content.find_one(wanted)

    def type_codes(self, positions: Positions) -> npt.NDArray[np.int64]:
        return np.zeros(len(positions), np.int64)


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


class PartialContent(TableContent):
    """The rows in hand, ascending by id."""

    def __init__(self, whole: TableContent, dataset: Dataset, rows: pa.Table) -> None:
        super().__init__(whole.name, whole.at, dataset)
        self._rows = rows.sort_by("id")
        self._names: list[str] = self._rows.column("id").to_pylist()

    @property
    def count(self) -> int:
        return len(self._names)

    @property
    def ids(self) -> pa.Array:
        return one_chunk(self._rows.column("id"))

    @property
    def is_built(self) -> bool:
        return True

    @property
    def loaded_ids(self) -> pa.Array:
        return self.ids

    def rank(self, wanted: str) -> tuple[int, bool]:
        at = bisect_left(self._names, wanted)
        return at, at < len(self._names) and self._names[at] == wanted

    def load_column(self, name: str) -> pa.Array:
        if name in self._rows.column_names:
            return one_chunk(self._rows.column(name))
        found = find_rows(self.dataset, self.ids, [] if name == ROW_ADDRESS else [name])
        place = pc.index_in(self.ids, value_set=one_chunk(found.column("id")))
        return one_chunk(found.column(name)).take(place)

    def addresses_at(self, dataset: Dataset) -> Addresses:
        assert dataset is self.dataset
        addresses: Addresses = self.load_column(ROW_ADDRESS).to_numpy()
        return addresses


class PartialView(TableView):
    """Some rows of `whole`."""

    def __init__(self, whole: TableView, rows: pa.Table) -> None:
        content = PartialContent(whole.content, whole.dataset, rows)
        super().__init__(whole.types[0], whole.dataset, content, whole.vectors)
        self.whole = whole
        self.width = rows.num_columns

    def in_whole(self, positions: Positions) -> Positions:
        place = np.append(self.whole.find(self.ids), np.int32(MISSING))
        settled: Positions = place[positions]
        return settled
