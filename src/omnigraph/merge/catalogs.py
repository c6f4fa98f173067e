"""Three-way merge of schemas, type by type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, InterfaceType, NodeType
from omnigraph.errors import SchemaRefused


@dataclass(frozen=True, slots=True)
class MergedCatalog:
    """The schema of the result, and which types our side has to add for it."""

    catalog: Catalog
    added: tuple[EntityType, ...]


def merge_catalogs(base: Catalog, ours: Catalog, theirs: Catalog) -> MergedCatalog:
    """Our schema plus the types only they have; a type both changed differently is refused."""
    if theirs == ours:
        return MergedCatalog(ours, ())
    known, old = _by_identity(ours), _by_identity(base)
    added = []
    for identity, entity in _by_identity(theirs).items():
        mine = known.get(identity)
        if mine == entity:
            continue
        before = old.get(identity)
        if mine is None and before is None:
            added.append(entity)
        elif entity != before:
            raise SchemaRefused(
                f"type {entity.name!r} was changed in the source: apply the same schema to the "
                "target first, then merge",
                types=[entity.name],
            )
    dropped = [e.name for i, e in old.items() if i in known and i not in _by_identity(theirs)]
    if dropped:
        raise SchemaRefused(
            f"the source dropped {', '.join(dropped)}: apply that to the target first, then merge",
            types=dropped,
        )
    catalog = replace(
        ours,
        nodes=(*ours.nodes, *(e for e in added if isinstance(e, NodeType))),
        edges=(*ours.edges, *(e for e in added if isinstance(e, EdgeType))),
        interfaces=_interfaces(base, ours, theirs),
    )
    return MergedCatalog(catalog, tuple(added))


def _interfaces(base: Catalog, ours: Catalog, theirs: Catalog) -> tuple[InterfaceType, ...]:
    old = {i.name: i for i in base.interfaces}
    mine = {i.name: i for i in ours.interfaces}
    for interface in theirs.interfaces:
        if mine.get(interface.name) == old.get(interface.name):
            mine[interface.name] = interface
    return tuple(mine.values())


def _by_identity(catalog: Catalog) -> Mapping[tuple[str, str], EntityType]:
    return {(e.table_key.kind.value, e.identity): e for e in catalog.entity_types()}
