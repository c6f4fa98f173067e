"""Equality and order of values: what sorts, groups and merges rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from omnigraph.ir.expressions import Variable, VariableKind
from omnigraph_testing.reference.rows import Entity, Path, Row

_NULL_FIRST = (0,)
_NULL_LAST = (2,)


def comparable(value: Any) -> Any:
    """The value as something Python sorts and hashes as the language does.

    Strings go by code point, false before true, lists element by element, entities by id and
    then type, paths by their ids in turn.
    """
    match value:
        case Entity():
            return (value.id, value.type)
        case Path():
            return (value.ids, tuple(entity.type for entity in value.entities))
        case list() | tuple():
            return tuple(comparable(item) for item in value)
        case _:
            return value


def identity(value: Any) -> Any:
    """Equal for values that are one group or one distinct value; NULL equals NULL."""
    # Python calls 1 and True equal; one column never holds both.
    return None if value is None else (comparable(value),)


def sorted_by(
    rows: Sequence[Row], keys: Sequence[tuple[Callable[[Row], Any], bool, bool]]
) -> list[Row]:
    """Rows by (value, descending, nulls last) keys, the first one weighing most.

    NULLs come first ascending and last descending, or last both ways when asked.
    """
    result = list(rows)
    for value_of, descending, nulls_last in reversed(keys):
        null = _NULL_LAST if nulls_last and not descending else _NULL_FIRST
        # Computed before sorting: an error in a key must not depend on who is compared.
        decorated = [(_key(value_of(row), null), row) for row in result]
        decorated.sort(key=lambda pair: pair[0], reverse=descending)
        result = [row for _, row in decorated]
    return result


def _key(value: Any, null: tuple[int, ...]) -> tuple[Any, ...]:
    return null if value is None else (1, comparable(value))


def in_tie_order(rows: Sequence[Row]) -> list[Row]:
    """Rows by the ids of what they bind, variables in order of appearance, paths last."""
    if not rows:
        return []
    named = [v for v in rows[0].bindings if v.name != "_"]
    named.sort(key=lambda v: (v.kind is VariableKind.PATH, v.id))
    return sorted_by(rows, [(partial(_bound, variable), False, False) for variable in named])


def _bound(variable: Variable, row: Row) -> Any:
    return row.bound(variable)
