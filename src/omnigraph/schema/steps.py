"""The steps of a schema change, as data, in the words of the JSON that plans are made of.

The fields of a step are the keys of its JSON; `kind` is the name of the class. A `PlannedStep` adds
what the planner found out about it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from omnigraph.catalog.declared_types import (
    DeclaredType,
    annotation_to_json,
    constraint_to_json,
    property_type_to_json,
)
from omnigraph.catalog.model import (
    Annotation,
    Cardinality,
    Check,
    Constraint,
    Index,
    Key,
    Range,
    Unique,
)
from omnigraph.values.scalars import (
    LiteralValue,
)


class StepClass(StrEnum):
    """What a step does to stored rows."""

    METADATA = "metadata"
    """No row is read or written."""
    VALIDATED = "validated"
    """Rows are read: the step is refused if one of them breaks it."""
    REWRITE = "rewrite"
    """Values of one column are written anew."""
    LOSSY = "lossy"
    """Values are gone afterwards, except from older commits."""


class Conversion(StrEnum):
    """How the values of a property get another type."""

    LOSSLESS = "lossless"
    CAST = "cast"
    REEMBED = "reembed"


@dataclass(frozen=True, slots=True)
class AddType:
    """A new, empty type."""

    type_kind: str
    name: str


@dataclass(frozen=True, slots=True)
class RenameType:
    """Same entities and identity, new name."""

    type_kind: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class DropType:
    """The type leaves the schema; older commits still have its entities."""

    type_kind: str
    name: str
    mode: str = "soft"


@dataclass(frozen=True, slots=True)
class AddProperty:
    """A new property; existing entities have NULL in it unless a backfill follows."""

    type_kind: str
    type_name: str
    property_name: str
    property_type: DeclaredType


@dataclass(frozen=True, slots=True)
class RenameProperty:
    """Same values and identity, new name."""

    type_kind: str
    type_name: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class DropProperty:
    """The property leaves the schema; older commits still have its values."""

    type_kind: str
    type_name: str
    property_name: str
    mode: str = "soft"


@dataclass(frozen=True, slots=True)
class ChangePropertyType:
    """Every value is converted."""

    type_kind: str
    type_name: str
    property_name: str
    from_type: DeclaredType
    to_type: DeclaredType
    conversion: Conversion


@dataclass(frozen=True, slots=True)
class SetNullable:
    """NULL becomes allowed."""

    type_kind: str
    type_name: str
    property_name: str


@dataclass(frozen=True, slots=True)
class SetRequired:
    """NULL becomes forbidden."""

    type_kind: str
    type_name: str
    property_name: str


@dataclass(frozen=True, slots=True)
class BackfillProperty:
    """Existing entities without a value get one."""

    type_kind: str
    type_name: str
    property_name: str
    source: str
    value: LiteralValue = None
    expression: str | None = None


@dataclass(frozen=True, slots=True)
class ExtendEnum:
    """More values are allowed."""

    type_kind: str
    type_name: str
    property_name: str
    added_values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NarrowEnum:
    """Fewer values are allowed."""

    type_kind: str
    type_name: str
    property_name: str
    removed_values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RenameEnumValue:
    """Old values are replaced by new ones."""

    type_kind: str
    type_name: str
    property_name: str
    mapping: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """A constraint that existing entities must keep, or an index."""

    type_kind: str
    type_name: str
    constraint: Constraint


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """The constraint is no longer enforced."""

    type_kind: str
    type_name: str
    constraint: Constraint


@dataclass(frozen=True, slots=True)
class ChangeCardinality:
    """Another number of edges for each source."""

    type_kind: str
    type_name: str
    old: Cardinality | None
    new: Cardinality | None


@dataclass(frozen=True, slots=True)
class ChangeEndpoints:
    """The edges connect other types."""

    type_kind: str
    type_name: str
    old: tuple[str, str]
    new: tuple[str, str]


@dataclass(frozen=True, slots=True)
class ChangeImplements:
    """A node type has other interfaces."""

    type_kind: str
    type_name: str
    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RenameInterface:
    """New name of an interface."""

    type_kind: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class DropInterface:
    """An interface leaves the schema; node types keep their properties or lose them themselves."""

    type_kind: str
    name: str


@dataclass(frozen=True, slots=True)
class ChangeEmbedding:
    """Vectors come from another property or another model."""

    type_kind: str
    type_name: str
    property_name: str
    old: tuple[tuple[str, LiteralValue], ...]
    new: tuple[tuple[str, LiteralValue], ...]


@dataclass(frozen=True, slots=True)
class UpdateTypeMetadata:
    """Other annotations of a type."""

    type_kind: str
    name: str
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True)
class UpdatePropertyMetadata:
    """Other annotations of a property."""

    type_kind: str
    type_name: str
    property_name: str
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True)
class UpdateSource:
    """Only comments, layout or the order of declarations changed."""


@dataclass(frozen=True, slots=True)
class UnsupportedChange:
    """A change that is refused; `reason` says why and what to do instead."""

    entity: str
    reason: str
    code: str | None = None


SchemaStep = (
    AddType
    | RenameType
    | DropType
    | AddProperty
    | RenameProperty
    | DropProperty
    | ChangePropertyType
    | SetNullable
    | SetRequired
    | BackfillProperty
    | ExtendEnum
    | NarrowEnum
    | RenameEnumValue
    | AddConstraint
    | DropConstraint
    | ChangeCardinality
    | ChangeEndpoints
    | ChangeImplements
    | RenameInterface
    | DropInterface
    | ChangeEmbedding
    | UpdateTypeMetadata
    | UpdatePropertyMetadata
    | UpdateSource
    | UnsupportedChange
)


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step with its class, its codes and what it costs."""

    step: SchemaStep
    step_class: StepClass = StepClass.METADATA
    codes: tuple[str, ...] = ()
    entities: int = 0
    """Stored entities that the step reads or writes."""
    bytes_estimate: int = 0
    suggestion: str | None = None
    allowed: str | None = None
    """The reason of an `@allow` in the new text, for a step that loses values."""

    @property
    def kind(self) -> str:
        return step_kind(self.step)

    @property
    def is_supported(self) -> bool:
        return not isinstance(self.step, UnsupportedChange)

    def __str__(self) -> str:
        return describe_step(self.step)

    def to_dict(self) -> dict[str, Any]:
        found = step_to_json(self.step) | {
            "text": str(self),
            "class": self.step_class.value,
            "codes": list(self.codes),
            "entities": self.entities,
            "bytes_estimate": self.bytes_estimate,
        }
        told = {"suggestion": self.suggestion, "allowed": self.allowed}
        return found | {name: text for name, text in told.items() if text is not None}


def entity_of(step: SchemaStep) -> str:
    """`node:Person` or `node:Person.age`, as refusals name it; names after the change."""
    if isinstance(step, UnsupportedChange):
        return step.entity
    if isinstance(step, UpdateSource):
        return "schema"
    renamed = step.new if isinstance(step, RenameType | RenameInterface | RenameProperty) else None
    owner = getattr(step, "type_name", None) or getattr(step, "name", None) or renamed
    inner = renamed if isinstance(step, RenameProperty) else getattr(step, "property_name", None)
    return f"{step.type_kind}:{owner}" + (f".{inner}" if inner else "")


def step_kind(step: SchemaStep) -> str:
    return kind_of(type(step))


def kind_of(step: type) -> str:
    """How JSON calls a class of steps."""
    name = "".join(f"_{c.lower()}" if c.isupper() else c for c in step.__name__)
    return name.lstrip("_")


_KEYS = {"old": "from", "new": "to"}


def step_to_json(step: SchemaStep) -> dict[str, Any]:
    """`{"kind": "add_property", "type_kind": "node", …}`."""
    found: dict[str, Any] = {"kind": step_kind(step)}
    for field in fields(step):
        value = getattr(step, field.name)
        if value is None and field.default is None:
            continue
        found[_KEYS.get(field.name, field.name)] = _spell(field.name, value)
    return found


def _spell(name: str, value: Any) -> Any:
    match value:
        case DeclaredType():
            return property_type_to_json(value)
        case Cardinality(minimum, maximum):
            return {"min": minimum, "max": maximum}
        case Annotation():
            return annotation_to_json(value)
        case Key() | Unique() | Index() | Range() | Check():
            return constraint_to_json(value)
        case tuple() if name in ("mapping", "old", "new") and value and isinstance(value[0], tuple):
            return dict(value)
        case tuple():
            return [_spell(name, item) for item in value]
        case _:
            return value


_WORDS: dict[type[SchemaStep], str] = {
    AddType: "add {type_kind} {name}",
    RenameType: "rename {type_kind} {old} to {new}",
    DropType: "drop {type_kind} {name}",
    AddProperty: "add {type_name}.{property_name}: {property_type}",
    RenameProperty: "rename {type_name}.{old} to {type_name}.{new}",
    DropProperty: "drop {type_name}.{property_name}",
    ChangePropertyType: "change {type_name}.{property_name} from {from_type} to {to_type} "
    "({conversion})",
    SetNullable: "allow NULL in {type_name}.{property_name}",
    SetRequired: "require {type_name}.{property_name}",
    BackfillProperty: "fill {type_name}.{property_name} with {filled}",
    ExtendEnum: "allow {added_values} in {type_name}.{property_name}",
    NarrowEnum: "no longer allow {removed_values} in {type_name}.{property_name}",
    RenameEnumValue: "rename values of {type_name}.{property_name}: {mapping}",
    AddConstraint: "add {constraint} to {type_name}",
    DropConstraint: "remove {constraint} from {type_name}",
    ChangeCardinality: "change {type_name} from {old} to {new}",
    ChangeEndpoints: "connect {type_name} from {new}, before from {old}",
    ChangeImplements: "{type_name} implements {new}, before {old}",
    RenameInterface: "rename interface {old} to {new}",
    DropInterface: "drop interface {name}",
    ChangeEmbedding: "make the vectors of {type_name}.{property_name} from {new}, before {old}",
    UpdateTypeMetadata: "new annotations of {name}",
    UpdatePropertyMetadata: "new annotations of {type_name}.{property_name}",
    UpdateSource: "new text of the schema: comments, layout or order",
    UnsupportedChange: "{entity}: {reason}",
}


def describe_step(step: SchemaStep) -> str:
    """One line for people."""
    shown = {field.name: _show(getattr(step, field.name)) for field in fields(step)}
    if isinstance(step, BackfillProperty):
        shown["filled"] = step.expression if step.expression is not None else repr(step.value)
    if isinstance(step, ChangeEndpoints):
        shown |= {"old": " to ".join(step.old), "new": " to ".join(step.new)}
    return _WORDS[type(step)].format_map(shown)


def _show(value: Any) -> str:
    match value:
        case Key() | Unique() | Index() | Range() | Check():
            return spell_constraint(value)
        case Cardinality(minimum, maximum):
            return f"@card({minimum}..{'' if maximum is None else maximum})"
        case tuple():
            pairs = [f"{v[0]} to {v[1]}" if isinstance(v, tuple) else str(v) for v in value]
            return ", ".join(pairs) or "none"
        case None:
            return "none"
        case _:
            return str(value)


def spell_constraint(constraint: Constraint) -> str:
    match constraint:
        case Key() | Unique() | Index():
            return f"@{type(constraint).__name__.lower()}({', '.join(constraint.properties)})"
        case Range(name, minimum, maximum):
            low, high = ("" if bound is None else bound for bound in (minimum, maximum))
            return f"@range({name}, {low}..{high})"
        case Check(name, pattern):
            return f"@check({name}, {pattern!r})"
