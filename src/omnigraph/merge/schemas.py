"""Three-way merge of schemas: type by type, property by property, constraint by constraint.

Where one side changed nothing, the result is what the other side has. Where both sides changed or
added the same thing, they must agree, or one declaration must allow every value of the other.
Anything else is refused, and the error names both declarations.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Protocol, TypeVar

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
from omnigraph.schema.changes import Granted, TableChange
from omnigraph.schema.evolve import names_of, plan_changes, widens, with_names
from omnigraph.values.identifiers import TableKey
from omnigraph.values.scalars import EnumType, ValueType

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class MergedCatalog:
    """The schema of the result, and what happens to the tables of ours."""

    catalog: Catalog
    added: tuple[EntityType, ...] = ()
    """Types that only theirs has."""
    reshaped: tuple[EntityType, ...] = ()
    """Types of ours whose rows must all be checked, and written with other columns."""
    adjusted: tuple[TableChange, ...] = ()
    """Types of ours whose columns or name change without a look at their rows."""
    dropped: tuple[EntityType, ...] = ()
    """Types of ours that theirs dropped."""

    @property
    def created(self) -> tuple[EntityType, ...]:
        """Types that get a new table."""
        return (*self.added, *self.reshaped)

    def our_key(self, key: TableKey) -> TableKey:
        """The name of a type before the merge."""
        for change in self.adjusted:
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


class SideChanges(Protocol):
    """What the sides, "ours" and "theirs", did to rows since the base."""

    def rows(self, identity: TypeIdentity, side: str) -> bool:
        """Whether a side changed rows of a type."""

    def values(self, identity: TypeIdentity, declared: Property, side: str) -> Sequence[str]:
        """Some ids of entities whose value of a property a side changed or set."""


class _NoChanges:
    def rows(self, identity: TypeIdentity, side: str) -> bool:
        del identity, side
        return False

    def values(self, identity: TypeIdentity, declared: Property, side: str) -> Sequence[str]:
        del identity, declared, side
        return ()


def merge_catalogs(
    base: Catalog, ours: Catalog, theirs: Catalog, changed: SideChanges | None = None
) -> MergedCatalog:
    """Our schema with what theirs added, changed and dropped; refused where they contradict."""
    if theirs == ours:
        return MergedCatalog(ours)
    known, old, given = (_types(catalog) for catalog in (ours, base, theirs))
    changed = changed or _NoChanges()
    merged = dict(known)
    for identity, entity in given.items():
        mine, before = known.get(identity), old.get(identity)
        if mine is not None:
            merged[identity] = mine if entity == mine else merge_types(before, mine, entity)
            _refuse_used(identity, before, mine, entity, changed)
        elif before is None:
            merged[identity] = entity
        elif _declared_again(before, entity) or changed.rows(identity, "theirs"):
            _refuse_drop(entity.name, "changed in the source and dropped in the target")
    dropped = [i for i in old if i in known and i not in given]
    for identity in dropped:
        if _declared_again(old[identity], known[identity]) or changed.rows(identity, "ours"):
            _refuse_drop(known[identity].name, "dropped in the source and changed in the target")
        del merged[identity]
    types = merged.values()
    catalog = replace(
        ours,
        nodes=tuple(e for e in types if isinstance(e, NodeType)),
        edges=tuple(e for e in types if isinstance(e, EdgeType)),
        interfaces=_interfaces(base, ours, theirs),
    )
    _require_names(catalog)
    for side, name in ((ours, "target"), (theirs, "source")):
        _require_path(side, catalog, name)
    return _classified(ours, catalog, merged, known, [known[i] for i in dropped])


def _refuse_used(
    identity: TypeIdentity,
    before: EntityType | None,
    ours: EntityType,
    theirs: EntityType,
    changed: SideChanges,
) -> None:
    """Refuse to drop a property whose values the other side has changed."""
    kept = [{p.identity for p in side.properties} for side in (ours, theirs)]
    for declared in before.properties if before is not None else ():
        for user, dropper, side in ((0, 1, "ours"), (1, 0, "theirs")):
            if declared.identity in kept[user] and declared.identity not in kept[dropper]:
                ids = changed.values(identity, declared, side)
                if ids:
                    names = {"ours": "target", "theirs": "source"}
                    other = "theirs" if side == "ours" else "ours"
                    raise SchemaRefused(
                        f"{ours.name}.{declared.name} was dropped in the {names[other]}, and the "
                        f"{names[side]} changed its values, for example of {ids[0]!r}: drop it on "
                        "both branches or on none, then merge",
                        types=[ours.name],
                    )


def _declared_again(before: EntityType, now: EntityType) -> bool:
    return replace(before, also=()) != replace(now, also=())


def _refuse_drop(name: str, how: str) -> NoReturn:
    raise SchemaRefused(
        f"type {name!r} was {how}: drop it on both branches or on none, then merge", types=[name]
    )


def _require_names(catalog: Catalog) -> None:
    """Two types of one name: one was renamed on a branch, the other added or renamed on the other.

    An edge may also lose the type that it ends at.
    """
    seen: set[str] = set()
    for entity in catalog.entity_types():
        if entity.name in seen:
            raise SchemaRefused(
                f"after the merge two types would be called {entity.name!r}: "
                "rename one of them, then merge",
                types=[entity.name],
            )
        seen.add(entity.name)
        twice = [p.name for p in entity.properties]
        clash = next((name for name in twice if twice.count(name) > 1), None)
        if clash is not None:
            raise SchemaRefused(
                f"after the merge {entity.name} would have two properties called {clash!r}: "
                "rename one of them, then merge",
                types=[entity.name],
            )
        ends = (entity.source, entity.target) if isinstance(entity, EdgeType) else ()
        for end in ends:
            if end not in catalog.node_types:
                raise SchemaRefused(
                    f"edge {entity.name} ends at {end!r}, which the merge drops or renames: "
                    "drop the edge, too, then merge",
                    types=[entity.name, end],
                )


def _classified(
    ours: Catalog,
    catalog: Catalog,
    merged: Mapping[TypeIdentity, EntityType],
    known: Mapping[TypeIdentity, EntityType],
    dropped: Sequence[EntityType],
) -> MergedCatalog:
    """Which tables of ours are written anew, which only get other columns or another name."""
    changes = plan_changes(ours, catalog, Granted(allow_data_loss=True), by_identity=True)
    checked = {check.table for check in changes.checks}
    reshaped: list[EntityType] = []
    adjusted: list[TableChange] = []
    for change in changes.tables:
        if change.before is None or change.after is None:
            continue
        lacks = any(c.before is None and not c.after.nullable for c in change.columns)
        if change.is_written or lacks or change.after.table_key in checked:
            reshaped.append(change.after)
        elif change.moves_columns or change.before.name != change.after.name:
            adjusted.append(change)
    return MergedCatalog(
        catalog,
        tuple(e for i, e in merged.items() if i not in known),
        tuple(reshaped),
        tuple(adjusted),
        tuple(dropped),
    )


def _require_path(side: Catalog, merged: Catalog, name: str) -> None:
    """Refuse a schema that the rows of this side cannot follow, by the rules of schema changes."""
    # Values that a row lacks are found when the rows are merged.
    for refused in plan_changes(side, merged, rows={}, by_identity=True).refusals:
        raise SchemaRefused(
            f"the rows of the {name} do not fit the merged schema: "
            f"{refused.entity}: {refused.reason}",
            refusal=refused.code,
            step=refused.entity,
            reason=refused.reason,
        )


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
    properties = _properties(base, ours, theirs)
    merged = replace(
        ours,
        name=_value(base.name if base else ours.name, ours.name, theirs.name, ours.name, "name"),
        properties=properties,
        constraints=_constraints(base, ours, theirs, properties),
        annotations=_annotations(
            ours.name, _of(base, "annotations"), ours.annotations, theirs.annotations
        ),
    )
    if isinstance(merged, NodeType) and isinstance(theirs, NodeType):
        return replace(merged, implements=_together(merged.implements, theirs.implements))
    assert isinstance(merged, EdgeType)
    assert isinstance(theirs, EdgeType)
    merged = replace(
        merged,
        source=_end(base, ours, theirs, "source"),
        target=_end(base, ours, theirs, "target"),
    )
    before = base.cardinality if isinstance(base, EdgeType) else None
    sides = (merged.cardinality, theirs.cardinality)
    return replace(merged, cardinality=_value(before, *sides, ours.name, "cardinality"))


def _end(base: EntityType | None, ours: EntityType, theirs: EntityType, name: str) -> str:
    mine, yours = getattr(ours, name), getattr(theirs, name)
    before = getattr(base, name) if base is not None else mine
    return str(_value(before, mine, yours, ours.name, "ends"))


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
    name = _value(
        before.name if before else here.name, here.name, there.name, type_name, "property name"
    )
    if replace(here, also=()) == before:
        return replace(there, also=here.also)
    kind = _wider(here.type, there.type)
    if kind is None:
        _refuse(type_name, here.name, declaration(here), declaration(there))
    notes = before.annotations if before else ()
    return replace(
        here,
        name=name,
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
    base: EntityType | None, ours: EntityType, theirs: EntityType, merged: Sequence[Property]
) -> tuple[Constraint, ...]:
    """Compared by the identities of properties, so a rename on one side changes nothing."""
    old, mine, yours = (_by_ids(side) for side in (base, ours, theirs))
    kept = [c for c in mine if c not in old or c in yours]
    new = [c for c in yours if c not in old and c not in kept]
    subjects = {_subject(c): c for c in kept}
    for constraint in new:
        other = subjects.get(_subject(constraint))
        if other is not None:
            _refuse(ours.name, "constraint", str(other), str(constraint))
    names = {p.identity: p.name for p in merged}
    known = {p.identity for side in (ours, theirs) for p in side.properties}
    lost = known - names.keys()
    return tuple(with_names(c, names) for c in (*kept, *new) if not lost & set(names_of(c)))


def _by_ids(entity: EntityType | None) -> tuple[Constraint, ...]:
    if entity is None:
        return ()
    ids = {p.name: p.identity for p in entity.properties}
    return tuple(with_names(c, ids) for c in entity.constraints)


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
