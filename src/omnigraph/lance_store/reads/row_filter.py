"""Conditions as Lance filters: a small exact subset, every value quoted as data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

import pyarrow as pa

from omnigraph.lance_store.blobs import scan_options
from omnigraph.lance_store.objects.storage_errors import snapshot_errors
from omnigraph.lance_store.store import Dataset
from omnigraph.values.scalars import INTEGER_BOUNDS, EnumType, ScalarKind, ScalarType

Simple = str | int | dt.date
"""Text, whole numbers, booleans, dates and moments: types whose order is the same everywhere."""
OPERATORS = frozenset({"=", "!=", "<", "<=", ">", ">="})


def compares_exactly(value: object, kind: object) -> bool:
    """Storage compares `value` with a column of this type as we do, and takes it at all."""
    match kind:
        case EnumType() | ScalarType(ScalarKind.STRING):
            return isinstance(value, str)
        case ScalarType(ScalarKind.BOOL):
            return isinstance(value, bool)
        case ScalarType(ScalarKind.DATE):
            return isinstance(value, dt.date) and not isinstance(value, dt.datetime)
        case ScalarType(number) if number in INTEGER_BOUNDS:
            if not isinstance(value, int) or isinstance(value, bool):
                return False
            low, high = INTEGER_BOUNDS[number]
            # The smallest integer is a minus sign before a number too large: a float to Lance.
            return max(low, 1 - 2**63) <= value <= high
        case _:
            return False


def condition(column: str, operator: str, value: Simple) -> str:
    """`column operator value`."""
    assert operator in OPERATORS, operator
    return f"{_name(column)} {operator} {_literal(value)}"


def one_of(column: str, values: Iterable[Simple]) -> str:
    return f"{_name(column)} IN ({','.join(_literal(value) for value in values)})"


def is_null(column: str, *, negated: bool = False) -> str:
    return f"{_name(column)} IS {'NOT ' if negated else ''}NULL"


def read_where(dataset: Dataset, columns: Sequence[str], conditions: Sequence[str]) -> pa.Table:
    """These columns of the rows for which every condition is true; an index helps if there is."""
    with snapshot_errors("reading filtered rows"):
        return dataset.scanner(
            columns=list(columns), filter=" AND ".join(conditions), **scan_options(dataset)
        ).to_table()


def _name(column: str) -> str:
    assert "`" not in column, column
    return f"`{column}`"


def _literal(value: Simple) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):
        moment = value.astimezone(dt.UTC).replace(tzinfo=None)
        return f"timestamp '{moment.isoformat(timespec='milliseconds')}'"
    if isinstance(value, dt.date):
        return f"date '{value.isoformat()}'"
    return str(value)
