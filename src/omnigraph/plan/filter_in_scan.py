"""Rule: a scan takes in what is known about its variable; a name is looked up instead.

`$p.id = …`, the key, or `in` a list of them becomes a lookup, also when the value comes from
another variable of the row: that is a join on the id instead of a product of two types.
"""

from __future__ import annotations

from typing import Any

from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.plan.failing import may_fail
from omnigraph.plan.physical import Find, LookUp
from omnigraph.plan.statistics import Statistics
from omnigraph.plan.usage import conjuncts_of, variables_in
from omnigraph.plan.whole_plan import everywhere
from omnigraph.values.scalars import ListType, ScalarKind, ScalarType

_INTEGERS = frozenset({ScalarKind.I32, ScalarKind.I64, ScalarKind.U32, ScalarKind.U64})
_NAMING = _INTEGERS | {ScalarKind.STRING, ScalarKind.DATE, ScalarKind.DATETIME, ScalarKind.BOOL}


def filter_in_scan(op: Any, statistics: Statistics) -> Any:
    return everywhere(op, lambda found: _take_in(found, statistics))


def _take_in(op: Any, statistics: Statistics) -> Any:
    """`Filter … Filter NodeScan` as one Find, and the filters that also ask for others."""
    predicates: list[ex.Expression] = []
    below = op
    while isinstance(below, reads.Filter):
        predicates[:0] = conjuncts_of(below.predicate)
        below = below.input
    if not predicates or not isinstance(below, reads.NodeScan):
        return op
    variable = below.variable
    look_up, answered = _look_up(predicates, variable, statistics)
    own = [
        p
        for p in predicates
        if p is not answered and variables_in([p]) == {variable.id} and not may_fail(p)
    ]
    if look_up is None and not own:
        return op
    rows: Any = Find(below.input, variable, look_up, tuple(own))
    for predicate in predicates:
        if predicate is not answered and predicate not in own:
            rows = reads.Filter(rows, predicate)
    return rows


def _look_up(
    predicates: list[ex.Expression], variable: ex.Variable, statistics: Statistics
) -> tuple[LookUp | None, ex.Expression | None]:
    """The first conjunct that names entities, values of the query before values of the row."""
    found = []
    for predicate in predicates:
        look_up = _as_look_up(predicate, variable, statistics)
        if look_up is not None:
            found.append((look_up, predicate))
    return min(found, key=lambda pair: pair[0].per_row, default=(None, None))


def _as_look_up(
    predicate: ex.Expression, variable: ex.Variable, statistics: Statistics
) -> LookUp | None:
    match predicate:
        case ex.Compare("=", ex.PropertyOf() as name, wanted) if _names(name, variable, statistics):
            return _of(name, wanted, several=False)
        case ex.Compare("=", wanted, ex.PropertyOf() as name) if _names(name, variable, statistics):
            return _of(name, wanted, several=False)
        case ex.InList(ex.PropertyOf() as name, wanted) if _names(name, variable, statistics):
            return _of(name, wanted, several=True)
        case _:
            return None


def _names(name: ex.PropertyOf, variable: ex.Variable, statistics: Statistics) -> bool:
    return name.variable.id == variable.id and statistics.is_name(variable, name.property)


def _of(name: ex.PropertyOf, wanted: ex.Expression, *, several: bool) -> LookUp | None:
    asked = variables_in([wanted])
    per_row = bool(asked)
    if name.variable.id in asked or may_fail(wanted) or not _same_spelling(name, wanted, several):
        return None
    if per_row and several:
        return None
    if not per_row and not isinstance(wanted, ex.Constant | ex.ParameterRef):
        return None
    return LookUp(name.property, wanted, several, per_row)


def _same_spelling(name: ex.PropertyOf, wanted: ex.Expression, several: bool) -> bool:
    """Equal values are spelled alike: the same type, or two types of integers."""
    kind, given = name.type, wanted.type
    if several:
        if not isinstance(given, ListType):
            return False
        given = ScalarType(given.element)
    if not isinstance(kind, ScalarType) or not isinstance(given, ScalarType):
        return False
    both_integers = kind.kind in _INTEGERS and given.kind in _INTEGERS
    return kind.kind in _NAMING and (both_integers or kind == given)
