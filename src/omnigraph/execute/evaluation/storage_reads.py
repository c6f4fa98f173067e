"""Read a few rows of a large table from storage, while the table is not in memory.

The cost of each such read is added to the table. When the sum is as high as the cost of loading the
table, the table is loaded. Costs are counted in rows of a load.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.views.entity_view import EntityView, PartialView, TableView
from omnigraph.ir import expressions as ex
from omnigraph.ir.storage_conditions import conditions_of
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.reads.scan import read_table
from omnigraph.lance_store.search.indexes import uncovered_rows
from omnigraph.plan.physical import Find, LookUp
from omnigraph.values.conditions import LONGEST_LIST
from omnigraph.values.entity_ids import canonical_text

# Measured by `python -m bench crossovers` with 100,000 persons: a load takes 0.13 us a row, a
# lookup by index 1.5 ms and 13 us an id, a filtered scan 1.5 ms and 0.04 us a row. A load of 20,000
# rows takes 3.9 ms, a load of 2,000 rows no more than a lookup.
_LOOKUP = 12_000
_PER_ID = 100
_PER_SCANNED_ROW = 0.3
_SMALL = 20_000


def read_found(op: Find, view: EntityView, evaluator: Evaluator) -> PartialView | None:
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
    if not conditions or not _pays(view, _LOOKUP + rows * _PER_SCANNED_ROW):
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
    scanned = uncovered(table, "id") * _PER_SCANNED_ROW
    if not _pays(table, _LOOKUP + len(wanted) * _PER_ID + scanned):
        return None
    names = columns_with_rule(table, table.plain_columns if columns is None else columns)
    return PartialView(table, find_rows(table.dataset, pa.array(wanted, pa.string()), names))


def in_memory(view: TableView, columns: Iterable[str]) -> bool:
    content = view.content.unscoped
    if not content.is_built:
        return False
    loaded = content.columns
    for name in columns:  # noqa: SIM110 - a generator costs more than the lookups
        if name not in loaded and name != "id":
            return False
    return True


def wanted_ids(look_up: LookUp, evaluator: Evaluator) -> list[str]:
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


def uncovered(table: TableView, column: str) -> int:
    """The number of rows that each lookup scans, because the index does not have them."""
    known = table.uncovered.get(column)
    if known is None:
        known = table.uncovered[column] = uncovered_rows(table.dataset, column)
    return known


def _pays(table: TableView, cost: float) -> bool:
    content = table.content.unscoped
    if content.count < _SMALL:
        return False
    content.spent += cost
    return content.spent <= content.count
