"""Identities of types and properties, which survive renames, and the schema fingerprint.

A new schema text has names only. `carry_identities` gives its types and properties the identities
of the old catalog; `with_identities` gives the first identities.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from omnigraph.catalog.model import (
    Catalog,
    Constraint,
    EdgeType,
    EntityType,
    Key,
    NodeType,
    Property,
    renamed_from,
)
from omnigraph.catalog.serialize import catalog_to_json
from omnigraph.values.identifiers import fnv1a64_hex

_T = TypeVar("_T", NodeType, EdgeType, Property)
_FINGERPRINT = "_fingerprint"


def with_identities(catalog: Catalog) -> Catalog:
    """Give every type and property without an identity one that is derived from its name."""
    return replace(
        catalog,
        nodes=tuple(_identify_node(node) for node in catalog.nodes),
        edges=tuple(_identify_edge(edge) for edge in catalog.edges),
    )


def fingerprint(catalog: Catalog) -> str:
    """A hash of the catalog; equal catalogs have equal fingerprints."""
    # Kept beside the frozen fields, because the cache of compiled queries needs it on every call.
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


def counterpart(new: _T, old: Sequence[_T]) -> _T | None:
    """What `new` was in the old catalog: the one of the same name, else that of `@rename_from`."""
    by_name = {item.name: item for item in old}
    source = renamed_from(new.annotations)
    if new.name in by_name:
        return by_name[new.name]
    return by_name.get(source) if source else None


def carry_identities(old: Catalog, new: Catalog) -> Catalog:
    """`new`, with the identities of `old` for all types and properties that `old` has."""
    return replace(
        new,
        nodes=tuple(_carry_node(n, counterpart(n, old.nodes), old) for n in new.nodes),
        edges=tuple(_carry_edge(e, counterpart(e, old.edges), old) for e in new.edges),
    )


def _carry_node(new: NodeType, before: NodeType | None, old: Catalog) -> NodeType:
    taken = {node.identity for node in old.nodes}
    properties = _carry_properties(new.properties, before.properties if before else ())
    return replace(
        new,
        identity=before.identity if before else _fresh(f"node:{new.name}", taken),
        properties=properties,
        constraints=_keep_key_order(new, before, properties),
    )


def _carry_edge(new: EdgeType, before: EdgeType | None, old: Catalog) -> EdgeType:
    taken = {edge.identity for edge in old.edges}
    properties = _carry_properties(new.properties, before.properties if before else ())
    return replace(
        new,
        identity=before.identity if before else _fresh(f"edge:{new.name}", taken),
        properties=properties,
        constraints=_keep_key_order(new, before, properties),
    )


def _carry_properties(new: tuple[Property, ...], old: tuple[Property, ...]) -> tuple[Property, ...]:
    taken = {p.identity for p in old}
    carried = []
    for declared in new:
        before = counterpart(declared, old)
        identity = before.identity if before else _fresh(declared.name, taken)
        taken.add(identity)
        carried.append(replace(declared, identity=identity))
    return tuple(carried)


def _fresh(name: str, taken: set[str]) -> str:
    """An identity for a new type or property; never one that an old one of that name has."""
    identity, attempt = fnv1a64_hex(name), 1
    while identity in taken:
        attempt += 1
        identity = fnv1a64_hex(f"{name}#{attempt}")
    return identity


def _keep_key_order(
    new: EntityType, before: EntityType | None, properties: tuple[Property, ...]
) -> tuple[Constraint, ...]:
    """Ids spell the key in the order fixed at creation, so the old order stays after a rename."""
    if before is None:
        return new.constraints
    identity = {p.name: p.identity for p in before.properties}
    name_now = {p.identity: p.name for p in properties}
    old_order = [
        name_now.get(identity[name], "") if name in identity else name for name in before.key
    ]
    return tuple(
        Key(tuple(old_order)) if isinstance(c, Key) and set(c.properties) == set(old_order) else c
        for c in new.constraints
    )
