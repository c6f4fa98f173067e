"""A few rows of a large type straight from storage, while the type is not in memory."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execute.local.entity_view import EntityView, Positions, TableView
from omnigraph.execute.local.expressions import Evaluator
from omnigraph.ir import expressions as ex
from omnigraph.lance_store.row_filter import condition, one_of, read_where
from omnigraph.plan.physical import ColdRead, Find
from omnigraph.values.canonical import canonical_text
from omnigraph.values.scalars import INTEGER_BOUNDS, ScalarType

# Smaller types are in memory in no time.
_SMALL = 20_000
# More names than this are found faster by one pass.
_MANY_NAMES = 1000
# What reads from storage cost, in rows that a build would read; together they pay for the build.
_LOOKUP_COST = 2_000
_SCAN_SHARE = 0.1


class ColdReads:
    """What has been spent on reading each table from storage; at some point a build is cheaper."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent: dict[str, float] = {}

    def worthwhile(self, table: str, rows: int, *, named: bool) -> bool:
        cost = _LOOKUP_COST if named else rows * _SCAN_SHARE
        with self._lock:
            spent = self._spent.get(table, 0.0) + cost
            self._spent[table] = spent
        return spent <= rows


class RowsView:
    """Rows that were read for one query, by id; positions count these rows alone."""

    ranks = None

    def __init__(self, type_name: str, rows: pa.Table) -> None:
        self.types = (type_name,)
        combined = rows.combine_chunks()
        self._rows = combined.take(pc.sort_indices(combined.column("id")))
        self.count = int(rows.num_rows)

    @cached_property
    def all_positions(self) -> Positions:
        return np.arange(self.count, dtype=np.int32)

    @property
    def ids(self) -> pa.Array:
        return self.column("id")

    @property
    def tables(self) -> tuple[TableView, ...]:
        return ()

    def column(self, name: str) -> pa.Array:
        chunks = self._rows.column(name)
        return chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks()

    def find(self, ids: pa.Array) -> Positions:
        found = pc.fill_null(pc.index_in(ids, value_set=self.ids), -1)
        return np.asarray(found.to_numpy(zero_copy_only=False), np.int32)

    def type_codes(self, positions: Positions) -> npt.NDArray[np.int64]:
        return np.zeros(len(positions), np.int64)


def read_rows(
    op: Find, view: EntityView, evaluator: Evaluator, reads: ColdReads
) -> RowsView | None:
    """The rows that may pass, all names answered; None when the type had better be in memory."""
    if op.cold is None or not isinstance(view, TableView) or in_memory(view, op.cold.columns):
        return None
    conditions = _conditions(op, op.cold, evaluator)
    rows = int(view.dataset.count_rows())
    named = op.look_up is not None
    if conditions is None or rows < _SMALL:
        return None
    if not reads.worthwhile(str(view.dataset.uri), rows, named=named):
        return None
    return RowsView(view.types[0], read_where(view.dataset, op.cold.columns, conditions))


def in_memory(view: TableView, columns: Iterable[str]) -> bool:
    content = view.content
    if not content.is_built:
        return False
    loaded = content.columns
    for name in columns:  # noqa: SIM110 - a generator costs more than the lookups
        if name not in loaded and name != "id":
            return False
    return True


def _conditions(op: Find, cold: ColdRead, evaluator: Evaluator) -> list[str] | None:
    """What storage is asked; None when that would not leave few rows."""
    found = []
    for stored, operator, value in cold.conditions:
        assert isinstance(value, ex.Constant | ex.ParameterRef)
        plain = evaluator.plain(value)
        if _judged(plain, stored.type):
            found.append(condition(stored.property, operator, plain))
    if op.look_up is not None:
        names = _names(op, evaluator)
        if not 0 < len(names) <= _MANY_NAMES:
            return None
        found.append(one_of("id", names))
    return found or None


def _names(op: Find, evaluator: Evaluator) -> list[str]:
    look_up = op.look_up
    assert look_up is not None
    assert isinstance(look_up.wanted, ex.Constant | ex.ParameterRef)
    given = evaluator.plain(look_up.wanted)
    values = (given or ()) if look_up.several else (given,)
    return sorted({canonical_text(value) for value in values if value is not None})


def _judged(value: Any, kind: ex.ExpressionType) -> bool:
    """Storage compares it as we do: a text, a day, or an integer the column can hold."""
    if isinstance(value, bool) or value is None:
        return False
    if isinstance(value, int):
        assert isinstance(kind, ScalarType)
        low, high = INTEGER_BOUNDS[kind.kind]
        return low <= value <= min(high, 2**63 - 1)
    return isinstance(value, str) or (
        isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    )
