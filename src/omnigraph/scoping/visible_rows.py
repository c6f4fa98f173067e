"""The stored rows that a scope shows: the one filter of every operation but queries.

A row is visible if its type is in scope and the predicate of the type is true for it. An edge is
visible only if both of its ends are visible in the same state. Queries have the same rules in their
plans, where they are cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, SOURCE, TARGET
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.reads.scan import read_batches, read_table
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store, VersionAddress
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.conditions import Condition
from omnigraph.values.identifiers import TableKey, node_table

if TYPE_CHECKING:
    from omnigraph.execute.evaluation.expressions import Evaluator
    from omnigraph.ir.data_scope import DataScope
    from omnigraph.ir.expressions import Expression

NO_IDS = pa.array([], pa.string())
_IDS_AT_ONCE = 16 * 1024


@dataclass(frozen=True, slots=True)
class EndRule:
    """The nodes at one end of an edge: where they are stored, and which are visible."""

    column: str
    at: DatasetVersion
    address: VersionAddress
    rows: Expression


@dataclass(frozen=True, slots=True)
class TableRule:
    """Which rows of one table are visible. It pickles, so tasks of Spark can use it."""

    rows: Expression | None
    ends: tuple[EndRule, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The stored columns that `keep` reads."""
        judged: tuple[str, ...] = ()
        if self.rows is not None:
            from omnigraph.execute.evaluation.row_expressions import over_rows

            judged = tuple(over_rows(self.rows).columns)
        return tuple(dict.fromkeys([*judged, *(end.column for end in self.ends)]))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The part of the rule that storage can test, so that fewer rows are read."""
        if self.rows is None:
            return ()
        from omnigraph.ir.storage_conditions import conditions_of

        return conditions_of([self.rows], _evaluator().plain)

    def keep(
        self,
        rows: pa.Table,
        open_end: Callable[[EndRule], Dataset] = lambda end: end.address.open(),
    ) -> pa.Table:
        """The visible rows; `rows` has all of `columns`."""
        if self.rows is not None:
            from omnigraph.execute.evaluation.row_expressions import over_rows, rule_mask

            rows = rows.filter(pa.array(rule_mask(over_rows(self.rows), rows, _evaluator())))
        for end in self.ends:
            if rows.num_rows:
                ids = pc.unique(rows.column(end.column).combine_chunks())
                shown = _visible_ids(open_end(end), ids, TableRule(end.rows))
                rows = rows.filter(pc.is_in(rows.column(end.column), value_set=shown))
        return rows


class VisibleRows:
    """The rows of one snapshot that a scope shows; by default the scope of the snapshot."""

    def __init__(self, store: Store, snapshot: Snapshot, scope: DataScope | None = None) -> None:
        self._store = store
        self._snapshot = snapshot
        self._scope = snapshot.scope if scope is None else scope
        self._rules: dict[TableKey, TableRule] = {}

    def has_type(self, key: TableKey) -> bool:
        """Whether the type is in scope."""
        scope = self._scope
        if scope is None:
            return True
        if key.type_name not in scope.types:
            return False
        return all(end.type_name in scope.types for _, end in self._ends(key))

    def shows_all(self, key: TableKey) -> bool:
        """Whether every row of the type is visible."""
        return self._scope is None or (self.has_type(key) and self.rule(key) == TableRule(None))

    def rule(self, key: TableKey) -> TableRule:
        """The rule about the rows of a type in scope."""
        if self._scope is None:
            return TableRule(None)
        found = self._rules.get(key)
        if found is None:
            found = self._rules[key] = self._make_rule(key, self._scope)
        return found

    def keep(self, key: TableKey, rows: pa.Table) -> pa.Table:
        """Those of these stored rows that are visible; `rows` has all columns of the rule."""
        if not self.has_type(key):
            return rows.slice(0, 0)
        return self.rule(key).keep(rows, self._open)

    def among(self, key: TableKey, ids: pa.Array) -> pa.Array:
        """Those of these ids whose entity is stored and visible."""
        pin = self._snapshot.tables.get(key)
        if pin is None or not self.has_type(key):
            return NO_IDS
        return _visible_ids(self._store.open(pin.at), ids, self.rule(key), self._open)

    def batches(self, key: TableKey, columns: Sequence[str]) -> Iterator[pa.Table]:
        """`columns` of every visible row, a batch at a time."""
        if not self.has_type(key):
            return
        rule = self.rule(key)
        wanted = list(dict.fromkeys([*columns, *rule.columns]))
        dataset = self._store.open(self._snapshot.pin(key).at)
        for batch in read_batches(dataset, wanted, rule.conditions):
            found = self.keep(key, pa.Table.from_batches([batch]))
            yield found.select(list(columns))

    def table(self, key: TableKey, columns: Sequence[str]) -> pa.Table:
        """`columns` of every visible row."""
        dataset = self._store.open(self._snapshot.pin(key).at)
        if self.shows_all(key):
            return read_table(dataset, columns)
        empty = find_rows(dataset, NO_IDS, columns).select(list(columns))
        return pa.concat_tables([empty, *self.batches(key, columns)])

    def find(self, key: TableKey, ids: pa.Array, columns: Sequence[str]) -> pa.Table:
        """`columns` of the visible rows with these ids."""
        dataset = self._store.open(self._snapshot.pin(key).at)
        wanted = list(dict.fromkeys([*columns, *self.rule(key).columns]))
        return self.keep(key, find_rows(dataset, ids, wanted)).select(list(columns))

    def count(self, key: TableKey) -> int:
        """The number of visible rows."""
        if self.shows_all(key):
            return self._snapshot.pin(key).row_count
        return sum(rows.num_rows for rows in self.batches(key, [ID]))

    def _open(self, end: EndRule) -> Dataset:
        return self._store.open(end.at)

    def _make_rule(self, key: TableKey, scope: DataScope) -> TableRule:
        ends = []
        for column, node in self._ends(key):
            rows = scope.types[node.type_name].rows
            if rows is not None:
                at = self._snapshot.pin(node).at
                ends.append(EndRule(column, at, self._store.address(at), rows))
        return TableRule(scope.types[key.type_name].rows, tuple(ends))

    def _ends(self, key: TableKey) -> list[tuple[str, TableKey]]:
        edge = self._snapshot.catalog.edge_types.get(key.type_name)
        if edge is None or edge.table_key != key:
            return []
        return [(SOURCE, node_table(edge.source)), (TARGET, node_table(edge.target))]


def _visible_ids(
    dataset: Dataset,
    ids: pa.Array,
    rule: TableRule,
    open_end: Callable[[EndRule], Dataset] = lambda end: end.address.open(),
) -> pa.Array:
    parts = [NO_IDS]
    for start in range(0, len(ids), _IDS_AT_ONCE):
        found = find_rows(dataset, ids.slice(start, _IDS_AT_ONCE), [ID, *rule.columns])
        parts += rule.keep(found, open_end).column(ID).chunks
    return pa.concat_arrays([part.cast(pa.string()) for part in parts])


def _evaluator() -> Evaluator:
    from omnigraph.execute.evaluation.expressions import Evaluator

    return Evaluator({}, SYSTEM_CLOCK.now_micros() // 1000)
