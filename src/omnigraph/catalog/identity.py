"""Rename-stable ids of types and properties, and the schema fingerprint."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, Property
from omnigraph.catalog.serialize import catalog_to_json
from omnigraph.values.identifiers import fnv1a64_hex

_FINGERPRINT = "_fingerprint"


def with_identities(catalog: Catalog) -> Catalog:
    """Give every type and property without an identity the one derived from its name now."""
    return replace(
        catalog,
        nodes=tuple(_identify_node(node) for node in catalog.nodes),
        edges=tuple(_identify_edge(edge) for edge in catalog.edges),
    )


def fingerprint(catalog: Catalog) -> str:
    """Equal for equal catalogs, whatever text they came from."""
    # Kept beside the frozen fields: the compiled-query cache asks for it on every call.
    known: str | None = catalog.__dict__.get(_FINGERPRINT)
    if known is None:
        canonical = json.dumps(catalog_to_json(catalog), sort_keys=True, separators=(",", ":"))
        known = hashlib.sha256(canonical.encode()).hexdigest()
        catalog.__dict__[_FINGERPRINT] = known
    return known


def _identify_node(node: NodeType) -> NodeType:
    return replace(
        node,
        identity=node.identity or fnv1a64_hex(f"node:{node.name}"),
        properties=_identify_properties(node.properties),
    )


def _identify_edge(edge: EdgeType) -> EdgeType:
    return replace(
        edge,
        identity=edge.identity or fnv1a64_hex(f"edge:{edge.name}"),
        properties=_identify_properties(edge.properties),
    )


def _identify_properties(properties: tuple[Property, ...]) -> tuple[Property, ...]:
    return tuple(replace(p, identity=p.identity or fnv1a64_hex(p.name)) for p in properties)
