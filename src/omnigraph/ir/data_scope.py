"""The part of a graph that rules let an actor read or write: types, properties and rows.

A `DataScope` belongs to one catalog. Where code takes `DataScope | None`, None means everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.ir.expressions import Expression


@dataclass(frozen=True, slots=True)
class TypeScope:
    """The part of one type: its properties without `hidden`, and the rows that `rows` keeps."""

    hidden: frozenset[str] = frozenset()
    rows: Expression | None = None
    """A predicate over `RowProperty`; a row is in scope when it is true. None: every row."""


@dataclass(frozen=True, slots=True)
class DataScope:
    """The types in scope by name; a type that is not listed is out of scope.

    An edge is in scope only if both of its ends are.
    """

    key: str
    """Equal for actors with equal rules, so caches may be shared by this key."""
    types: Mapping[str, TypeScope]
