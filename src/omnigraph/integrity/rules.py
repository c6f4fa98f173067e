"""What rows and the graph must satisfy, as data derived from the catalog.

`row_rules` hold for each row alone, `graph_rules` for the state that a write leaves. All evaluators
(`row_checks` and `graph_checks` here, `load.bulk_checks` for inputs of any size) read these lists,
so a rule is declared in one place only. `name` is the name of the rule in a violation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from omnigraph.catalog.model import (
    ID,
    SOURCE,
    TARGET,
    Catalog,
    Check,
    EdgeType,
    EntityType,
    Range,
    Unique,
)
from omnigraph.values.coercion import coerce
from omnigraph.values.identifiers import TableKey, node_table
from omnigraph.values.scalars import (
    FLOAT_KINDS,
    TEMPORAL_KINDS,
    EnumType,
    ListType,
    ScalarType,
    ValueType,
    VectorType,
)


@dataclass(frozen=True, slots=True)
class Required:
    """The column is never NULL."""

    column: str
    name: ClassVar[str] = "required"


@dataclass(frozen=True, slots=True)
class OneOf:
    """The text is one of these values."""

    column: str
    values: tuple[str, ...]
    name: ClassVar[str] = "enum"


@dataclass(frozen=True, slots=True)
class Finite:
    """Numbers (of a list: each of them) are neither infinite nor NaN."""

    column: str
    name: ClassVar[str] = "finite"


@dataclass(frozen=True, slots=True)
class InCalendar:
    """Dates and datetimes (of a list: each of them) are in the years 1 to 9999."""

    column: str
    name: ClassVar[str] = "calendar"


@dataclass(frozen=True, slots=True)
class FiniteVector:
    """Exactly `width` finite numbers."""

    column: str
    width: int
    name: ClassVar[str] = "vector"


@dataclass(frozen=True, slots=True)
class NoNullItems:
    """No element of the list is NULL."""

    column: str
    name: ClassVar[str] = "list"


@dataclass(frozen=True, slots=True)
class Between:
    """Inclusive bounds of the column's own type; None is open."""

    column: str
    minimum: Any
    maximum: Any
    name: ClassVar[str] = "range"


@dataclass(frozen=True, slots=True)
class Matches:
    """The text contains a match of this Python regular expression."""

    column: str
    pattern: str
    name: ClassVar[str] = "check"


@dataclass(frozen=True, slots=True)
class DerivedId:
    """`id` is the canonical spelling of these columns."""

    members: tuple[str, ...]
    name: ClassVar[str] = "key"


RowRule = (
    Required
    | OneOf
    | Finite
    | InCalendar
    | FiniteVector
    | NoNullItems
    | Between
    | Matches
    | DerivedId
)


@dataclass(frozen=True, slots=True)
class DistinctIds:
    """An id occurs once in a table."""

    table: TableKey
    name: ClassVar[str] = "duplicate_id"


@dataclass(frozen=True, slots=True)
class UniqueTuple:
    """No two rows have the same values; rows with a NULL among them are not checked."""

    table: TableKey
    columns: tuple[str, ...]
    name: ClassVar[str] = "unique"


@dataclass(frozen=True, slots=True)
class EndpointExists:
    """`column` of an edge table holds ids of `node`."""

    table: TableKey
    column: str
    node: TableKey
    name: ClassVar[str] = "endpoint"


@dataclass(frozen=True, slots=True)
class EdgesPerSource:
    """Every entity of `node` has `minimum` to `maximum` (None: any number) edges of `table`."""

    table: TableKey
    node: TableKey
    minimum: int
    maximum: int | None
    name: ClassVar[str] = "cardinality"


GraphRule = DistinctIds | UniqueTuple | EndpointExists | EdgesPerSource


def row_rules(entity: EntityType) -> tuple[RowRule, ...]:
    """Rules that one row of `entity` can break by itself."""
    system = (ID, SOURCE, TARGET) if isinstance(entity, EdgeType) else (ID,)
    rules: list[RowRule] = [Required(name) for name in system]
    for declared in entity.properties:
        if not declared.nullable:
            rules.append(Required(declared.name))
        rules += _type_rules(declared.name, declared.type)
    types = {p.name: p.type for p in entity.properties}
    for constraint in entity.constraints:
        match constraint:
            case Range(name, low, high):
                kind = types[name]
                bounds = [None if b is None else coerce(b, kind) for b in (low, high)]
                rules.append(Between(name, *bounds))
            case Check(name, pattern):
                rules.append(Matches(name, pattern))
            case _:
                pass
    if entity.key:
        rules.append(DerivedId(entity.key))
    return tuple(rules)


def _type_rules(name: str, declared: ValueType) -> list[RowRule]:
    match declared:
        case EnumType(values):
            return [OneOf(name, values)]
        case ScalarType(kind) if kind in FLOAT_KINDS:
            return [Finite(name)]
        case ScalarType(kind) if kind in TEMPORAL_KINDS:
            return [InCalendar(name)]
        case ListType(element):
            return [NoNullItems(name), *_type_rules(name, ScalarType(element))]
        case VectorType(width):
            return [FiniteVector(name, width)]
        case _:
            return []


def graph_rules(entity: EntityType) -> tuple[GraphRule, ...]:
    """Rules about several rows that a write of `entity`'s table can break."""
    key = entity.table_key
    rules: list[GraphRule] = [DistinctIds(key)]
    rules += [UniqueTuple(key, c.properties) for c in entity.constraints if isinstance(c, Unique)]
    if isinstance(entity, EdgeType):
        rules.append(EndpointExists(key, SOURCE, node_table(entity.source)))
        rules.append(EndpointExists(key, TARGET, node_table(entity.target)))
        bounds = entity.cardinality
        if bounds is not None and (bounds.minimum > 0 or bounds.maximum is not None):
            source = node_table(entity.source)
            rules.append(EdgesPerSource(key, source, bounds.minimum, bounds.maximum))
    return tuple(rules)


def checked_columns(entity: EntityType) -> tuple[str, ...]:
    """The columns that the graph rules of `entity` read: a `TableDelta` needs no others."""
    system = (ID, SOURCE, TARGET) if isinstance(entity, EdgeType) else (ID,)
    unique = [c.properties for c in entity.constraints if isinstance(c, Unique)]
    return tuple(dict.fromkeys([*system, *(name for names in unique for name in names)]))


def edges_touching(catalog: Catalog, node: TableKey) -> tuple[EdgeType, ...]:
    """Edge types that start or end at this node type."""
    return tuple(e for e in catalog.edges if node.type_name in (e.source, e.target))
