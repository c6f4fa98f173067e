"""Read a few rows of a large table from storage, while the table is not in memory.

`Builds` decides by the cost of each read whether the table is loaded beside the queries, or at
once. Costs are counted in rows of a load.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execute.topology.id_changes import Positions
from omnigraph.execute.topology.table_content import one_chunk
from omnigraph.execute.views.entity_view import EntityView, PartialView, TableView
from omnigraph.ir import expressions as ex
from omnigraph.ir.storage_conditions import conditions_of
from omnigraph.lance_store.reads.indexes import Uncovered, uncovered
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.reads.scan import read_table
from omnigraph.plan.physical import Find, LookUp
from omnigraph.values.conditions import LONGEST_LIST
from omnigraph.values.entity_ids import canonical_text

# Measured by `python -m bench crossovers` with 100,000 persons: a load takes 0.13 us a row, a
# lookup by index 1.5 ms and 13 us an id, a filtered scan 1.5 ms and 0.04 us a row. A load of 20,000
# rows takes 3.9 ms, a load of 2,000 rows no more than a lookup.
_LOOKUP = 12_000
_PER_ID = 100
_PER_SCANNED_ROW = 0.3
_PER_FRAGMENT = 1_000
_PER_COLUMN_ROW = 0.5
_SMALL = 20_000


class GivenValues(Protocol):
    """Gives the values of literals and parameters of one run."""

    def plain(self, expression: ex.Constant | ex.ParameterRef) -> Any: ...


def read_found(op: Find, view: EntityView, evaluator: GivenValues) -> PartialView | None:
    """The rows that may match; None when the table should be loaded."""
    cold, look_up = op.cold, op.look_up
    if not isinstance(view, TableView) or (look_up is not None and look_up.per_row):
        return None
    if in_memory(view, () if cold is None else cold.columns):
        return None
    columns = view.plain_columns if cold is None else cold.columns
    if look_up is not None:
        names = wanted_ids(look_up, evaluator)
        return rows_by_id(view, names, columns) if names else None
    rule = () if view.rule is None else (view.rule.name,)
    predicates = () if cold is None else (*cold.predicates, *rule)
    conditions = conditions_of(predicates, evaluator.plain)
    rows = view.content.unscoped.count
    if not conditions or not _pays(view, _LOOKUP + rows * _PER_SCANNED_ROW, columns):
        return None
    wanted = columns_with_rule(view, columns)
    return PartialView(view, read_table(view.dataset, wanted, conditions))


def columns_with_rule(view: TableView, columns: Iterable[str]) -> list[str]:
    """These columns, and those that the rule of the view reads."""
    rule = () if view.rule is None else view.rule.columns
    return list(dict.fromkeys((*columns, *rule)))


def rows_by_id(
    table: TableView, ids: Iterable[str], columns: Iterable[str] | None = None
) -> PartialView | None:
    """The rows with these ids; None when the table should be loaded."""
    wanted = sorted(set(ids))
    if len(wanted) > LONGEST_LIST:
        return None
    names = columns_with_rule(table, table.plain_columns if columns is None else columns)
    cost = _LOOKUP + len(wanted) * _PER_ID + scan_cost(table, "id")
    if not _pays(table, cost, names):
        return None
    return PartialView(table, find_rows(table.dataset, pa.array(wanted, pa.string()), names))


def in_memory(view: TableView, columns: Iterable[str]) -> bool:
    content = view.content
    if not content.is_loaded:
        return False
    loaded = content.columns
    for name in columns:  # noqa: SIM110 - a generator costs more than the lookups
        if name not in loaded and not content.has_column(name):
            return False
    return True


def wanted_ids(look_up: LookUp, evaluator: GivenValues) -> list[str]:
    """The ids that the query names, ascending, each once."""
    assert isinstance(look_up.wanted, ex.Constant | ex.ParameterRef)
    given = evaluator.plain(look_up.wanted)
    if given is None:
        return []
    if not look_up.several:
        return [spelled(look_up, given)]
    return sorted({spelled(look_up, value) for value in given if value is not None})


def spelled(look_up: LookUp, value: Any) -> str:
    return value if look_up.property == "id" else canonical_text(value)


def scan_cost(table: TableView, column: str) -> float:
    """The cost of the rows that each lookup scans, because the index does not have them."""
    known: Uncovered | None = table.uncovered.get(column)
    if known is None:
        known = table.uncovered[column] = uncovered(table.dataset, column)
    return known.rows * _PER_SCANNED_ROW + known.fragments * _PER_FRAGMENT


def few_values(table: TableView, name: str, positions: Positions) -> pa.Array | None:
    """A column of a few entities, which is not in memory as one array; None to make it one.

    MISSING gives NULL.
    """
    content = table.content
    if len(positions) > LONGEST_LIST or not content.is_loaded:
        return None
    if content.has_column(name):
        return content.few_values(name, positions)
    cost = _LOOKUP + len(positions) * _PER_ID + scan_cost(table, "id")
    if not _pays(table, cost, (name,)):
        return None
    content.want(name)
    wanted = content.few_ids(positions)
    rows = find_rows(table.dataset, pc.unique(wanted.drop_null()), [name])
    place = pc.index_in(wanted, value_set=one_chunk(rows.column("id")), skip_nulls=True)
    return one_chunk(rows.column(name)).take(place)


def _pays(table: TableView, cost: float, columns: Iterable[str]) -> bool:
    """Whether a query reads rows from storage, instead of what it needs of the whole table."""
    content = table.content
    if content.unscoped.count < _SMALL:
        return False
    piece, build = content.piece, content.build_cost
    if content.is_loaded:
        missing = tuple(sorted(name for name in columns if not content.has_column(name)))
        piece = (piece, missing)
        build = content.unscoped.count * _PER_COLUMN_ROW * len(missing)
    return table.builds.reads_storage(piece, cost, build, content.build_bytes, content.build)
