"""Three-way merge of schemas: type by type, property by property, constraint by constraint.

Where one side changed nothing, the result is what the other side has. Where both sides changed or
added the same thing, they must agree, or one declaration must allow every value of the other.
Anything else is refused, and the error names both declarations.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

from omnigraph.catalog.model import (
    Annotation,
    Catalog,
    Check,
    Constraint,
    EdgeType,
    EntityType,
    InterfaceType,
    Key,
    NodeType,
    Property,
    Range,
)
from omnigraph.diff.entity_rows import TypeIdentity, identity_of
from omnigraph.errors import SchemaRefused
from omnigraph.schema.evolve import plan_changes, widens
from omnigraph.values.scalars import EnumType, ValueType

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class MergedCatalog:
    """The schema of the result, and the tables that our side has to create for it."""

    catalog: Catalog
    added: tuple[EntityType, ...] = ()
    """Types that only theirs has."""
    reshaped: tuple[EntityType, ...] = ()
    """Types of ours whose rows must all be checked, and written with other columns."""

    @property
    def created(self) -> tuple[EntityType, ...]:
        """Types that get a new table."""
        return (*self.added, *self.reshaped)


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
        base, ours, theirs = (_translated(c, known) for c in (base, ours, theirs))
    types = _added_on_both(
        *({t.identity: (t.table_key, t) for t in c.entity_types()} for c in (base, ours, theirs))
    )
    theirs, ours = _translated(theirs, types), _remembering(ours, types)
    properties: dict[str, str] = {}
    for identity, mine in _types(ours).items():
        yours, before = _types(theirs).get(identity), _types(base).get(identity)
        if yours is not None:
            sides = (before.properties if before else (), mine.properties, yours.properties)
            properties |= _added_on_both(*({p.identity: (p.name, p) for p in s} for s in sides))
    return UnifiedCatalogs(base, _remembering(ours, properties), _translated(theirs, properties))


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


def _translated(catalog: Catalog, known: Mapping[str, str]) -> Catalog:
    if not known:
        return catalog

    def named(entity: EntityType) -> Any:
        properties = tuple(
            replace(p, identity=known.get(p.identity, p.identity)) for p in entity.properties
        )
        identity = known.get(entity.identity, entity.identity)
        return replace(entity, identity=identity, properties=properties)

    return replace(
        catalog,
        nodes=tuple(named(n) for n in catalog.nodes),
        edges=tuple(named(e) for e in catalog.edges),
    )


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


def merge_catalogs(base: Catalog, ours: Catalog, theirs: Catalog) -> MergedCatalog:
    """Our schema with what theirs added and changed; refused where they contradict."""
    if theirs == ours:
        return MergedCatalog(ours)
    known, old, given = (_types(catalog) for catalog in (ours, base, theirs))
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
                "drop it on both branches or on none, then merge",
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
    """Refuse a schema that the rows of this side cannot follow, by the rules of schema changes."""
    for refused in plan_changes(side, merged, by_identity=True).refusals:
        raise SchemaRefused(
            f"the rows of the {name} do not fit the merged schema: "
            f"{refused.entity}: {refused.reason}",
            refusal=refused.code,
            step=refused.entity,
            reason=refused.reason,
        )


def _refuse_drops(
    old: Mapping[TypeIdentity, EntityType],
    known: Mapping[TypeIdentity, EntityType],
    given: Mapping[TypeIdentity, EntityType],
) -> None:
    dropped = [e.name for i, e in old.items() if i in known and i not in given]
    if dropped:
        raise SchemaRefused(
            f"the source dropped {', '.join(dropped)}: drop it in the target too, then merge",
            types=dropped,
        )


def _shape(entity: EntityType) -> object:
    """Everything that a row of the type must satisfy."""
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


def _types(catalog: Catalog) -> Mapping[TypeIdentity, EntityType]:
    return {identity_of(entity): entity for entity in catalog.entity_types()}


def merge_types(base: EntityType | None, ours: EntityType, theirs: EntityType) -> EntityType:
    """One declaration that rows of both sides satisfy."""
    if ours.name != theirs.name:
        _refuse(ours.name, "name", ours.name, theirs.name)
    merged = replace(
        ours,
        properties=_properties(base, ours, theirs),
        constraints=_constraints(base, ours, theirs),
        annotations=_annotations(
            ours.name, _of(base, "annotations"), ours.annotations, theirs.annotations
        ),
    )
    if isinstance(merged, NodeType) and isinstance(theirs, NodeType):
        return replace(merged, implements=_together(merged.implements, theirs.implements))
    assert isinstance(merged, EdgeType)
    assert isinstance(theirs, EdgeType)
    if (merged.source, merged.target) != (theirs.source, theirs.target):
        ends = [f"{edge.source} -> {edge.target}" for edge in (merged, theirs)]
        _refuse(ours.name, "ends", *ends)
    before = base.cardinality if isinstance(base, EdgeType) else None
    sides = (merged.cardinality, theirs.cardinality)
    return replace(merged, cardinality=_value(before, *sides, ours.name, "cardinality"))


def _properties(
    base: EntityType | None, ours: EntityType, theirs: EntityType
) -> tuple[Property, ...]:
    old, mine, yours = (_by_identity(t.properties if t else ()) for t in (base, ours, theirs))
    found = []
    for identity in {**mine, **yours}:
        here, there, before = mine.get(identity), yours.get(identity), old.get(identity)
        if here is not None and there is not None:
            found.append(_property(ours.name, before, here, there))
            continue
        kept = here or there
        assert kept is not None
        if before is None:
            found.append(kept)
        elif kept != before:
            shown = [declaration(p) if p else "dropped" for p in (here, there)]
            _refuse(ours.name, kept.name, *shown)
    return tuple(found)


def _property(type_name: str, before: Property | None, here: Property, there: Property) -> Property:
    if here == there or there == before:
        return here
    if here.name != there.name:
        # Rows are merged by column name, and a table keeps the names of its columns.
        _refuse(type_name, here.name, declaration(here), declaration(there))
    if here == before:
        return there
    kind = _wider(here.type, there.type)
    if kind is None:
        _refuse(type_name, here.name, declaration(here), declaration(there))
    notes = before.annotations if before else ()
    return replace(
        here,
        type=kind,
        nullable=here.nullable or there.nullable,
        annotations=_annotations(
            f"{type_name}.{here.name}", notes, here.annotations, there.annotations
        ),
    )


def _wider(a: ValueType, b: ValueType) -> ValueType | None:
    if isinstance(a, EnumType) and isinstance(b, EnumType):
        return replace(a, values=_together(a.values, b.values))
    if a == b or widens(b, a):
        return a
    return b if widens(a, b) else None


def _constraints(
    base: EntityType | None, ours: EntityType, theirs: EntityType
) -> tuple[Constraint, ...]:
    old = base.constraints if base else ()
    kept = [c for c in ours.constraints if c not in old or c in theirs.constraints]
    new = [c for c in theirs.constraints if c not in old and c not in kept]
    subjects = {_subject(c): c for c in kept}
    for constraint in new:
        other = subjects.get(_subject(constraint))
        if other is not None:
            _refuse(ours.name, "constraint", str(other), str(constraint))
    return (*kept, *new)


def _subject(constraint: Constraint) -> Hashable:
    """A type can have only one of several constraints with the same subject."""
    match constraint:
        case Key():
            return Key
        case Range(property=name):
            return Range, name
        case Check(property=name):
            return Check, name
        case _:
            return constraint


def _annotations(
    owner: str,
    base: Sequence[Annotation],
    ours: Sequence[Annotation],
    theirs: Sequence[Annotation],
) -> tuple[Annotation, ...]:
    old, mine, yours = ({a.name: a for a in side} for side in (base, ours, theirs))
    found = [
        _value(old.get(name), mine.get(name), yours.get(name), owner, f"@{name}")
        for name in {**mine, **yours}
    ]
    return tuple(annotation for annotation in found if annotation is not None)


def _value(base: _T, ours: _T, theirs: _T, owner: str, what: str) -> _T:
    if ours == theirs or theirs == base:
        return ours
    if ours != base:
        _refuse(owner, what, str(ours), str(theirs))
    return theirs


def _refuse(owner: str, what: str, ours: str, theirs: str) -> NoReturn:
    raise SchemaRefused(
        f"{owner}: {what} is declared as {ours} in the target and as {theirs} in the source, and "
        "neither allows all values of the other: declare it the same on both branches, then merge",
        types=[owner],
        ours=ours,
        theirs=theirs,
    )


def declaration(declared: Property) -> str:
    return f"'{declared.name}: {declared.type}{'?' if declared.nullable else ''}'"


def _of(entity: EntityType | None, name: str) -> Any:
    return () if entity is None else getattr(entity, name)


def _by_identity(properties: Sequence[Property]) -> Mapping[str, Property]:
    return {declared.identity: declared for declared in properties}


def _together(a: Sequence[str], b: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*a, *b]))
