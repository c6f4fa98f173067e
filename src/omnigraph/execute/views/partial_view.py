"""A few rows of a large table, found through an index: a point query needs no view of the rest.

Positions are ranks among these rows, so within one binding they order as the ids do. Whoever
compares them with positions of the whole table asks for `settled` bindings first.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execute.topology.id_changes import MISSING, Positions
from omnigraph.execute.topology.table_content import Addresses, TableContent, one_chunk
from omnigraph.execute.views.entity_view import TableView
from omnigraph.execute.views.frame import Binding, Frame
from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS, find_rows
from omnigraph.lance_store.store import Dataset


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
    def ids_at_hand(self) -> pa.Array:
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


def settled(frame: Frame, *variables: int) -> Frame:
    """The frame with positions of whole tables for these variables."""
    found = frame
    for variable in variables:
        binding = frame.bindings.get(variable)
        if binding is not None and isinstance(binding.view, PartialView):
            positions = binding.view.in_whole(binding.positions)
            whole = Binding(binding.view.whole, positions, binding.optional)
            found = found.bind(variable, whole, *frame.sorted_by)
    return found
