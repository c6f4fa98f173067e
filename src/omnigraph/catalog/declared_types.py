"""Types, properties and constraints as JSON, in the words of plans and `schema show`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnigraph.catalog.model import (
    Annotation,
    Catalog,
    Check,
    Constraint,
    EdgeType,
    Index,
    InterfaceType,
    Key,
    NodeType,
    Property,
    Range,
    Unique,
)
from omnigraph.values.scalars import (
    BlobType,
    EnumType,
    ListType,
    ScalarType,
    ValueType,
    VectorType,
)

NODE, EDGE, INTERFACE = "node", "edge", "interface"

Json = dict[str, Any]


def types_to_json(catalog: Catalog) -> list[Json]:
    """Interfaces, node types, edge types; an interface has no id, because it has no entities."""
    return [
        *(_common(interface, INTERFACE) for interface in catalog.interfaces),
        *(_node(node) for node in catalog.nodes),
        *(_edge(edge) for edge in catalog.edges),
    ]


def _node(node: NodeType) -> Json:
    return {**_common(node, NODE), "id": node.identity, "implements": list(node.implements)}


def _edge(edge: EdgeType) -> Json:
    card = edge.cardinality
    return {
        **_common(edge, EDGE),
        "id": edge.identity,
        "from": edge.source,
        "to": edge.target,
        "cardinality": None if card is None else {"min": card.minimum, "max": card.maximum},
    }


def _common(declared: NodeType | EdgeType | InterfaceType, kind: str) -> Json:
    return {
        "type_kind": kind,
        "name": declared.name,
        "properties": [_property(p) for p in declared.properties],
        "constraints": [constraint_to_json(c) for c in declared.constraints],
        "annotations": [annotation_to_json(a) for a in declared.annotations],
    }


def _property(declared: Property) -> Json:
    return {
        "name": declared.name,
        "id": declared.identity,
        "property_type": property_type_to_json(DeclaredType(declared.type, declared.nullable)),
        "annotations": [annotation_to_json(a) for a in declared.annotations],
    }


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """The type of a property with its nullability."""

    type: ValueType
    nullable: bool

    def __str__(self) -> str:
        return f"{self.type}{'?' if self.nullable else ''}"


def property_type_to_json(declared: DeclaredType) -> dict[str, Any]:
    kind = declared.type
    found: dict[str, Any] = {"scalar": "String", "nullable": declared.nullable, "list": False}
    match kind:
        case ScalarType(scalar):
            found["scalar"] = scalar.value
        case ListType(element):
            found |= {"scalar": element.value, "list": True}
        case VectorType(width):
            found["scalar"] = {"Vector": width}
        case EnumType(values):
            found["enum_values"] = list(values)
        case BlobType():
            found["scalar"] = "Blob"
    return found


def constraint_to_json(constraint: Constraint) -> dict[str, Any]:
    match constraint:
        case Key(names) | Unique(names) | Index(names):
            return {type(constraint).__name__: list(names)}
        case Range(name, minimum, maximum):
            return {"Range": {"property": name, "min": minimum, "max": maximum}}
        case Check(name, pattern):
            return {"Check": {"property": name, "pattern": pattern}}


def annotation_to_json(annotation: Annotation) -> dict[str, Any]:
    found: dict[str, Any] = {"name": annotation.name}
    if annotation.arguments:
        values = [
            v if isinstance(v, str | int | float | bool) else str(v) for v in annotation.arguments
        ]
        found["value"] = values[0] if len(values) == 1 else values
    if annotation.options:
        found["kwargs"] = dict(annotation.options)
    return found
