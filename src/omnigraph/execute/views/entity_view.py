"""The entities that a variable can be bound to, by position.

The position of an entity is the rank of its id in its table. So comparing positions is comparing
ids, and joins and visited sets work on integers. A view is one table (`TableView`), several tables
one after the other (`UnionView`), or a few rows of a large table that is not loaded
(`PartialView`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execute.topology.builds import Builds
from omnigraph.execute.topology.id_changes import MISSING, Positions
from omnigraph.execute.topology.memory_cache import Held, counted
from omnigraph.execute.topology.scoped_states import RowRule, ScopedContent
from omnigraph.execute.topology.table_content import Addresses, ColumnCodes, TableContent, one_chunk
from omnigraph.lance_store.reads.indexes import Uncovered
from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS, ROW_ID, find_rows
from omnigraph.lance_store.reads.scan import read_row_ids
from omnigraph.lance_store.search.vector_columns import VectorColumns
from omnigraph.lance_store.store import Dataset

# The bytes of the objects of a view, as measured.
_EMPTY_BYTES = 500


class EntityView(Protocol):
    """Entities by position."""

    @property
    def count(self) -> int: ...

    @property
    def types(self) -> tuple[str, ...]: ...

    @property
    def all_positions(self) -> Positions:
        """Every position, ascending. Operators recognize this array by its identity."""

    @property
    def ids(self) -> pa.Array:
        """Ids by position."""

    @property
    def tables(self) -> tuple[TableView, ...]:
        """The tables of the view."""

    @property
    def ranks(self) -> npt.NDArray[np.int64] | None:
        """The rank of the id at each position; None when positions are ranks."""

    def column(self, name: str) -> pa.Array:
        """A stored column by position."""

    def find(self, ids: pa.Array) -> Positions:
        """The positions of these ids, MISSING for an unknown id."""

    def type_codes(self, positions: Positions) -> npt.NDArray[np.int64]:
        """The index in `types` of each position."""


class RowIdOrder(NamedTuple):
    """All rows of a dataset, ascending by `_rowid`, and their positions."""

    row_ids: npt.NDArray[np.uint64]
    positions: Positions

    @property
    def nbytes(self) -> int:
        return int(self.row_ids.nbytes + self.positions.nbytes)


class TableView(Held):
    """One table at one version, without rows and columns that are out of scope.

    The dataset has all of them. So what is read from it goes through `PartialView`, or is found
    here by its id.
    """

    def __init__(
        self,
        type_name: str,
        dataset: Dataset,
        content: TableContent,
        vectors: VectorColumns,
        builds: Builds,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        self.dataset = dataset
        self.content = content
        self.vectors = vectors
        self.builds = builds
        self.hidden = hidden
        self.types = (type_name,)
        self.ranks = None
        self.uncovered: dict[str, Uncovered] = {}
        """Column -> what its index does not have."""
        self.searches = 0
        """How many rankings of texts were asked for."""

    @property
    def is_built(self) -> bool:
        """Whether positions can be found without reading the table."""
        return self.content.is_built

    @property
    def own_bytes(self) -> int:
        names = ("addresses", "all_positions", "by_address", "by_row_id")
        made = (self.__dict__.get(name) for name in names)
        return _EMPTY_BYTES + sum(int(array.nbytes) for array in made if array is not None)

    @property
    def parts(self) -> Iterable[Held]:
        return (self.content,)

    def shed(self) -> None:
        # `all_positions` stays, because operators of a running query compare its identity.
        for name in ("addresses", "by_address", "by_row_id"):
            self.__dict__.pop(name, None)

    @property
    def tables(self) -> tuple[TableView, ...]:
        return (self,)

    @property
    def rule(self) -> RowRule | None:
        """The rule about rows that `content` obeys."""
        return self.content.rule if isinstance(self.content, ScopedContent) else None

    @cached_property
    def plain_columns(self) -> tuple[str, ...]:
        """The columns of an entity as a value: all but blobs and vectors."""
        return tuple(
            field.name
            for field in self.dataset.schema
            if field.name not in self.hidden
            and not isinstance(field.type, pa.ExtensionType)
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
        """The row address of each position: search uses addresses."""
        return self.content.addresses_at(self.dataset)

    @counted
    def by_address(self) -> npt.NDArray[np.intp]:
        """Every position, ascending by address."""
        return np.argsort(self.addresses, kind="stable")

    def find_at(self, addresses: Addresses) -> Positions:
        """The positions of rows by their addresses, MISSING for a row that is not in the view."""
        order, stored = self.by_address, self.addresses
        if len(order) == 0:
            return np.full(len(addresses), MISSING, np.int32)
        at = np.searchsorted(stored, addresses, sorter=order)
        found = order[np.minimum(at, len(order) - 1)].astype(np.int32)
        found[stored[found] != addresses] = MISSING
        return found

    @counted
    def by_row_id(self) -> RowIdOrder:
        """Rows ascending by `_rowid`, the name that Lance gives to a row of an index."""
        rows = read_row_ids(self.dataset)
        numbers = rows.column(ROW_ID).to_numpy()
        order = np.argsort(numbers, kind="stable")
        return RowIdOrder(numbers[order], self.find_at(rows.column(ROW_ADDRESS).to_numpy()[order]))

    def codes(self, name: str) -> ColumnCodes:
        """A text column as codes."""
        return self.content.codes(name)

    def find(self, ids: pa.Array) -> Positions:
        return self.content.find(ids)

    def find_one(self, wanted: str | None) -> int:
        return self.content.find_one(wanted)

    def type_codes(self, positions: Positions) -> npt.NDArray[np.int64]:
        return np.zeros(len(positions), np.int64)


class UnionView:
    """Several tables one after the other, for an interface or for several edge types."""

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
        # The same id in two types gets equal ranks, so that the next sort key decides.
        ids = self.ids.take(pa.array(order))
        if len(ids) > 1:
            same = pc.equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
            ranks[order] = np.cumsum(np.r_[0, ~same])
        return ranks

    def column(self, name: str) -> pa.Array:
        return pa.concat_arrays([view.column(name) for view in self.tables])

    def find(self, ids: pa.Array) -> Positions:
        """The position in the first type that has the id."""
        found = np.full(len(ids), MISSING, np.int32)
        for view, offset in zip(self.tables, self.offsets[:-1], strict=True):
            local = view.find(ids)
            hit = (local != MISSING) & (found == MISSING)
            found[hit] = local[hit] + offset
        return found

    def type_codes(self, positions: Positions) -> npt.NDArray[np.int64]:
        return np.searchsorted(self.offsets[1:], positions, side="right")


class PartialContent(TableContent):
    """The rows of a partial view."""

    def __init__(self, whole: TableContent, dataset: Dataset, rows: pa.Table) -> None:
        super().__init__(whole.name, whole.at, dataset)
        self._whole = whole
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
    def is_loaded(self) -> bool:
        return True

    @property
    def loaded_ids(self) -> pa.Array:
        return self.ids

    def rank(self, wanted: str) -> tuple[int, bool]:
        at = bisect_left(self._names, wanted)
        return at, at < len(self._names) and self._names[at] == wanted

    def load_column(self, name: str) -> pa.Array:
        if name != ROW_ADDRESS:
            self._whole.want(name)
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
    """A few rows of a large table, found through an index.

    Positions are ranks among these rows, so they order as ids do within one binding. Before they
    are compared with positions of the whole table, `settled` replaces them.
    """

    def __init__(self, whole: TableView, rows: pa.Table) -> None:
        content = PartialContent(whole.content, whole.dataset, _in_scope(whole, rows))
        super().__init__(
            whole.types[0], whole.dataset, content, whole.vectors, whole.builds, whole.hidden
        )
        self.whole = whole
        self.width = rows.num_columns

    def in_whole(self, positions: Positions) -> Positions:
        place = np.append(self.whole.find(self.ids), np.int32(MISSING))
        settled: Positions = place[positions]
        return settled


def _in_scope(whole: TableView, rows: pa.Table) -> pa.Table:
    """Rows that were read from the dataset, without those that the rule of the view drops."""
    rule = whole.rule
    if rule is None:
        return rows
    missing = [name for name in rule.columns if name not in rows.column_names]
    if missing:
        found = find_rows(whole.dataset, one_chunk(rows.column("id")), missing)
        place = pc.index_in(rows.column("id"), value_set=one_chunk(found.column("id")))
        for name in missing:
            rows = rows.append_column(name, found.column(name).take(place))
    return rows.filter(pa.array(rule.mask(rows)))
