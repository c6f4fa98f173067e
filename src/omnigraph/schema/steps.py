"""Steps of a schema change, as data; whoever applies them does the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnigraph.catalog.constraints import Cardinality, Constraint
from omnigraph.catalog.model import Annotation, Literal, Property
from omnigraph.values.identifiers import TableKey
from omnigraph.values.scalars import ValueType


@dataclass(frozen=True, slots=True)
class AddType:
    """A new, empty table."""

    table: TableKey


@dataclass(frozen=True, slots=True)
class RenameType:
    """Same data, new name; the table keeps its place on disk."""

    table: TableKey
    new_name: str


@dataclass(frozen=True, slots=True)
class DropType:
    """Soft: gone from the schema, data still reachable in older commits. Hard: data removed."""

    table: TableKey
    hard: bool


@dataclass(frozen=True, slots=True)
class AddProperty:
    """A new column; `backfill` is what existing rows get."""

    table: TableKey
    property: Property
    backfill: Literal


@dataclass(frozen=True, slots=True)
class RenameProperty:
    """Same data, new name."""

    table: TableKey
    property: str
    new_name: str


@dataclass(frozen=True, slots=True)
class DropProperty:
    """Soft: gone from the schema, data still reachable in older commits. Hard: data removed."""

    table: TableKey
    property: str
    hard: bool


@dataclass(frozen=True, slots=True)
class WidenProperty:
    """Every old value is a value of the new type."""

    table: TableKey
    property: str
    old: ValueType
    new: ValueType


@dataclass(frozen=True, slots=True)
class ExtendEnum:
    """More allowed values."""

    table: TableKey
    property: str
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShrinkEnum:
    """Fewer allowed values; checked: no row may hold a removed one."""

    table: TableKey
    property: str
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MakeNullable:
    """NULL becomes allowed."""

    table: TableKey
    property: str


@dataclass(frozen=True, slots=True)
class MakeRequired:
    """NULL becomes forbidden; `backfill` replaces NULLs, without it no row may hold one."""

    table: TableKey
    property: str
    backfill: Literal


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """Checked against the existing rows before it is accepted (an index needs no check)."""

    table: TableKey
    constraint: Constraint


@dataclass(frozen=True, slots=True)
class RemoveConstraint:
    """No longer enforced."""

    table: TableKey
    constraint: Constraint


@dataclass(frozen=True, slots=True)
class ChangeCardinality:
    """Checked against the existing edges when it became narrower."""

    table: TableKey
    old: Cardinality | None
    new: Cardinality | None


@dataclass(frozen=True, slots=True)
class ChangeAnnotations:
    """Descriptions, defaults for new rows and other notes; no data changes."""

    table: TableKey
    property: str | None
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True)
class ChangeInterfaces:
    """Interfaces as such, or the list a node implements; the properties have their own steps."""

    table: TableKey | None
    interfaces: tuple[str, ...]


SchemaStep = (
    AddType
    | RenameType
    | DropType
    | AddProperty
    | RenameProperty
    | DropProperty
    | WidenProperty
    | ExtendEnum
    | ShrinkEnum
    | MakeNullable
    | MakeRequired
    | AddConstraint
    | RemoveConstraint
    | ChangeCardinality
    | ChangeAnnotations
    | ChangeInterfaces
)

_CHECKED = (AddConstraint, ShrinkEnum, MakeRequired)


def needs_check(step: SchemaStep) -> bool:
    """Whether existing rows decide if the step is possible."""
    return isinstance(step, (*_CHECKED, ChangeCardinality))


def step_to_json(step: SchemaStep) -> dict[str, Any]:
    """`{"step": "add_property", …}` as `schema plan --json` prints it."""
    name = "".join(f"_{c.lower()}" if c.isupper() else c for c in type(step).__name__)
    out: dict[str, Any] = {"step": name.lstrip("_")}
    for field in type(step).__dataclass_fields__:
        value = getattr(step, field)
        match value:
            case None | bool() | int() | float() | str():
                out[field] = value
            case tuple() if all(isinstance(item, str) for item in value):
                out[field] = list(value)
            case Property(name=name, type=kind, nullable=nullable):
                out[field] = f"{name}: {kind}{'?' if nullable else ''}"
            case _:
                out[field] = str(value)
    return out
