"""Three-way merge of one declaration: a type or an interface, property by property.

Where one side changed nothing, the result is what the other side has. Where both sides changed or
added the same thing, they must agree, or one declaration must allow every value of the other. The
rest are `Disputes`, each with one winner.

A property is decided together with the constraints that are about it alone, because a `@range`
makes no sense on the type of the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from omnigraph.catalog.model import (
    Annotation,
    Catalog,
    Check,
    Constraint,
    EdgeType,
    EntityType,
    Index,
    InterfaceType,
    Key,
    NodeType,
    Property,
    Range,
    embedding_of,
)
from omnigraph.merge.conflicts import Conflict, ConflictKind
from omnigraph.merge.decisions import Side, Take
from omnigraph.schema.catalog_text import declaration_text, property_text, text_problem
from omnigraph.schema.evolve import names_of, widens, with_names
from omnigraph.schema.steps import spell_constraint
from omnigraph.values.scalars import EnumType, ValueType, VectorType

Declared = NodeType | EdgeType | InterfaceType
DeclaredT = TypeVar("DeclaredT", NodeType, EdgeType, InterfaceType)
Ends = tuple[str, str]
"""Identities of the node types that an edge type connects."""

SIDE_NAMES = {Side.OURS: "target", Side.THEIRS: "source"}
_T = TypeVar("_T")


def kind_of(declared: Declared) -> str:
    return "interface" if isinstance(declared, InterfaceType) else declared.table_key.kind.value


def other_side(side: Side) -> Side:
    return Side.THEIRS if side is Side.OURS else Side.OURS


@dataclass(frozen=True, slots=True)
class Subject:
    """What a dispute is about."""

    kind: str
    type_name: str
    property: str | None = None

    def __str__(self) -> str:
        return f"{self.type_name}.{self.property}" if self.property else self.type_name


class Disputes:
    """Asks for the winner of each dispute, and lists those without one."""

    def __init__(self, decide: Callable[[Conflict], Take | None] | None = None) -> None:
        self._decide = decide
        self._known: dict[Conflict, Side] = {}
        self.open: list[Conflict] = []

    def winner(
        self,
        subject: Subject,
        said: str,
        base: str | None,
        ours: str | None,
        theirs: str | None,
    ) -> Side:
        """Ours while the dispute is undecided; `base`, `ours` and `theirs` are schema text."""
        conflict = Conflict(
            subject.kind,
            subject.type_name,
            "",
            ConflictKind.SCHEMA_DIVERGENCE.value,
            f"{subject}: {said}",
            subject.property,
            base,
            ours,
            theirs,
        )
        if conflict not in self._known:
            take = self._decide(conflict) if self._decide is not None else None
            if take is None:
                self.open.append(conflict)
            self._known[conflict] = Side.OURS if take is None else take.side
        return self._known[conflict]


@dataclass(frozen=True, slots=True)
class DeclarationSides:
    """One declaration on three sides; `base` is None when both sides added it."""

    base: Declared | None
    ours: Declared
    theirs: Declared
    ends: tuple[Ends | None, Ends | None, Ends | None] = (None, None, None)
    """Of an edge type: its ends on the three sides."""
    values: Callable[[Property, Side], Sequence[str]] = lambda _property, _side: ()
    """Some ids of entities whose value of a property a side changed or set."""


@dataclass(frozen=True, slots=True)
class JoinedDeclaration:
    """The merged declaration; the ends of an edge type are identities beside it."""

    declared: Declared
    ends: Ends | None = None


@dataclass(frozen=True, slots=True)
class _Unit:
    """A property and the constraints that are about it alone, which have its identity as name."""

    prop: Property
    constraints: tuple[Constraint, ...] = ()

    @property
    def key(self) -> str:
        return self.prop.identity or self.prop.name

    @property
    def named(self) -> tuple[Constraint, ...]:
        return tuple(with_names(c, {self.key: self.prop.name}) for c in self.constraints)

    def text(self) -> str:
        return property_text(self.prop, self.named)

    def is_like(self, other: _Unit | None) -> bool:
        if other is None:
            return False
        same = replace(self.prop, also=()) == replace(other.prop, also=())
        return same and set(self.constraints) == set(other.constraints)


def join_declarations(disputes: Disputes, sides: DeclarationSides) -> JoinedDeclaration:
    """One declaration that rows of both sides satisfy."""
    return _Joiner(disputes, sides).joined()


class _Joiner:
    def __init__(self, disputes: Disputes, sides: DeclarationSides) -> None:
        self.disputes = disputes
        self.sides = sides
        self.kind, self.name = kind_of(sides.ours), sides.ours.name
        three = (sides.base, sides.ours, sides.theirs)
        self.base, self.ours, self.theirs = (_units(side) for side in three)
        self.wide = [_wide_constraints(side) for side in three]

    def subject(self, name: str | None = None) -> Subject:
        return Subject(self.kind, self.name, name)

    def joined(self) -> JoinedDeclaration:
        found: dict[str, _Unit] = {}
        for key in {**self.ours, **self.theirs}:
            unit = self._property(key)
            if unit is not None:
                found[key] = unit
        self._settle_names(found)
        return self._header(found)

    # Properties

    def _property(self, key: str) -> _Unit | None:
        here, there, before = self.ours.get(key), self.theirs.get(key), self.base.get(key)
        if here is not None and there is not None:
            return self._both(before, here, there)
        kept = here or there
        assert kept is not None
        side = Side.OURS if here is not None else Side.THEIRS
        if before is None:
            return kept
        use = self._use(before, kept, side)
        if use is None:
            return None
        texts = [kept.text() if side is s else None for s in (Side.OURS, Side.THEIRS)]
        dropper, user = SIDE_NAMES[other_side(side)], SIDE_NAMES[side]
        said = f"dropped in the {dropper}, and the {user} {use}"
        subject = self.subject(kept.prop.name)
        won = self.disputes.winner(subject, said, before.text(), *texts)
        return kept if won is side else None

    def _use(self, before: _Unit, kept: _Unit, side: Side) -> str | None:
        """How a side uses a property that the other side dropped; None when it does not."""
        if not kept.is_like(before):
            return f"declares it as `{kept.text()}`"
        ids = self.sides.values(before.prop, side)
        if ids:
            return f"changed its values, for example of {ids[0]!r}"
        old, now = self.wide[0], self.wide[1 if side is Side.OURS else 2]
        added = next((c for c in now if c not in old and kept.key in names_of(c)), None)
        if added is not None:
            named = with_names(added, {kept.key: kept.prop.name})
            return f"has a new {spell_constraint(named).split('(')[0]} with it"
        units = self.ours if side is Side.OURS else self.theirs
        for unit in units.values():
            known = self.base.get(unit.key)
            made, was = embedding_of(unit.prop), embedding_of(known.prop) if known else None
            if made is not None and made.source == kept.prop.name and was is None:
                return f"makes {unit.prop.name} from it"
        return None

    def _both(self, before: _Unit | None, here: _Unit, there: _Unit) -> _Unit:
        also = _together(here.prop.also, there.prop.also)
        lost = None if before is None else self._lost_vectors(before, here, there)
        if lost is None and (here.is_like(there) or there.is_like(before)):
            return replace(here, prop=replace(here.prop, also=also))
        if lost is None and here.is_like(before):
            prop = replace(there.prop, identity=here.prop.identity, also=also)
            return replace(there, prop=prop)
        merged, apart = _joined_unit(before, here, there)
        reason = lost
        if reason is None and not apart:
            reason = _problem(merged, here, there)
        if not apart and reason is None:
            return replace(merged, prop=replace(merged.prop, also=also))
        said = f"`{here.text()}` in the target and `{there.text()}` in the source"
        if reason is not None:
            said += f" do not go together ({reason})"
        elif before is not None:
            said = f"`{before.text()}` became {said}"
        else:
            said = f"declared as {said}, and neither allows all values of the other"
        texts = (before.text() if before else None, here.text(), there.text())
        won = self.disputes.winner(self.subject(here.prop.name), said, *texts)
        taken = here if won is Side.OURS else there
        return replace(taken, prop=replace(taken.prop, identity=here.prop.identity, also=also))

    def _lost_vectors(self, before: _Unit, here: _Unit, there: _Unit) -> str | None:
        """Why vectors of one side would be lost: the other side makes them differently."""
        for maker, side in ((there, Side.OURS), (here, Side.THEIRS)):
            other = here if side is Side.OURS else there
            if _fits(before, maker) or not _fits(before, other):
                continue
            ids = self.sides.values(before.prop, side)
            if ids:
                return f"the {SIDE_NAMES[side]} wrote vectors, for example of {ids[0]!r}"
        return None

    def _settle_names(self, found: dict[str, _Unit]) -> None:
        """Two properties of one name: each side gave the name to another one."""
        for _ in range(len(found)):
            names = [unit.prop.name for unit in found.values()]
            name = next((n for n in names if names.count(n) > 1), None)
            if name is None:
                return
            here, there = (_holder(side, found, name) for side in (self.ours, self.theirs))
            if here is None or there is None or here == there:
                return
            said = (
                f"the name is that of two properties: `{self.ours[here].text()}` in the target, "
                f"`{self.theirs[there].text()}` in the source"
            )
            texts = (None, self.ours[here].text(), self.theirs[there].text())
            won = self.disputes.winner(self.subject(name), said, *texts)
            loser, names_of_winner = (there, self.ours) if won is Side.OURS else (here, self.theirs)
            if loser in names_of_winner and names_of_winner[loser].prop.name != name:
                unit = found[loser]
                prop = replace(unit.prop, name=names_of_winner[loser].prop.name)
                found[loser] = replace(unit, prop=prop)
            else:
                del found[loser]

    # The type itself

    def _header(self, found: Mapping[str, _Unit]) -> JoinedDeclaration:
        sides, three = self.sides, (self.sides.base, self.sides.ours, self.sides.theirs)
        aspects = [
            _aspects(side, ends, wide)
            for side, ends, wide in zip(three, sides.ends, self.wide, strict=True)
        ]
        merged: dict[Hashable, Any] = {}
        apart: list[Hashable] = []
        for aspect in {**aspects[1], **aspects[2]}:
            values = [side.get(aspect) for side in aspects]
            value, is_apart = three_way(*values)
            merged[aspect] = value
            if is_apart:
                apart.append(aspect)
        if apart:
            said = self._said(apart, aspects)
            texts = [declaration_text(side) if side else None for side in three]
            won = self.disputes.winner(self.subject(), said, *texts)
            for aspect in apart:
                merged[aspect] = aspects[1 if won is Side.OURS else 2].get(aspect)
        return JoinedDeclaration(self._built(found, merged), merged.get("ends"))

    def _said(self, apart: list[Hashable], aspects: list[dict[Hashable, Any]]) -> str:
        parts = []
        for aspect in apart:
            shown = []
            for place, side in ((1, self.sides.ours), (2, self.sides.theirs)):
                shown.append(_shown(aspect, aspects[place].get(aspect), side))
            parts.append(f"{shown[0]} in the target and {shown[1]} in the source")
        return "; ".join(parts)

    def _built(self, found: Mapping[str, _Unit], merged: Mapping[Hashable, Any]) -> Declared:
        ours, theirs = self.sides.ours, self.sides.theirs
        names = {key: unit.prop.name for key, unit in found.items()}
        lost = {*self.ours, *self.theirs} - names.keys()
        wide = [c for a, c in merged.items() if _is_constraint(a) and c is not None]
        single = {c for unit in found.values() for c in unit.constraints}
        order = [*_by_ids(ours), *_by_ids(theirs)]
        kept = [c for c in dict.fromkeys(order) if c in single or c in wide]
        notes = [a for n, a in merged.items() if isinstance(n, Annotation) and a is not None]
        shared: dict[str, Any] = {
            "name": merged["name"],
            "properties": tuple(unit.prop for unit in found.values()),
            "constraints": tuple(with_names(c, names) for c in kept if not lost & set(names_of(c))),
            "annotations": tuple(notes),
        }
        if isinstance(ours, InterfaceType):
            built: Declared = replace(ours, **shared)
        else:
            assert not isinstance(theirs, InterfaceType)
            shared["also"] = _together(ours.also, theirs.also)
            if isinstance(ours, NodeType):
                built = replace(ours, **shared, implements=_implements(self.sides))
            else:
                built = replace(ours, **shared, cardinality=merged.get("cardinality"))
        return _arranged(built, theirs)


def _fits(before: _Unit, after: _Unit) -> bool:
    """Stored vectors of a property stay what its declaration says."""
    old, new = before.prop, after.prop
    if not isinstance(old.type, VectorType):
        return True
    made, was = embedding_of(new), embedding_of(old)
    return old.type == new.type and (made is None or was is None or made == was)


def three_way(base: _T, ours: _T, theirs: _T) -> tuple[_T, bool]:
    """The merged value; True when both sides changed it, to different values."""
    if ours == theirs or theirs == base:
        return ours, False
    return (theirs, False) if ours == base else (ours, True)


def _joined_unit(before: _Unit | None, here: _Unit, there: _Unit) -> tuple[_Unit, bool]:
    """Every aspect of a property on its own; True when the sides contradict each other."""
    mine, yours = here.prop, there.prop
    old = before.prop if before else None
    name, apart = three_way(old.name if old else mine.name, mine.name, yours.name)
    kind = _joined_type(old.type if old else None, mine.type, yours.type)
    nullable = mine.nullable or yours.nullable
    if old is not None:
        nullable, _ = three_way(old.nullable, mine.nullable, yours.nullable)
    notes: list[Annotation] = []
    known, my_notes, your_notes = (
        {a.name: a for a in side.annotations} if side else {} for side in (old, mine, yours)
    )
    for note in {**my_notes, **your_notes}:
        annotation, differs = three_way(known.get(note), my_notes.get(note), your_notes.get(note))
        apart = apart or differs
        if annotation is not None:
            notes.append(annotation)
    rules: list[Constraint] = []
    ruled, my_rules, your_rules = (
        {_about(c): c for c in side.constraints} if side else {} for side in (before, here, there)
    )
    for rule in {**my_rules, **your_rules}:
        constraint, differs = three_way(ruled.get(rule), my_rules.get(rule), your_rules.get(rule))
        apart = apart or differs
        if constraint is not None:
            rules.append(constraint)
    merged = replace(
        mine, name=name, type=kind or mine.type, nullable=nullable, annotations=tuple(notes)
    )
    return _Unit(merged, tuple(rules)), apart or kind is None


def _joined_type(base: ValueType | None, ours: ValueType, theirs: ValueType) -> ValueType | None:
    """The type of a property; None when the sides contradict each other."""
    merged, apart = three_way(base, ours, theirs)
    if not apart:
        return merged
    if isinstance(ours, EnumType) and isinstance(theirs, EnumType):
        old = base.values if isinstance(base, EnumType) else ()
        removed = {v for v in old if v not in ours.values or v not in theirs.values}
        values = tuple(v for v in _together(ours.values, theirs.values) if v not in removed)
        return replace(ours, values=values) if values else None
    if widens(theirs, ours):
        return ours
    return theirs if widens(ours, theirs) else None


def _problem(merged: _Unit, ours: _Unit, theirs: _Unit) -> str | None:
    """Why a property that no side declares like this is wrong."""
    if merged.is_like(ours) or merged.is_like(theirs):
        return None
    reason = text_problem(_alone(merged))
    if reason is None or text_problem(_alone(ours)) or text_problem(_alone(theirs)):
        return None
    return reason


def _alone(unit: _Unit) -> Catalog:
    notes = tuple(a for a in unit.prop.annotations if a.name != "embed")
    return Catalog((NodeType("P", (replace(unit.prop, annotations=notes),), unit.named),))


def _units(declared: Declared | None) -> dict[str, _Unit]:
    if declared is None:
        return {}
    rules = _by_ids(declared)
    units = {}
    for prop in declared.properties:
        key = prop.identity or prop.name
        alone = tuple(c for c in rules if names_of(c) == (key,) and not isinstance(c, Key))
        units[key] = _Unit(prop, alone)
    return units


def _wide_constraints(declared: Declared | None) -> tuple[Constraint, ...]:
    """The key, and constraints about several columns."""
    known = _units(declared)
    alone = {c for unit in known.values() for c in unit.constraints}
    return tuple(c for c in _by_ids(declared) if c not in alone)


def _by_ids(declared: Declared | None) -> tuple[Constraint, ...]:
    if declared is None:
        return ()
    ids = {p.name: p.identity or p.name for p in declared.properties}
    return tuple(with_names(c, ids) for c in declared.constraints)


def _about(constraint: Constraint) -> Hashable:
    """A type can have only one of several constraints about the same."""
    match constraint:
        case Key():
            return Key
        case Range(property=name):
            return Range, name
        case Check(property=name):
            return Check, name
        case Index(properties=names):
            return Index, names
        case _:
            return constraint


def _aspects(
    declared: Declared | None, ends: Ends | None, wide: Iterable[Constraint]
) -> dict[Hashable, Any]:
    """What is declared about a type as a whole."""
    if declared is None:
        return {}
    found: dict[Hashable, Any] = {"name": declared.name}
    if isinstance(declared, EdgeType):
        found |= {"ends": ends, "cardinality": declared.cardinality}
    found |= {Annotation(a.name): a for a in declared.annotations}
    return found | {("constraint", _about(c)): c for c in wide}


def _is_constraint(aspect: Hashable) -> bool:
    return isinstance(aspect, tuple) and aspect[0] == "constraint"


def _shown(aspect: Hashable, value: Any, side: Declared) -> str:
    if aspect == "name":
        return f"it is called {value!r}"
    if aspect == "ends":
        assert isinstance(side, EdgeType)
        return f"it goes `{side.source} -> {side.target}`"
    if aspect == "cardinality":
        if value is None:
            return "it has no @card"
        return f"it has @card({value.minimum}..{'' if value.maximum is None else value.maximum})"
    if isinstance(aspect, Annotation):
        return f"it has {'no' if value is None else 'another'} @{aspect.name}"
    names = {p.identity or p.name: p.name for p in side.properties}
    return "it has no such rule" if value is None else spell_constraint(with_names(value, names))


def _implements(sides: DeclarationSides) -> tuple[str, ...]:
    old, mine, yours = (
        side.implements if isinstance(side, NodeType) else ()
        for side in (sides.base, sides.ours, sides.theirs)
    )
    removed = {name for name in old if name not in mine or name not in yours}
    return tuple(name for name in _together(mine, yours) if name not in removed)


def _holder(side: Mapping[str, _Unit], found: Mapping[str, _Unit], name: str) -> str | None:
    """The property that has a name on one side."""
    keys = (k for k, unit in side.items() if unit.prop.name == name and k in found)
    return next((k for k in keys if found[k].prop.name == name), None)


def _arranged(merged: Declared, theirs: Declared) -> Declared:
    """In the order of theirs if it says the same."""
    if unordered(merged) != unordered(theirs):
        return merged
    also = {p.identity: p.also for p in merged.properties}
    properties = tuple(replace(p, also=also.get(p.identity, p.also)) for p in theirs.properties)
    if isinstance(theirs, InterfaceType) or isinstance(merged, InterfaceType):
        return theirs
    return replace(theirs, properties=properties, also=merged.also)


def unordered(declared: Declared) -> object:
    """A declaration without the order of its parts, and without other identities."""
    plain = {p.name: replace(p, also=()) for p in declared.properties}
    rest: Any = replace(declared, properties=(), constraints=(), annotations=())
    if not isinstance(rest, InterfaceType):
        rest = replace(rest, also=())
    return rest, plain, set(declared.constraints), set(declared.annotations)


def is_like(declared: EntityType, other: EntityType | None) -> bool:
    return other is not None and unordered(declared) == unordered(other)


def _together(a: Sequence[str], b: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*a, *b]))
