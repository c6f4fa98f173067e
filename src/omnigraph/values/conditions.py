"""Conditions on stored columns, which storage tests exactly as the executors do.

A reader that lets storage test them first gets the same answer and reads fewer rows.
`ir.storage_conditions` finds the conditions of a predicate; `lance_store.reads.filters` spells them
for Lance.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph.values.scalars import INTEGER_BOUNDS, EnumType, ScalarKind, ScalarType

LONGEST_LIST = 2000
"""With more values, a scan that probes a hash table is faster than an index (as measured)."""

Comparison = Literal["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Condition:
    """`column operator values`.

    A comparison has one value and a test for NULL has none. "in" has any number of values; without
    a value it is never true.
    """

    column: str
    operator: Comparison | Literal["in", "is null", "is not null"]
    values: tuple[Any, ...] = ()


def is_exact(value: object, kind: object) -> bool:
    """Whether a condition may compare a column of this type with this value.

    Floats are out, because Lance takes NaN for the largest number and IEEE gives it no order. So
    are integers that the column cannot hold, because Lance refuses them.
    """
    match kind:
        case EnumType() | ScalarType(ScalarKind.STRING):
            return isinstance(value, str)
        case ScalarType(ScalarKind.BOOL):
            return isinstance(value, bool)
        case ScalarType(ScalarKind.DATE):
            return isinstance(value, dt.date) and not isinstance(value, dt.datetime)
        case ScalarType(ScalarKind.DATETIME):
            # Stored moments are UTC and have milliseconds.
            return (
                isinstance(value, dt.datetime)
                and value.tzinfo is not None
                and not value.microsecond % 1000
            )
        case ScalarType(number) if number in INTEGER_BOUNDS:
            low, high = INTEGER_BOUNDS[number]
            return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        case _:
            return False
