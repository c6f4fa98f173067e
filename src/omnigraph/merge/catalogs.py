"""Three-way merge of schemas, type by type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, InterfaceType, NodeType
from omnigraph.errors import SchemaRefused
from omnigraph.merge.type_declarations import merge_types
from omnigraph.schema.evolve import plan_evolution

Identity = tuple[str, str]


@dataclass(frozen=True, slots=True)
class MergedCatalog:
    """The schema of the result, and what our side has to do for it."""

    catalog: Catalog
    added: tuple[EntityType, ...] = ()
    """Types that only they have."""
    reshaped: tuple[EntityType, ...] = ()
    """Types whose rows must all be looked at, and written with other columns."""

    @property
    def created(self) -> tuple[EntityType, ...]:
        """Types that get a new table."""
        return (*self.added, *self.reshaped)


def merge_catalogs(base: Catalog, ours: Catalog, theirs: Catalog) -> MergedCatalog:
    """Our schema with what they added and changed; refused where the two cannot go together."""
    if theirs == ours:
        return MergedCatalog(ours)
    known, old, given = (_by_identity(catalog) for catalog in (ours, base, theirs))
    _refuse_drops(old, known, given)
    merged = dict(known)
    for identity, entity in given.items():
        mine, before = known.get(identity), old.get(identity)
        if mine is not None:
            merged[identity] = mine if entity == mine else merge_types(before, mine, entity)
        elif before is None:
            merged[identity] = entity
        elif entity != before:
            raise SchemaRefused(
                f"type {entity.name!r} was changed in the source and dropped in the target: "
                "settle that first, then merge",
                types=[entity.name],
            )
    types = merged.values()
    catalog = replace(
        ours,
        nodes=tuple(e for e in types if isinstance(e, NodeType)),
        edges=tuple(e for e in types if isinstance(e, EdgeType)),
        interfaces=_interfaces(base, ours, theirs),
    )
    for side, name in ((ours, "target"), (theirs, "source")):
        _require_path(side, catalog, name)
    return MergedCatalog(
        catalog,
        tuple(e for i, e in merged.items() if i not in known),
        tuple(e for i, e in merged.items() if i in known and _shape(e) != _shape(known[i])),
    )


def _require_path(side: Catalog, merged: Catalog, name: str) -> None:
    """The rows of this side can follow the merged schema, by the rules of every schema change."""
    try:
        plan_evolution(side, merged)
    except SchemaRefused as refused:
        raise SchemaRefused(
            f"the rows of the {name} do not fit the merged schema: {refused.message}",
            **refused.fields,
        ) from refused


def _refuse_drops(
    old: Mapping[Identity, EntityType],
    known: Mapping[Identity, EntityType],
    given: Mapping[Identity, EntityType],
) -> None:
    dropped = [e.name for i, e in old.items() if i in known and i not in given]
    if dropped:
        raise SchemaRefused(
            f"the source dropped {', '.join(dropped)}: apply that to the target first, then merge",
            types=dropped,
        )


def _shape(entity: EntityType) -> object:
    """What rows of the type have to be like."""
    columns = [(p.name, p.type, p.nullable) for p in entity.properties]
    limits = entity.cardinality if isinstance(entity, EdgeType) else None
    return columns, frozenset(entity.constraints), limits


def _interfaces(base: Catalog, ours: Catalog, theirs: Catalog) -> tuple[InterfaceType, ...]:
    old = {i.name: i for i in base.interfaces}
    mine = {i.name: i for i in ours.interfaces}
    for interface in theirs.interfaces:
        if mine.get(interface.name) == old.get(interface.name):
            mine[interface.name] = interface
    return tuple(mine.values())


def _by_identity(catalog: Catalog) -> Mapping[Identity, EntityType]:
    return {(e.table_key.kind.value, e.identity): e for e in catalog.entity_types()}
