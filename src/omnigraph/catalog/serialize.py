"""The catalog as the JSON that a graph stores."""

from __future__ import annotations

from typing import Any

from omnigraph.catalog.model import (
    Annotation,
    Cardinality,
    Catalog,
    Check,
    Constraint,
    EdgeType,
    GeneratedDefault,
    Index,
    InterfaceType,
    Key,
    NodeType,
    Property,
    Range,
    Unique,
)
from omnigraph.errors import FormatUnknown
from omnigraph.values.scalars import (
    BlobType,
    EnumType,
    ListType,
    LiteralValue,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)

Json = dict[str, Any]


def catalog_to_json(catalog: Catalog) -> Json:
    return {
        "interfaces": [_common_to_json(i) for i in catalog.interfaces],
        "nodes": [
            {
                **_common_to_json(n),
                "implements": list(n.implements),
                "identity": n.identity,
                **_also_to_json(n),
            }
            for n in catalog.nodes
        ],
        "edges": [
            {
                **_common_to_json(e),
                "source": e.source,
                "target": e.target,
                "cardinality": [e.cardinality.minimum, e.cardinality.maximum]
                if e.cardinality
                else None,
                "identity": e.identity,
                **_also_to_json(e),
            }
            for e in catalog.edges
        ],
    }


def catalog_from_json(data: Json) -> Catalog:
    return Catalog(
        nodes=tuple(
            NodeType(
                **_common_from_json(n),
                implements=tuple(n["implements"]),
                identity=n["identity"],
                also=tuple(n.get("also", ())),
            )
            for n in data["nodes"]
        ),
        edges=tuple(
            EdgeType(
                **_common_from_json(e),
                source=e["source"],
                target=e["target"],
                cardinality=Cardinality(*e["cardinality"]) if e["cardinality"] else None,
                identity=e["identity"],
                also=tuple(e.get("also", ())),
            )
            for e in data["edges"]
        ),
        interfaces=tuple(InterfaceType(**_common_from_json(i)) for i in data["interfaces"]),
    )


def _common_to_json(entity: NodeType | EdgeType | InterfaceType) -> Json:
    return {
        "name": entity.name,
        "properties": [_property_to_json(p) for p in entity.properties],
        "constraints": [_constraint_to_json(c) for c in entity.constraints],
        "annotations": [_annotation_to_json(a) for a in entity.annotations],
    }


def _common_from_json(data: Json) -> Json:
    return {
        "name": data["name"],
        "properties": tuple(_property_from_json(p) for p in data["properties"]),
        "constraints": tuple(_constraint_from_json(c) for c in data["constraints"]),
        "annotations": tuple(_annotation_from_json(a) for a in data["annotations"]),
    }


def _property_to_json(p: Property) -> Json:
    return {
        "name": p.name,
        "type": type_to_json(p.type),
        "nullable": p.nullable,
        "identity": p.identity,
        "annotations": [_annotation_to_json(a) for a in p.annotations],
        **_also_to_json(p),
    }


def _also_to_json(item: NodeType | EdgeType | Property) -> Json:
    """Only where there is something, so that the hash of every other catalog stays."""
    return {"also": list(item.also)} if item.also else {}


def _property_from_json(data: Json) -> Property:
    return Property(
        name=data["name"],
        type=type_from_json(data["type"]),
        nullable=data["nullable"],
        identity=data["identity"],
        annotations=tuple(_annotation_from_json(a) for a in data["annotations"]),
        also=tuple(data.get("also", ())),
    )


def type_to_json(value_type: ValueType) -> Json:
    match value_type:
        case ScalarType(kind):
            return {"scalar": kind.value}
        case ListType(element):
            return {"list": element.value}
        case VectorType(width):
            return {"vector": width}
        case EnumType(values):
            return {"enum": list(values)}
        case BlobType():
            return {"blob": True}


def type_from_json(data: Json) -> ValueType:
    match data:
        case {"scalar": kind}:
            return ScalarType(ScalarKind(kind))
        case {"list": element}:
            return ListType(ScalarKind(element))
        case {"vector": width}:
            return VectorType(width)
        case {"enum": values}:
            return EnumType(tuple(values))
        case {"blob": True}:
            return BlobType()
        case _:
            raise FormatUnknown(f"unknown property type in the stored schema: {data}")


def _annotation_to_json(a: Annotation) -> Json:
    arguments = [
        {"call": given.function} if isinstance(given, GeneratedDefault) else given
        for given in a.arguments
    ]
    return {"name": a.name, "arguments": arguments, "options": dict(a.options)}


def _annotation_from_json(data: Json) -> Annotation:
    arguments = tuple(_argument_from_json(given) for given in data["arguments"])
    return Annotation(data["name"], arguments, tuple(data["options"].items()))


def _argument_from_json(data: Any) -> LiteralValue | GeneratedDefault:
    match data:
        case {"call": str(function)}:
            return GeneratedDefault(function)
        case str() | bool() | int() | float() | None:
            return data
        case _:
            raise FormatUnknown(f"unknown argument of an annotation in the stored schema: {data}")


def _constraint_to_json(constraint: Constraint) -> Json:
    match constraint:
        case Key(properties):
            return {"key": list(properties)}
        case Unique(properties):
            return {"unique": list(properties)}
        case Index(properties, options):
            return {"index": list(properties), "options": dict(options)}
        case Range(name, minimum, maximum):
            return {"range": name, "minimum": minimum, "maximum": maximum}
        case Check(name, pattern):
            return {"check": name, "pattern": pattern}


def _constraint_from_json(data: Json) -> Constraint:
    match data:
        case {"key": properties}:
            return Key(tuple(properties))
        case {"unique": properties}:
            return Unique(tuple(properties))
        case {"index": properties, "options": options}:
            return Index(tuple(properties), tuple(options.items()))
        case {"range": name, "minimum": minimum, "maximum": maximum}:
            return Range(name, minimum, maximum)
        case {"check": name, "pattern": pattern}:
            return Check(name, pattern)
        case _:
            raise FormatUnknown(f"unknown constraint in the stored schema: {data}")
