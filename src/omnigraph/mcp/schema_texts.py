"""The schema for a model: an overview, the text of some types, and how a query names them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType, Property, embedding_of
from omnigraph.schema.catalog_text import declaration_text
from omnigraph.values.known_names import nearest_name
from omnigraph.values.scalars import BlobType, ScalarKind, ScalarType, VectorType

_WHOLE_TYPES = 12
"""A schema with this many types is shown whole."""
_LISTED_TYPES = 60


def edge_word(edge: EdgeType) -> str:
    """How a pattern names an edge type: `WorksAt` is `worksAt`."""
    return edge.name[0].lower() + edge.name[1:]


def schema_excerpt(catalog: Catalog, words: Collection[str]) -> str:
    """The types that a text seems to mean, and the names of the others.

    `words` are in lower case.
    """
    types = list(catalog.entity_types())
    if len(types) <= _WHOLE_TYPES:
        return types_text(types)
    names = [entity.name for entity in types]
    meant = {entity.name for entity in types if entity.name.casefold() in words}
    meant |= {near for word in words if (near := nearest_name(word, names)) is not None}
    chosen = [entity for entity in types if entity.name in meant][:_WHOLE_TYPES]
    others = [name for name in names if name not in meant]
    listed = ", ".join(others[:_LISTED_TYPES]) + (", …" if len(others) > _LISTED_TYPES else "")
    return f"{types_text(chosen)}\nother types: {listed}".strip()


def types_text(types: Collection[EntityType]) -> str:
    return "\n".join(declaration_text(entity) for entity in types)


def around(catalog: Catalog, name: str) -> list[EntityType]:
    """A type with the edge types that touch it, or an edge type with its ends."""
    found = catalog.resolve(name)
    if isinstance(found, EdgeType):
        ends = {found.source, found.target}
        return [found, *(node for node in catalog.nodes if node.name in ends)]
    return [found, *edges_of(catalog, found)]


def edges_of(catalog: Catalog, node: NodeType) -> list[EdgeType]:
    return [edge for edge in catalog.edges if node.name in (edge.source, edge.target)]


def shown_properties(entity: EntityType) -> list[Property]:
    """Properties that a model can read: no blobs, and no vectors."""
    return [p for p in entity.properties if not isinstance(p.type, BlobType | VectorType)]


def text_properties(node: NodeType) -> list[str]:
    """Properties with words in them."""
    wanted = ScalarType(ScalarKind.STRING)
    return [p.name for p in node.properties if p.type == wanted]


def meaning_property(node: NodeType) -> tuple[str, str] | None:
    """The vector that is made of a text property, and that property."""
    for declared in node.properties:
        made = embedding_of(declared)
        if made is not None:
            return declared.name, made.source
    return None


def overview(catalog: Catalog) -> dict[str, Any]:
    """Types, ends and properties by name, without constraints."""
    return {
        "node_types": {n.name: _properties(n) for n in catalog.nodes},
        "edge_types": {
            e.name: {
                "from": e.source,
                "to": e.target,
                "pattern": f"$a {edge_word(e)} $b",
                "properties": _properties(e),
            }
            for e in catalog.edges
        },
    }


def _properties(entity: EntityType) -> dict[str, str]:
    return {p.name: f"{p.type}{'?' if p.nullable else ''}" for p in entity.properties}
