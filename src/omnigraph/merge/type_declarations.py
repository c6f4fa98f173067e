"""Three-way merge of one type's declaration, property by property and constraint by constraint.

What one side left alone is as the other side has it. What both changed, or both added, must agree,
or one must hold every value of the other; anything else is refused with both declarations named.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from omnigraph.catalog.model import (
    Annotation,
    Check,
    Constraint,
    EdgeType,
    EntityType,
    Key,
    NodeType,
    Property,
    Range,
)
from omnigraph.errors import SchemaRefused
from omnigraph.schema.evolve import widens
from omnigraph.values.scalars import EnumType, ValueType

_T = TypeVar("_T")


def merge_types(base: EntityType | None, ours: EntityType, theirs: EntityType) -> EntityType:
    """The type that both sides can live with."""
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
        # Rows are brought together by column, and a table keeps its columns' names.
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
    """Of two constraints with one subject at most one can hold."""
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
        "neither holds all of the other: give both the same declaration, then merge",
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
