"""The steps of a schema change, as data."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from omnigraph.catalog.model import (
    Annotation,
    Cardinality,
    Check,
    Constraint,
    Index,
    Key,
    Property,
    Range,
    Unique,
)
from omnigraph.syntax.source_text import write_literal
from omnigraph.values.identifiers import TableKey
from omnigraph.values.scalars import LiteralValue, ValueType


@dataclass(frozen=True, slots=True)
class AddType:
    """A new, empty table."""

    table: TableKey


@dataclass(frozen=True, slots=True)
class RenameType:
    """Same data, new name; the table keeps its directory."""

    table: TableKey
    new_name: str


@dataclass(frozen=True, slots=True)
class DropType:
    """Soft: gone from the schema, data still reachable in older commits. Hard: data removed."""

    table: TableKey
    hard: bool


@dataclass(frozen=True, slots=True)
class AddProperty:
    """A new column; `backfill` is the value for existing rows."""

    table: TableKey
    property: Property
    backfill: LiteralValue


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
    """Fewer allowed values; a check ensures that no row holds a removed one."""

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
    """NULL becomes forbidden; `backfill` replaces NULLs. Without it no row may hold a NULL."""

    table: TableKey
    property: str
    backfill: LiteralValue


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """The constraint is checked against the existing rows; an index needs no check."""

    table: TableKey
    constraint: Constraint


@dataclass(frozen=True, slots=True)
class RemoveConstraint:
    """No longer enforced."""

    table: TableKey
    constraint: Constraint


@dataclass(frozen=True, slots=True)
class ChangeCardinality:
    """A narrower cardinality is checked against the existing edges."""

    table: TableKey
    old: Cardinality | None
    new: Cardinality | None


@dataclass(frozen=True, slots=True)
class ChangeAnnotations:
    """New descriptions, defaults for new rows or other annotations; no data changes."""

    table: TableKey
    property: str | None
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True)
class ChangeInterfaces:
    """New interfaces of the schema (`table` None) or of a node; properties have other steps."""

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


def needs_check(step: SchemaStep) -> bool:
    """The step is possible only if the existing rows allow it."""
    match step:
        case AddConstraint(_, constraint):
            return not isinstance(constraint, Index)
        case ShrinkEnum():
            return True
        case MakeRequired(_, _, backfill):
            return backfill is None
        case ChangeCardinality(_, old, new):
            return _is_narrower(old or _ANY, new or _ANY)
        case _:
            return False


_ANY = Cardinality(0, None)


def _is_narrower(old: Cardinality, new: Cardinality) -> bool:
    higher = new.minimum > old.minimum
    return higher or (
        new.maximum is not None and (old.maximum is None or new.maximum < old.maximum)
    )


def step_to_json(step: SchemaStep) -> dict[str, Any]:
    """The step in JSON: `{"step": "add_property", …}`."""
    name = "".join(f"_{c.lower()}" if c.isupper() else c for c in type(step).__name__)
    out: dict[str, Any] = {"step": name.lstrip("_")}
    for field in fields(step):
        out[field.name] = _spell(getattr(step, field.name))
    return out


def _spell(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case tuple():
            return [_spell(item) for item in value]
        case Property(name=name, type=kind, nullable=nullable):
            return f"{name}: {kind}{'?' if nullable else ''}"
        case Cardinality(minimum, maximum):
            return f"@card({minimum}..{'' if maximum is None else maximum})"
        case Annotation(name, arguments, options):
            given = [write_literal(argument) for argument in arguments]
            given += [f"{option}={write_literal(setting)}" for option, setting in options]
            return f"@{name}({', '.join(given)})" if given else f"@{name}"
        case Key() | Unique() | Index():
            return f"@{type(value).__name__.lower()}({', '.join(value.properties)})"
        case Range(name, minimum, maximum):
            low, high = ("" if b is None else write_literal(b) for b in (minimum, maximum))
            return f"@range({name}, {low}..{high})"
        case Check(name, pattern):
            return f"@check({name}, {write_literal(pattern)})"
        case _:
            return str(value)
