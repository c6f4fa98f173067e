"""A planned schema change as data: codes, permissions, changes of tables, questions to the rows.

`schema.evolve` makes these from two catalogs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from omnigraph.catalog.model import Catalog, EntityType, Property
from omnigraph.schema import steps as st
from omnigraph.schema.steps import PlannedStep
from omnigraph.syntax.severities import SeverityLevel, read_severities
from omnigraph.values.identifiers import TableKey
from omnigraph.values.scalars import EnumType, LiteralValue, ScalarKind, ValueType

DROPPED_NODE, DROPPED_EDGE = "OG-DS-102", "OG-DS-103"
DROPPED_PROPERTY, DROPPED_VECTOR = "OG-DS-104", "OG-DS-105"
UNIQUE, RANGE_OR_CHECK, NO_DEFAULT, NULLS = "OG-MF-101", "OG-MF-102", "OG-MF-103", "OG-MF-104"
CARDINALITY, TYPE_CHANGE, ENUM_NARROWING = "OG-MF-105", "OG-MF-106", "OG-MF-107"
CONSTRAINT_REMOVED = "OG-CD-101"
PROBABLE_RENAME, BREAKS_QUERIES, RENAME_CYCLE = "OG-BC-101", "OG-BC-102", "OG-BC-103"
UNKNOWN_ANNOTATION = "OG-NM-101"
BRANCH_BEHIND = "OG-NL-101"
VECTORS_INVALID = "OG-VE-101"
LARGE_REWRITE = "OG-LK-101"
ENDPOINTS = "OG-ED-101"

CODES = {
    DROPPED_NODE: "a node type is dropped",
    DROPPED_EDGE: "an edge type is dropped",
    DROPPED_PROPERTY: "a property is dropped",
    DROPPED_VECTOR: "a vector property is dropped",
    UNIQUE: "stored entities must be unique",
    RANGE_OR_CHECK: "stored values must keep a new @range or @check",
    NO_DEFAULT: "a required property is added and existing entities have no value for it",
    NULLS: "a nullable property becomes required",
    CARDINALITY: "stored edges must keep a tighter @card",
    TYPE_CHANGE: "stored values must be convertible to another type",
    ENUM_NARROWING: "stored values must be among fewer enum values",
    CONSTRAINT_REMOVED: "a constraint is no longer enforced",
    PROBABLE_RENAME: "a drop and an addition look like a rename",
    BREAKS_QUERIES: "stored queries use a name that changes",
    RENAME_CYCLE: "names are swapped in one change",
    UNKNOWN_ANNOTATION: "an annotation that has no meaning here",
    BRANCH_BEHIND: "a branch cannot follow this change",
    VECTORS_INVALID: "stored vectors do not fit and are removed",
    LARGE_REWRITE: "many values are written anew",
    ENDPOINTS: "stored edges must connect the new types",
}

SEVERITIES = dict.fromkeys(CODES, SeverityLevel.WARN) | {RENAME_CYCLE: SeverityLevel.ERROR}
"""What a step with the code means to a plan unless its caller says otherwise.

An error refuses the change, a warning is listed, and `off` leaves the code out.
"""

NEVER_OFF = frozenset({DROPPED_NODE, DROPPED_EDGE, DROPPED_PROPERTY, DROPPED_VECTOR, RENAME_CYCLE})

ALLOW_DATA_LOSS, BACKFILL, REEMBED = "allow_data_loss", "backfill", "reembed"

KNOWN_ANNOTATIONS = frozenset(
    {"default", "embed", "description", "instruction", "protected", "rename_from", "rename_value"}
    | {"allow"}
)

WIDER: dict[ScalarKind, frozenset[ScalarKind]] = {
    ScalarKind.I32: frozenset({ScalarKind.I64, ScalarKind.F64}),
    ScalarKind.U32: frozenset({ScalarKind.U64, ScalarKind.I64, ScalarKind.F64}),
    ScalarKind.F32: frozenset({ScalarKind.F64}),
    ScalarKind.DATE: frozenset({ScalarKind.DATETIME}),
}


@dataclass(frozen=True, slots=True)
class Granted:
    """What the caller of a schema change allows and supplies."""

    allow_data_loss: bool = False
    backfill: Mapping[str, LiteralValue] = field(default_factory=dict)
    """`Type.property` -> an expression over the entity's own properties, or a constant."""
    reembed: bool = False
    severity: Mapping[str, SeverityLevel] = field(default_factory=dict)
    """Code -> level, where it differs from `SEVERITIES`."""

    def level(self, code: str) -> SeverityLevel:
        return self.severity.get(code, SEVERITIES[code])


def read_severity(given: Mapping[str, str] | None) -> dict[str, SeverityLevel]:
    """The severities of a caller: code -> `error`, `warn` or `off`."""
    return read_severities(given or {}, CODES, NEVER_OFF)


class FillSource(StrEnum):
    """Where the values of a backfill come from."""

    DEFAULT = "default"
    CONSTANT = "constant"
    EXPRESSION = "expression"
    EMBEDDING = "embedding"


@dataclass(frozen=True, slots=True)
class Fill:
    """The values for stored entities that have none."""

    source: FillSource
    value: object = None
    """A constant, or the `GeneratedDefault` of the schema."""
    expression: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """How one property of the new type comes about from the old one."""

    after: Property
    before: Property | None = None
    converts: bool = False
    """The stored values have another Arrow type afterwards."""
    is_lossy: bool = False
    """A value that cannot be converted becomes NULL; without this it refuses the change."""
    mapping: tuple[tuple[str, str], ...] = ()
    """Enum values that are replaced."""
    fill: Fill | None = None
    discards: bool = False
    """The property exists already, and its stored values are removed."""

    @property
    def is_written(self) -> bool:
        return self.converts or bool(self.mapping) or self.fill is not None


@dataclass(frozen=True, slots=True)
class TableChange:
    """One type before and after; None where it does not exist."""

    before: EntityType | None
    after: EntityType | None
    columns: tuple[ColumnChange, ...] = ()
    rekeys: bool = False
    """Ids are spelled from another key afterwards."""
    remaps: tuple[tuple[str, TableKey], ...] = ()
    """Ends of edges, with the node types whose ids change: `("src", node:Person)`."""

    @property
    def moves_columns(self) -> bool:
        """The columns of the table change, or their values."""
        if self.before is None or self.after is None:
            return False
        reshaped = _shape(self.before) != _shape(self.after)
        return self.rekeys or reshaped or self.is_written or self.discards

    @property
    def is_written(self) -> bool:
        """Values of the table are written anew."""
        columns = any(column.is_written for column in self.columns)
        return columns or self.rekeys or bool(self.remaps)

    @property
    def discards(self) -> bool:
        return any(column.discards for column in self.columns)


class CheckKind(StrEnum):
    """What a check asks of stored rows, as they will be after the change."""

    REQUIRED = "required"
    CONVERTIBLE = "convertible"
    VALUES = "values"
    UNIQUE = "unique"
    CARDINALITY = "cardinality"
    ENDPOINTS = "endpoints"


@dataclass(frozen=True, slots=True)
class DataCheck:
    """A question to the stored rows of one type; names are those after the change."""

    kind: CheckKind
    table: TableKey
    columns: tuple[str, ...]
    code: str
    constraint: str
    """How reports name it."""


@dataclass(frozen=True, slots=True)
class SchemaChanges:
    """A planned change, before the stored rows were asked."""

    target: Catalog
    steps: tuple[PlannedStep, ...]
    tables: tuple[TableChange, ...]
    checks: tuple[DataCheck, ...] = ()
    requires: tuple[str, ...] = ()
    """What the caller has to grant: `allow_data_loss`, `backfill`, `reembed`."""
    warnings: tuple[str, ...] = ()

    @property
    def refusals(self) -> tuple[st.UnsupportedChange, ...]:
        return tuple(s.step for s in self.steps if isinstance(s.step, st.UnsupportedChange))


def _shape(entity: EntityType) -> list[tuple[str, ValueType | None, bool, str]]:
    return [
        (p.name, None if isinstance(p.type, EnumType) else p.type, p.nullable, p.identity)
        for p in entity.properties
    ]
