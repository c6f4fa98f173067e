"""Rule: a question about one type needs the rows it is about, not the whole type in memory.

Where a plan is one scan with nothing to follow, its filter and its columns can go to storage: an
index finds a key, and a scan reads only the columns named. The executor does so while the type is
not in memory yet and building it would cost more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.walk import walk
from omnigraph.plan.analysis import expressions_of
from omnigraph.plan.physical import ColdRead, Find, with_input
from omnigraph.values.scalars import INTEGER_KINDS, ScalarKind, ScalarType

_ABOVE = (reads.Filter, reads.Project, reads.Aggregate, reads.OrderBy, reads.Limit, reads.Distinct)
_OPERATORS = frozenset({"=", "<", "<=", ">", ">="})
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_JUDGED = INTEGER_KINDS | {ScalarKind.STRING, ScalarKind.DATE}


def read_cold(op: Any) -> Any:
    asked: list[ex.Expression] = []
    below = op
    while isinstance(below, _ABOVE):
        asked += expressions_of(below)
        below = below.input
    if not isinstance(below, Find) or below.input != reads.Rows() or len(below.variable.types) > 1:
        return op
    cold = _cold_read(below, [*asked, *below.where])
    return op if cold is None else _replaced(op, replace(below, cold=cold))


def _cold_read(find: Find, asked: list[ex.Expression]) -> ColdRead | None:
    columns = {"id"}
    for expression in asked:
        for node in walk(expression):
            if isinstance(node, ex.Whole | ex.TextMatch):
                return None
            if isinstance(node, ex.PropertyOf):
                columns.add(node.property)
    conditions = tuple(c for p in find.where if (c := _condition(p)) is not None)
    if find.look_up is None and not conditions:
        return None
    return ColdRead(tuple(sorted(columns)), conditions)


def _condition(predicate: ex.Expression) -> tuple[ex.PropertyOf, str, ex.Expression] | None:
    """A comparison of a stored value with a value of the query, alike in type."""
    match predicate:
        case ex.Compare(operator, ex.PropertyOf() as stored, value) if operator in _OPERATORS:
            pass
        case ex.Compare(flipped, value, ex.PropertyOf() as stored) if flipped in _OPERATORS:
            operator = _FLIPPED[flipped]
        case _:
            return None
    if not isinstance(value, ex.Constant | ex.ParameterRef) or not _alike(stored.type, value.type):
        return None
    return stored, operator, value


def _alike(stored: ex.ExpressionType, given: ex.ExpressionType) -> bool:
    if not isinstance(stored, ScalarType) or not isinstance(given, ScalarType):
        return False
    both_integers = stored.kind in INTEGER_KINDS and given.kind in INTEGER_KINDS
    return both_integers or (stored == given and stored.kind in _JUDGED)


def _replaced(op: Any, find: Find) -> Any:
    return find if isinstance(op, Find) else with_input(op, _replaced(op.input, find))
