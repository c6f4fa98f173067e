"""Constraints as data: declared here, evaluated elsewhere."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """Names the node: `id` is the canonical spelling of these properties, in this order."""

    properties: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unique:
    """No two entities share this tuple; tuples with a NULL are ignored."""

    properties: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """The user wants lookups and search on these properties to be fast."""

    properties: tuple[str, ...]
    options: tuple[tuple[str, str | int | float | bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive bounds; None is open."""

    property: str
    minimum: int | float | str | None
    maximum: int | float | str | None


@dataclass(frozen=True, slots=True)
class Check:
    """The text must contain a match of this regular expression."""

    property: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Cardinality:
    """How many edges of a type one source may have."""

    minimum: int
    maximum: int | None


Constraint = Key | Unique | Index | Range | Check
