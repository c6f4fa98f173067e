"""Rule: a query on one type reads only its rows and columns from storage.

A plan that is one scan without expansions passes its filter and its columns to storage: an index
finds a key, and a scan reads only the named columns. The executor does this while the type is not
in memory and loading all of it would cost more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.storage_conditions import may_have_condition
from omnigraph.ir.walk import walk
from omnigraph.plan.analysis import expressions_of
from omnigraph.plan.physical import ColdRead, Find, with_input

_ABOVE = (reads.Filter, reads.Project, reads.Aggregate, reads.OrderBy, reads.Limit, reads.Distinct)


def read_cold(op: Any) -> Any:
    expressions: list[ex.Expression] = []
    below = op
    while isinstance(below, _ABOVE):
        expressions += expressions_of(below)
        below = below.input
    if not isinstance(below, Find) or below.input != reads.Rows() or len(below.variable.types) > 1:
        return op
    cold = _cold_read(below, [*expressions, *below.where])
    return op if cold is None else _replaced(op, replace(below, cold=cold))


def _cold_read(find: Find, expressions: list[ex.Expression]) -> ColdRead | None:
    columns = {"id"}
    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, ex.Whole | ex.TextMatch):
                return None
            if isinstance(node, ex.PropertyOf):
                columns.add(node.property)
    predicates = tuple(p for p in find.where if may_have_condition(p))
    if find.look_up is None and not any(map(_may_find_few, predicates)):
        return None
    return ColdRead(tuple(sorted(columns)), predicates)


def _may_find_few(predicate: ex.Expression) -> bool:
    """False for tests for NULL, `!=` and comparisons of booleans, which usually keep many rows."""
    match predicate:
        case ex.Compare(operator, left):
            return operator != "!=" and left.type != ex.BOOL
        case _:
            return isinstance(predicate, ex.InList)


def _replaced(op: Any, find: Find) -> Any:
    return find if isinstance(op, Find) else with_input(op, _replaced(op.input, find))
