"""The types of a catalog as JSON, in the words of schema steps: `schema show --format ir`."""

from __future__ import annotations

from typing import Any

from omnigraph.catalog.model import Catalog, EdgeType, InterfaceType, NodeType, Property
from omnigraph.schema import steps as st

Json = dict[str, Any]


def types_to_json(catalog: Catalog) -> list[Json]:
    """Interfaces, node types, edge types; an interface has no id, because it has no entities."""
    return [
        *(_common(interface, st.INTERFACE) for interface in catalog.interfaces),
        *(_node(node) for node in catalog.nodes),
        *(_edge(edge) for edge in catalog.edges),
    ]


def _node(node: NodeType) -> Json:
    return {**_common(node, st.NODE), "id": node.identity, "implements": list(node.implements)}


def _edge(edge: EdgeType) -> Json:
    card = edge.cardinality
    return {
        **_common(edge, st.EDGE),
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
        "constraints": [st.constraint_to_json(c) for c in declared.constraints],
        "annotations": [st.annotation_to_json(a) for a in declared.annotations],
    }


def _property(declared: Property) -> Json:
    return {
        "name": declared.name,
        "id": declared.identity,
        "property_type": st.property_type_to_json(
            st.DeclaredType(declared.type, declared.nullable)
        ),
        "annotations": [st.annotation_to_json(a) for a in declared.annotations],
    }
