"""The catalog: types, properties, constraints and annotations of a graph.

All of it is frozen, compared by value, and independent of schema text and storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from omnigraph.errors import NotFound
from omnigraph.values.identifiers import EntityKind, TableKey
from omnigraph.values.known_names import did_you_mean
from omnigraph.values.scalars import LiteralValue, ScalarKind, ValueType

ID = "id"
SOURCE = "src"
TARGET = "dst"
"""System columns: every table has `id`, the table of an edge type has `src` and `dst` too."""

ENDPOINT_COLUMNS = {"from": SOURCE, "src": SOURCE, "to": TARGET, "dst": TARGET}
"""The words for the endpoints of an edge in queries and constraints, and their columns."""

_SPELLED = {SOURCE: "from", TARGET: "to"}


def spelled(column: str) -> str:
    """A column as users write it; `src` and `dst` are reserved, so they are always endpoints."""
    return _SPELLED.get(column, column)


@dataclass(frozen=True, slots=True)
class Key:
    """Identifies an entity: its `id` is spelled from these columns, in this order.

    The key of an edge begins with `src` and `dst`.
    """

    properties: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unique:
    """No two entities have equal values in all of these properties; a NULL equals nothing."""

    properties: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """Lookups and searches on these properties use an index."""

    properties: tuple[str, ...]
    options: tuple[tuple[str, str | int | float | bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive bounds of a value; None leaves that side open."""

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


@dataclass(frozen=True, slots=True)
class GeneratedDefault:
    """`@default(now())` or `@default(uuid())`: every write makes the value again."""

    function: str


GENERATED_KINDS = {
    "now": frozenset({ScalarKind.DATE, ScalarKind.DATETIME}),
    "uuid": frozenset({ScalarKind.STRING}),
}
"""The functions of a `GeneratedDefault`, and the types that their values can have."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """`@name(arguments, option=value)`. Annotations with an unknown name are kept."""

    name: str
    arguments: tuple[LiteralValue | GeneratedDefault, ...] = ()
    options: tuple[tuple[str, LiteralValue], ...] = ()


@dataclass(frozen=True, slots=True)
class Property:
    """One typed property. `identity` stays the same after a rename."""

    name: str
    type: ValueType
    nullable: bool = False
    identity: str = ""
    annotations: tuple[Annotation, ...] = ()
    also: tuple[str, ...] = ()
    """Identities that it has on branches that added it on their own, before they were merged."""


@dataclass(frozen=True, slots=True)
class InterfaceType:
    """Properties that several node types share; an interface has no table."""

    name: str
    properties: tuple[Property, ...]
    constraints: tuple[Constraint, ...] = ()
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True)
class NodeType:
    """A node type; the properties of its interfaces are among its own."""

    name: str
    properties: tuple[Property, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    implements: tuple[str, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    identity: str = ""
    also: tuple[str, ...] = ()

    @property
    def table_key(self) -> TableKey:
        return TableKey(EntityKind.NODE, self.name)

    @cached_property
    def key(self) -> tuple[str, ...]:
        """Properties of the key, in the order of the id; empty when ids are ULIDs."""
        return _key_of(self.constraints)


@dataclass(frozen=True)
class EdgeType:
    """An edge type from one node type to another."""

    name: str
    source: str
    target: str
    properties: tuple[Property, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    cardinality: Cardinality | None = None
    annotations: tuple[Annotation, ...] = ()
    identity: str = ""
    also: tuple[str, ...] = ()

    @property
    def table_key(self) -> TableKey:
        return TableKey(EntityKind.EDGE, self.name)

    @cached_property
    def key(self) -> tuple[str, ...]:
        """`src`, `dst` and properties of the key, in the order of the id; empty without a key."""
        return _key_of(self.constraints)


def _key_of(constraints: tuple[Constraint, ...]) -> tuple[str, ...]:
    return next((c.properties for c in constraints if isinstance(c, Key)), ())


EntityType = NodeType | EdgeType


@dataclass(frozen=True)
class Catalog:
    """All types of a graph, in declaration order."""

    nodes: tuple[NodeType, ...] = ()
    edges: tuple[EdgeType, ...] = ()
    interfaces: tuple[InterfaceType, ...] = ()

    @cached_property
    def node_types(self) -> dict[str, NodeType]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def edge_types(self) -> dict[str, EdgeType]:
        return {edge.name: edge for edge in self.edges}

    def entity_types(self) -> Iterator[EntityType]:
        yield from self.nodes
        yield from self.edges

    def entity_type(self, key: TableKey) -> EntityType:
        found: EntityType | None = (
            self.node_types.get(key.type_name)
            if key.kind is EntityKind.NODE
            else self.edge_types.get(key.type_name)
        )
        if found is None:
            raise NotFound(
                f"no {key.kind.value} type {key.type_name!r} in the schema", type=str(key)
            )
        return found

    def resolve(self, type_name: str) -> EntityType:
        """The type of this name; node and edge types share one namespace."""
        found = self.node_types.get(type_name) or self.edge_types.get(type_name)
        if found is None:
            hint = did_you_mean(type_name, (t.name for t in self.entity_types()))
            raise NotFound(
                f"no type {type_name!r} in the schema; {hint or 'it is empty'}", type=type_name
            )
        return found


@dataclass(frozen=True, slots=True)
class Embedding:
    """`@embed("bio", model="…")`: the property that a vector is made from, and the model."""

    source: str
    model: str | None


def find_annotation(annotations: tuple[Annotation, ...], name: str) -> Annotation | None:
    return next((annotation for annotation in annotations if annotation.name == name), None)


def default_of(declared: Property) -> LiteralValue | GeneratedDefault:
    """The value of `@default`; None without one, because NULL is then the default."""
    found = find_annotation(declared.annotations, "default")
    return found.arguments[0] if found else None


def generated_defaults(entity: EntityType) -> dict[str, GeneratedDefault]:
    """The properties of a type whose default every write makes."""
    defaults = ((p.name, default_of(p)) for p in entity.properties)
    return {name: value for name, value in defaults if isinstance(value, GeneratedDefault)}


def renamed_from(annotations: tuple[Annotation, ...]) -> str | None:
    """The old name that `@rename_from` gives."""
    found = find_annotation(annotations, "rename_from")
    return str(found.arguments[0]) if found and found.arguments else None


def is_protected(annotations: tuple[Annotation, ...]) -> bool:
    """`@protected`: a schema change never drops this type or property."""
    return find_annotation(annotations, "protected") is not None


def allowances(annotations: tuple[Annotation, ...]) -> dict[str, str]:
    """Code of a schema step -> the reason why `@allow` permits it here."""
    given = (a.arguments for a in annotations if a.name == "allow" and len(a.arguments) == 2)
    return {str(code): str(reason) for code, reason in given}


def renamed_values(annotations: tuple[Annotation, ...]) -> dict[str, str]:
    """Old value of an enum -> the value that `@rename_value` replaces it with."""
    given = (a.arguments for a in annotations if a.name == "rename_value" and len(a.arguments) == 2)
    return {str(old): str(new) for old, new in given}


def embedding_of(declared: Property) -> Embedding | None:
    found = find_annotation(declared.annotations, "embed")
    if found is None:
        return None
    model = dict(found.options).get("model")
    return Embedding(str(found.arguments[0]), None if model is None else str(model))
