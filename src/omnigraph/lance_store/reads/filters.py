"""Conditions as filters in Lance's SQL: the only place that spells one.

Every value is spelled as data, so a text cannot become part of the filter's syntax.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.values.conditions import Condition

Value = str | bool | int | float | dt.date


def lance_filter(conditions: Iterable[Condition]) -> str | None:
    """All of the conditions hold; None when there are none, which lets every row pass."""
    return " AND ".join(_spelled(condition) for condition in conditions) or None


def any_of(column: str, values: pa.Array) -> str:
    """The column has one of these values, all of which must `have_literals`."""
    listed = tuple(values.to_pylist())
    # One value is looked up faster than a list of one.
    return _spelled(Condition(column, "in" if len(listed) != 1 else "=", listed))


def have_literals(values: pa.Array) -> bool:
    """Whether a filter can name each of these values exactly."""
    kind = values.type
    if pa.types.is_floating(kind):
        return bool(pc.all(pc.is_finite(values)).as_py())
    families = (
        pa.types.is_integer,
        pa.types.is_string,
        pa.types.is_date,
        pa.types.is_boolean,
        pa.types.is_timestamp,
    )
    return any(family(kind) for family in families)


def _spelled(condition: Condition) -> str:
    assert "`" not in condition.column, condition.column
    column = f"`{condition.column}`"
    match condition.operator:
        case "is null":
            return f"{column} IS NULL"
        case "is not null":
            return f"{column} IS NOT NULL"
        case "in":
            values = ",".join(_literal(value) for value in condition.values)
            return f"{column} IN ({values})" if values else "false"
        case operator:
            (value,) = condition.values
            return f"{column} {operator} {_literal(value)}"


def _literal(value: Value) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() if value == -(2**63):
            # Lance reads a minus sign before 2^63, which is too large for it.
            return f"CAST('{value}' AS BIGINT)"
        case int():
            return str(value)
        case float():
            # 0.0 finds -0.0 too, and the other way round.
            return repr(value)
        case dt.datetime():
            utc = value.astimezone(dt.UTC) if value.tzinfo else value
            moment = utc.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
            return f"timestamp '{moment}'"
        case dt.date():
            return f"date '{value.isoformat()}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
