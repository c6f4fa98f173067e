"""Rule: a filter sits as close to where its variables come from as the meaning allows.

Below an optional block, a `not` block or a grouping the rows are fewer or carry less. Expressions
that can fail on a value stay: below, they might meet rows that would have been dropped first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.walk import rewrite, walk
from omnigraph.plan.failing import may_fail
from omnigraph.plan.physical import with_input
from omnigraph.plan.usage import conjuncts_of, given_by, variables_in


def push_filters(op: Any) -> Any:
    match op:
        case reads.Rows():
            return op
        case reads.Filter(inner, predicate):
            below = push_filters(inner)
            for conjunct in conjuncts_of(predicate):
                below = _push(below, conjunct)
            return below
        case reads.AntiJoin(inner, pattern) | reads.Optional(inner, pattern):
            return replace(op, input=push_filters(inner), pattern=push_filters(pattern))
        case _:
            return with_input(op, push_filters(op.input))


def _push(op: Any, predicate: ex.Expression) -> Any:
    match op:
        case reads.AntiJoin() | reads.Optional() if not may_fail(predicate) and (
            variables_in([predicate]) <= given_by(op.input)
        ):
            return replace(op, input=_push(op.input, predicate))
        case reads.Aggregate(inner, keys) if keys and not may_fail(predicate):
            over_rows = _over_keys(predicate, keys)
            if over_rows is not None and not may_fail(over_rows):
                return replace(op, input=_push(inner, over_rows))
        case _:
            pass
    return reads.Filter(op, predicate)


def _over_keys(predicate: ex.Expression, keys: tuple[reads.Column, ...]) -> ex.Expression | None:
    """A predicate about group keys as one about rows; None when it asks for an aggregate."""
    values = {key.name: key.value for key in keys}
    asked = {node.name for node in walk(predicate) if isinstance(node, ex.ColumnRef)}
    if not asked or not asked <= values.keys():
        return None
    return rewrite(
        predicate, lambda node: values[node.name] if isinstance(node, ex.ColumnRef) else node
    )
