"""The schema of a merge, and one identity for what both sides added under one name.

`merge.schemas` joins the schemas. What a merge of equal schemas needs is here, so that it imports
nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType
from omnigraph.diff.entity_rows import TypeIdentity, identity_of
from omnigraph.merge.conflicts import Conflict
from omnigraph.schema.changes import TableChange
from omnigraph.values.identifiers import TableKey

_E = TypeVar("_E", NodeType, EdgeType)


@dataclass(frozen=True, slots=True)
class MergedCatalog:
    """The schema of the result, and what happens to the tables of ours."""

    catalog: Catalog
    added: tuple[EntityType, ...] = ()
    """Types that ours does not have."""
    reshaped: tuple[TableChange, ...] = ()
    """Types of ours whose rows must all be checked, and written with other columns."""
    adjusted: tuple[TableChange, ...] = ()
    """Types of ours whose columns or name change without a look at their rows."""
    dropped: tuple[EntityType, ...] = ()
    """Types of ours that the result does not have."""
    one_sided: frozenset[TypeIdentity] = frozenset()
    """Types that one side dropped and that stay by decision, as if only the other had them."""
    returned: Mapping[TypeIdentity, frozenset[str]] = field(default_factory=dict)
    """Identities of properties that ours dropped and that come back from theirs by decision."""
    void_ours: Mapping[TypeIdentity, frozenset[str]] = field(default_factory=dict)
    """Identities of properties whose values in ours do not fit any more: theirs made them anew."""
    void_theirs: Mapping[TypeIdentity, frozenset[str]] = field(default_factory=dict)
    """The same for theirs."""
    conflicts: tuple[Conflict, ...] = ()
    """Undecided: then the schema is ours, and no row can be merged."""

    @property
    def created(self) -> tuple[EntityType, ...]:
        """Types that get a new table."""
        return (*self.added, *(c.after for c in self.reshaped if c.after))

    def our_key(self, key: TableKey) -> TableKey:
        """The name of a type before the merge."""
        for change in (*self.adjusted, *self.reshaped):
            if change.after is not None and change.after.table_key == key and change.before:
                return change.before.table_key
        return key


@dataclass(frozen=True, slots=True)
class UnifiedCatalogs:
    """Three catalogs in which one type and one property have one identity."""

    base: Catalog
    ours: Catalog
    theirs: Catalog


def unify(base: Catalog, ours: Catalog, theirs: Catalog) -> UnifiedCatalogs:
    """Give the same identity to what both sides added under one name, and to known synonyms.

    Ours decides. Its types and properties remember the identities that they stand for (`also`), so
    a later merge of the same branch knows them.
    """
    for catalogs in ((ours, theirs, base), (theirs, ours, base)):
        known = _synonyms(catalogs[0])
        base, ours, theirs = (translated(c, known) for c in (base, ours, theirs))
    types = _added_on_both(
        *({t.identity: (t.table_key, t) for t in c.entity_types()} for c in (base, ours, theirs))
    )
    theirs, ours = translated(theirs, types), _remembering(ours, types)
    properties: dict[str, str] = {}
    for identity, mine in types_of(ours).items():
        yours, before = types_of(theirs).get(identity), types_of(base).get(identity)
        if yours is not None:
            sides = (before.properties if before else (), mine.properties, yours.properties)
            properties |= _added_on_both(*({p.identity: (p.name, p) for p in s} for s in sides))
    return UnifiedCatalogs(base, _remembering(ours, properties), translated(theirs, properties))


def _synonyms(catalog: Catalog) -> dict[str, str]:
    items = [x for t in catalog.entity_types() for x in (t, *t.properties)]
    return {other: item.identity for item in items for other in item.also}


def _added_on_both(
    base: Mapping[str, tuple[object, object]],
    ours: Mapping[str, tuple[object, object]],
    theirs: Mapping[str, tuple[object, object]],
) -> dict[str, str]:
    """Identities of theirs -> identities of ours that were added under the same name."""
    mine = {name: i for i, (name, _) in ours.items() if i not in base and i not in theirs}
    return {
        i: mine[name]
        for i, (name, _) in theirs.items()
        if i not in base and i not in ours and name in mine
    }


def translated(catalog: Catalog, known: Mapping[str, str]) -> Catalog:
    if not known:
        return catalog
    return replace(
        catalog,
        nodes=tuple(translated_type(n, known) for n in catalog.nodes),
        edges=tuple(translated_type(e, known) for e in catalog.edges),
    )


def translated_type(entity: _E, known: Mapping[str, str]) -> _E:
    """The type with other identities, of itself and of its properties."""
    properties = tuple(
        replace(p, identity=known.get(p.identity, p.identity)) for p in entity.properties
    )
    identity = known.get(entity.identity, entity.identity)
    return replace(entity, identity=identity, properties=properties)


def translations(before: Catalog, after: Catalog) -> dict[str, str]:
    """Old identities -> new ones, of a catalog before and after `unify`."""
    found: dict[str, str] = {}
    for old, new in zip(before.entity_types(), after.entity_types(), strict=True):
        for a, b in zip((old, *old.properties), (new, *new.properties), strict=True):
            if a.identity != b.identity:
                found[a.identity] = b.identity
    return found


def _remembering(catalog: Catalog, known: Mapping[str, str]) -> Catalog:
    """The catalog whose types and properties remember what else they are called."""
    if not known:
        return catalog
    others: dict[str, tuple[str, ...]] = {}
    for theirs, mine in known.items():
        others[mine] = (*others.get(mine, ()), theirs)

    def also(item: Any) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*item.also, *others.get(item.identity, ())]))

    def told(entity: EntityType) -> Any:
        properties = tuple(replace(p, also=also(p)) for p in entity.properties)
        return replace(entity, also=also(entity), properties=properties)

    return replace(
        catalog,
        nodes=tuple(told(n) for n in catalog.nodes),
        edges=tuple(told(e) for e in catalog.edges),
    )


def types_of(catalog: Catalog) -> Mapping[TypeIdentity, EntityType]:
    return {identity_of(entity): entity for entity in catalog.entity_types()}
