"""Python values of one property -> an Arrow column, by the rules of `values.coercion`.

Arrow itself is quick but obliging: it cuts fractions, takes bytes for texts and moments for days.
So it gets the values whose Python class leaves no doubt, and all others are judged one by one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from omnigraph.errors import InvalidArgument
from omnigraph.values.coercion import coerce
from omnigraph.values.scalars import (
    FLOAT_KINDS,
    INTEGER_KINDS,
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)

_TEXT = ScalarType(ScalarKind.STRING)
_NOTHING = type(None)
_CLASSES: dict[ScalarKind, frozenset[type]] = {
    ScalarKind.STRING: frozenset({str}),
    ScalarKind.BOOL: frozenset({bool}),
    ScalarKind.DATE: frozenset({dt.date}),
    ScalarKind.DATETIME: frozenset({dt.datetime}),
    **dict.fromkeys(INTEGER_KINDS, frozenset({int})),
    **dict.fromkeys(FLOAT_KINDS, frozenset({float})),
}


def python_column(values: Sequence[Any], kind: ValueType, target: pa.DataType) -> pa.Array:
    """`InvalidArgument` says which value does not fit, and why."""
    if isinstance(kind, ListType | VectorType):
        values = [_listed(value) for value in values]
    if not _is_plain(values, kind):
        values = [None if value is None else _fitted(value, kind) for value in values]
    try:
        return pa.array(values, target)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        _refuse_misfits(values, kind)
        raise InvalidArgument(str(error)) from error


def _refuse_misfits(values: Sequence[Any], kind: ValueType) -> None:
    """In our words, which name the value and what it should have been."""
    if not isinstance(kind, BlobType):
        for value in values:
            if value is not None:
                _fitted(value, kind)


def _listed(value: Any) -> Any:
    as_list = getattr(value, "tolist", None)  # numpy arrays
    return as_list() if callable(as_list) else value


def _is_plain(values: Sequence[Any], kind: ValueType) -> bool:
    """Arrow reads all of them as `coerce` would."""
    match kind:
        case BlobType():
            return True
        case EnumType():
            return _has_only(values, _CLASSES[ScalarKind.STRING])
        case ScalarType(scalar):
            return _has_only(values, _CLASSES[scalar])
        case ListType(element):
            return _lists_only(values, _CLASSES[element])
        case VectorType():
            return _lists_only(values, _CLASSES[ScalarKind.F32])


def _lists_only(values: Sequence[Any], items: frozenset[type]) -> bool:
    if not _has_only(values, frozenset({list, tuple})):
        return False
    return _has_only(chain.from_iterable(v for v in values if v is not None), items)


def _has_only(values: Iterable[Any], classes: frozenset[type]) -> bool:
    return set(map(type, values)) <= classes | {_NOTHING}


def _fitted(value: Any, kind: ValueType) -> Any:
    if isinstance(kind, EnumType):
        return coerce(value, _TEXT)  # which texts are allowed is a rule, judged with the others
    if isinstance(kind, ListType) and isinstance(value, list | tuple):
        value = [_whole(item, kind.element) for item in value]
    elif isinstance(kind, ScalarType):
        value = _whole(value, kind.kind)
    return coerce(value, kind)


def _whole(value: Any, kind: ScalarKind) -> Any:
    """Tools that know no missing integers hold them as floats."""
    if kind in INTEGER_KINDS and isinstance(value, float) and value.is_integer():
        return int(value)
    return value
