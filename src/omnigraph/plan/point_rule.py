"""Rule: the steps from one entity that the query names run as one operator.

`$p: Person { name: $name }  $p knows $f` is a lookup, a hop and the variables that are kept. Each
of them takes a microsecond or two, and the rows between two of them take several. So the executor
may run all of them as one function (`execute/operators/point_operators.py`).
"""

from __future__ import annotations

from typing import Any

from omnigraph.ir import reads
from omnigraph.plan.physical import DistinctOn, Find, Follow, Keep, LookUp, Point, with_input


def point_first(op: Any) -> Any:
    """Put the longest chain of steps that begins at a named entity under one Point."""
    if isinstance(op, reads.Rows):
        return op
    if _bound_by(op) is not None:
        return Point(op)
    return with_input(op, point_first(op.input))


def _bound_by(op: Any) -> frozenset[int] | None:
    """The variables that a chain of such steps binds; None when it is no such chain."""
    match op:
        case Find(reads.Rows(variables=()), variable, LookUp(several=False, per_row=False), ()):
            return frozenset({variable.id}) if len(variable.types) == 1 else None
        case reads.Expand(inner) | Follow(inner):
            expand = op if isinstance(op, reads.Expand) else op.expand
            below = _bound_by(inner) if _is_one_hop(expand) else None
            if below is None:
                return None
            return below | {v.id for v in (expand.target, expand.edge) if v is not None}
        case Keep(inner, variables):
            below = _bound_by(inner)
            return None if below is None else below & variables
        case DistinctOn(inner, variables):
            # With one variable the rows are a set of positions.
            return variables if _bound_by(inner) == variables and len(variables) == 1 else None
        case _:
            return None


def _is_one_hop(op: reads.Expand) -> bool:
    """One edge type in one direction, to a new variable."""
    return (
        op.mode is reads.ExpandMode.EDGE
        and not op.target_bound
        and op.path is None
        and len(op.steps) == 1
        and op.steps[0].direction is not reads.Direction.BOTH
    )
