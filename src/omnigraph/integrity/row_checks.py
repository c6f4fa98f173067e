"""Evaluate row rules over Arrow tables, vectorised; any slice of a stream can be checked alone.

`check_rows(entity, table, report, places)` reports the rows of `table` that break a rule. A column
that the table lacks counts as NULL. `failing_rows(rule, table)` evaluates a single rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, EntityType, spelled
from omnigraph.integrity.rules import (
    Between,
    DerivedId,
    Finite,
    FiniteVector,
    InCalendar,
    Matches,
    NoNullItems,
    OneOf,
    Required,
    RowRule,
    row_rules,
)
from omnigraph.integrity.violations import Places, Report, Violation, ends_of
from omnigraph.values.coercion import describe
from omnigraph.values.temporal import FIRST_DAY, FIRST_MILLI, LAST_DAY, LAST_MILLI
from omnigraph.writes.derived import derived_ids

RowNumbers = npt.NDArray[np.int64]
_NONE: RowNumbers = np.empty(0, np.int64)


def check_rows(
    entity: EntityType, table: pa.Table, report: Report, places: Places | None = None
) -> None:
    """Report every row of `table` that breaks a rule of `entity` by itself."""
    for rule in row_rules(entity):
        rows = failing_rows(rule, table)
        if len(rows):
            first = row_violations(entity, rule, table, rows, places)
            report.add(rule.name, len(rows), first, entity.table_key, checked_property(rule))


def checked_property(rule: RowRule) -> str:
    """The property that a violation of this rule names."""
    return ID if isinstance(rule, DerivedId) else spelled(rule.column)


def failing_rows(rule: RowRule, table: pa.Table) -> RowNumbers:
    """Numbers of the rows that break the rule, ascending."""
    if isinstance(rule, DerivedId):
        return _wrong_ids(rule, table)
    if rule.column not in table.column_names:
        return np.arange(table.num_rows) if isinstance(rule, Required) else _NONE
    column = table.column(rule.column)
    match rule:
        case Required():
            return _where(column.is_null()) if column.null_count else _NONE
        case OneOf(_, values):
            return _where_false(pc.is_in(column, value_set=pa.array([*values, None], column.type)))
        case Finite() | InCalendar():
            bad = _not_finite if isinstance(rule, Finite) else _outside_calendar
            return _with_items(column, bad)
        case FiniteVector():
            return _bad_vectors(column)
        case NoNullItems():
            return _null_items(column)
        case Between(_, low, high):
            return _outside(column, low, high)
        case Matches(_, pattern):
            return _unmatched(column, pattern)


def row_violations(
    entity: EntityType, rule: RowRule, table: pa.Table, rows: RowNumbers, places: Places | None
) -> Iterator[Violation]:
    """The violations of a rule by these rows, which break it."""
    column = ID if isinstance(rule, DerivedId) else rule.column
    for row in rows.tolist():
        value = None if column not in table.column_names else _value(table.column(column)[row])
        identity = table.column(ID)[row].as_py() if ID in table.column_names else None
        yield Violation(
            rule.name,
            entity.table_key,
            identity,
            spelled(column),
            _message(rule, value),
            places(row) if places else None,
            ends_of(table, row),
        )


def _value(stored: pa.Scalar) -> Any:
    try:
        return stored.as_py()
    except (OverflowError, ValueError):
        return "beyond the calendar"


def _message(rule: RowRule, value: Any) -> str:
    match rule:
        case Required(column):
            return f"{spelled(column)!r} is required"
        case OneOf(column, values):
            return f"{column!r} is {describe(value)}, not one of {', '.join(values)}"
        case Finite(column):
            return f"{column!r} is not finite"
        case InCalendar(column):
            return f"{column!r} is outside the years 1 to 9999"
        case FiniteVector(column, width):
            return f"{column!r} must hold {width} finite numbers"
        case NoNullItems(column):
            return f"{column!r} is a list with a null in it"
        case Between(column, low, high):
            bounds = f"{'' if low is None else low}..{'' if high is None else high}"
            return f"{column!r} is {value}, outside {bounds}"
        case Matches(column, pattern):
            return f"{column!r} is {describe(value)}, which does not match {pattern!r}"
        case DerivedId(members):
            return f"'id' must be the spelling of the key ({', '.join(members)})"


def _where(mask: Any) -> RowNumbers:
    return np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))


def _where_false(mask: Any) -> RowNumbers:
    return np.flatnonzero(~pc.fill_null(mask, True).to_numpy(zero_copy_only=False))


def _chunks(column: pa.ChunkedArray) -> Iterator[tuple[int, pa.Array]]:
    start = 0
    for chunk in column.chunks:
        yield start, chunk
        start += len(chunk)


def _outside(column: Any, low: Any, high: Any) -> RowNumbers:
    if _is_within(column, low, high):
        return _NONE
    parts = [_NONE]
    if low is not None:
        parts.append(_where(pc.less(column, pa.scalar(low, column.type))))
    if high is not None:
        parts.append(_where(pc.greater(column, pa.scalar(high, column.type))))
    return np.unique(np.concatenate(parts))


def _is_within(column: Any, low: Any, high: Any) -> bool:
    """One pass shows that no row is outside, and makes no mask."""
    extremes = pc.min_max(column)
    least, most = extremes["min"], extremes["max"]
    if not least.is_valid:
        return True  # every value is NULL
    above = low is None or pc.greater_equal(least, pa.scalar(low, column.type)).as_py()
    return above and (high is None or pc.less_equal(most, pa.scalar(high, column.type)).as_py())


def _not_finite(values: Any) -> RowNumbers:
    finite = pc.is_finite(values)
    return _NONE if pc.all(finite, min_count=0).as_py() else _where_false(finite)


def _outside_calendar(values: Any) -> RowNumbers:
    days = pa.types.is_date(values.type)
    numbers = values.cast(pa.int32() if days else pa.int64())
    return _outside(numbers, *((FIRST_DAY, LAST_DAY) if days else (FIRST_MILLI, LAST_MILLI)))


def _with_items(column: pa.ChunkedArray, bad_values: Callable[[Any], RowNumbers]) -> RowNumbers:
    """Rows with a bad value; a list is bad if one of its items is."""
    if not pa.types.is_list(column.type):
        return bad_values(column)
    found = [_NONE]
    for start, chunk in _chunks(column):
        bad = bad_values(pc.list_flatten(chunk))
        if len(bad):
            parents = pc.list_parent_indices(chunk).to_numpy(zero_copy_only=False)
            found.append(np.unique(parents[bad]) + start)
    return np.concatenate(found)


def _null_items(column: pa.ChunkedArray) -> RowNumbers:
    found = [_NONE]
    for start, chunk in _chunks(column):
        items = pc.list_flatten(chunk)
        if items.null_count:
            parents = pc.list_parent_indices(chunk).to_numpy(zero_copy_only=False)
            found.append(np.unique(parents[_where(items.is_null())]) + start)
    return np.concatenate(found)


def _bad_vectors(column: pa.ChunkedArray) -> RowNumbers:
    found = [_NONE]
    for start, chunk in _chunks(column):
        rows = np.flatnonzero(chunk.is_valid().to_numpy(zero_copy_only=False))
        items = chunk.flatten()  # of the valid rows only
        bad = pc.fill_null(pc.invert(pc.is_finite(items)), True)
        if len(rows) and pc.any(bad).as_py():
            per_row = bad.to_numpy(zero_copy_only=False).reshape(len(rows), -1)
            found.append(rows[per_row.any(axis=1)] + start)
    return np.concatenate(found)


# Spellings that RE2 reads differently from Python; everything else it accepts, Python accepts.
_NOT_RE2 = re.compile(r"\\[^.\-+*?()\[\]{}|^$/@ ]|\(\?|\{,|\[\[|\[:")


def _unmatched(column: pa.ChunkedArray, pattern: str) -> RowNumbers:
    """RE2 passes most rows at once; Python's `re` decides about the others."""
    rows = _where(column.is_valid())
    if len(rows) and not _NOT_RE2.search(pattern):
        with suppress(pa.ArrowInvalid):  # not RE2 after all
            rows = _where(pc.invert(pc.match_substring_regex(column, pattern=pattern)))
    compiled = re.compile(pattern)
    texts = column.take(pa.array(rows)).to_pylist()
    failing = [
        row for row, text in zip(rows.tolist(), texts, strict=True) if not _finds(compiled, text)
    ]
    return np.array(failing, np.int64)


def _finds(compiled: re.Pattern[str], text: str) -> bool:
    return compiled.search(text) is not None


def _wrong_ids(rule: DerivedId, table: pa.Table) -> RowNumbers:
    # An incomplete key has no spelling: the comparison is NULL, and `Required` reports the row.
    derived = derived_ids([table.column(name) for name in rule.members])
    if _is_same_memory(table.column(ID), derived):
        return _NONE
    return _where(pc.not_equal(table.column(ID), derived))


def _is_same_memory(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Both columns are views of the same texts, as ids are that were derived from a text."""
    return one.type == other.type and [*map(_memory, one.chunks)] == [*map(_memory, other.chunks)]


def _memory(chunk: pa.Array) -> tuple[Any, ...]:
    addresses = [None if part is None else part.address for part in chunk.buffers()]
    return len(chunk), chunk.offset, *addresses
