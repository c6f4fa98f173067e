"""How many rows a predicate leaves, guessed from its shape and the counts."""

from __future__ import annotations

from math import prod

from omnigraph.ir import expressions as ex
from omnigraph.plan.statistics import Statistics

# Guesses where nothing is known of the values: only their order matters for choosing a plan.
_EQUAL, _RANGE, _SUBSTRING, _TEXT, _NULL, _UNKNOWN = 0.05, 0.3, 0.1, 0.02, 0.1, 0.5
_LIST_LENGTH = 10


def fraction_left(predicate: ex.Expression, statistics: Statistics) -> float:  # noqa: C901
    """Between 0 and 1."""
    match predicate:
        case ex.And(operands):
            return prod(fraction_left(operand, statistics) for operand in operands)
        case ex.Or(operands):
            return min(1.0, sum(fraction_left(operand, statistics) for operand in operands))
        case ex.Not(operand):
            return 1.0 - fraction_left(operand, statistics)
        case ex.IsNull(_, negated):
            return 1.0 - _NULL if negated else _NULL
        case ex.Compare("=", left, right):
            return min(_one_value(side, statistics) for side in (left, right))
        case ex.Compare("!=", left, right):
            return 1.0 - min(_one_value(side, statistics) for side in (left, right))
        case ex.Compare("contains" | "starts_with"):
            return _SUBSTRING
        case ex.Compare():
            return _RANGE
        case ex.InList(operand, collection):
            return min(1.0, _length(collection) * _one_value(operand, statistics))
        case ex.TextMatch():
            return _TEXT
        case ex.Constant(value):
            return 1.0 if value is True else 0.0
        case _:
            return _UNKNOWN


def _one_value(side: ex.Expression, statistics: Statistics) -> float:
    """The share of entities with one certain value."""
    match side:
        case ex.PropertyOf(variable, name) if statistics.is_unique(variable, name):
            return 1.0 / statistics.rows_of(variable)
        case ex.Whole(variable) if variable.kind is not ex.VariableKind.PATH:
            return 1.0 / statistics.rows_of(variable)
        case ex.PropertyOf():
            return _EQUAL
        case _:
            return 1.0


def _length(collection: ex.Expression) -> int:
    match collection:
        case ex.Constant(tuple() as items):
            return len(items)
        case ex.ListOf(items):
            return len(items)
        case _:
            return _LIST_LENGTH
