"""What a scan may ask of Lance: comparisons that storage judges exactly as we do.

Every predicate is asked again above the scan, so leaving one out costs time and nothing else.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.ir import expressions as ex
from omnigraph.lance_store.reads.row_filter import condition, one_of
from omnigraph.values.scalars import INTEGER_BOUNDS, INTEGER_KINDS, ScalarKind, ScalarType

_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_MOST_NAMES = 1000
# Beyond it Lance reads a number as a float, the smallest integer of 64 bits included.
_LARGEST = 2**63 - 1


def conditions_of(predicates: Iterable[ex.Expression], scalars: Evaluator) -> list[str]:
    """Lance filters, all of which must hold."""
    found = (_condition(predicate, scalars) for predicate in predicates)
    return [text for text in found if text is not None]


def _condition(predicate: ex.Expression, scalars: Evaluator) -> str | None:
    match predicate:
        case ex.Compare(operator, ex.PropertyOf() as stored, ex.Constant() | ex.ParameterRef()) if (
            operator in _FLIPPED
        ):
            value = scalars.plain(predicate.right)  # type: ignore[arg-type]
        case ex.Compare(flipped, ex.Constant() | ex.ParameterRef(), ex.PropertyOf() as stored) if (
            flipped in _FLIPPED
        ):
            operator, value = _FLIPPED[flipped], scalars.plain(predicate.left)  # type: ignore[arg-type]
        case ex.InList(ex.PropertyOf() as stored, ex.Constant() | ex.ParameterRef() as items):
            return _one_of(stored, scalars.plain(items))
        case _:
            return None
    return condition(stored.property, operator, value) if _judged(stored, value) else None


def _one_of(stored: ex.PropertyOf, values: Any) -> str | None:
    if not values or len(values) > _MOST_NAMES:
        return None
    return one_of(stored.property, values) if all(_judged(stored, v) for v in values) else None


def _judged(stored: ex.PropertyOf, value: Any) -> bool:
    """A text, a day, or an integer that the column can hold."""
    kind = stored.type.kind if isinstance(stored.type, ScalarType) else None
    match value:
        case bool():
            return False
        case int() if kind in INTEGER_KINDS:
            low, high = INTEGER_BOUNDS[kind]
            return max(low, -_LARGEST) <= value <= min(high, _LARGEST)
        case str():
            return kind is ScalarKind.STRING
        case dt.datetime():
            return False
        case dt.date():
            return kind is ScalarKind.DATE
        case _:
            return False
