"""Plans a schema change: from the old and the new catalog to ordered steps, or a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from omnigraph.catalog.identity import carry_identities, counterpart
from omnigraph.catalog.model import (
    Annotation,
    Catalog,
    Check,
    Constraint,
    EdgeType,
    EntityType,
    Index,
    Key,
    NodeType,
    Property,
    Range,
    Unique,
    default_of,
    renamed_from,
)
from omnigraph.errors import SchemaRefused
from omnigraph.schema import steps as st
from omnigraph.values.scalars import (
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)

KEY_CHANGED = "E001"
TYPE_CHANGED = "E002"
ENDPOINTS_CHANGED = "E003"
NO_BACKFILL = "E004"
BAD_RENAME = "E005"
KIND_CHANGED = "E006"

REFUSALS = {
    KEY_CHANGED: "the key of a type is fixed: ids are made of it",
    TYPE_CHANGED: "a property changes to a type that cannot hold every old value",
    ENDPOINTS_CHANGED: "an edge would connect other types than before",
    NO_BACKFILL: "a required property is added without a @default to fill existing rows with",
    BAD_RENAME: "@rename_from names something that is not there, or two things come from one",
    KIND_CHANGED: "a name changes between node and edge",
}

_WIDER: dict[ScalarKind, frozenset[ScalarKind]] = {
    ScalarKind.I32: frozenset({ScalarKind.I64, ScalarKind.F64}),
    ScalarKind.U32: frozenset({ScalarKind.U64, ScalarKind.I64, ScalarKind.F64}),
    ScalarKind.F32: frozenset({ScalarKind.F64}),
    ScalarKind.DATE: frozenset({ScalarKind.DATETIME}),
}


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """The steps in order, and the catalog after them."""

    steps: tuple[st.SchemaStep, ...]
    catalog: Catalog


def plan_evolution(old: Catalog, new: Catalog, allow_data_loss: bool = False) -> SchemaPlan:
    """Plan the change; raises `SchemaRefused` with `step`, `reason` and `refusal` code.

    Renames come first, so that all later steps use the new names. Additions, changes of properties
    and changes of constraints follow. Drops come last.
    """
    target = carry_identities(old, new)
    _check_renames(old.nodes, target.nodes)
    _check_renames(old.edges, target.edges)
    _check_kinds(old, target)
    planned: list[st.SchemaStep] = []
    pairs: list[tuple[EntityType | None, EntityType]] = []
    pairs += [(counterpart(node, old.nodes), node) for node in target.nodes]
    pairs += [(counterpart(edge, old.edges), edge) for edge in target.edges]
    kept = [(before, after) for before, after in pairs if before is not None]
    planned += [
        st.RenameType(before.table_key, after.name)
        for before, after in kept
        if before.name != after.name
    ]
    planned += [st.AddType(after.table_key) for before, after in pairs if before is None]
    for before, after in kept:
        planned += _type_steps(before, after, _node_renames(old, target), allow_data_loss)
    planned += _interface_steps(old, target, kept)
    survivors = {before.identity for before, _ in kept}
    # Edges are dropped before their nodes.
    dropped: list[EntityType] = [*old.edges, *old.nodes]
    planned += [
        st.DropType(gone.table_key, allow_data_loss)
        for gone in dropped
        if gone.identity not in survivors
    ]
    return SchemaPlan(tuple(planned), target)


def _refuse(code: str, step: str, reason: str) -> SchemaRefused:
    return SchemaRefused(f"{code}: {step}: {reason}", refusal=code, step=step, reason=reason)


def _check_renames(
    old: tuple[NodeType, ...] | tuple[EdgeType, ...] | tuple[Property, ...],
    new: tuple[NodeType, ...] | tuple[EdgeType, ...] | tuple[Property, ...],
    owner: str = "",
) -> None:
    old_names = {item.name for item in old}
    new_names = {item.name for item in new}
    sources: set[str] = set()
    for item in new:
        source = renamed_from(item.annotations)
        if source is None or item.name in old_names:
            continue  # the rename was applied before; the annotation may stay in the text
        step = f"rename {owner}{source} to {item.name}"
        if source not in old_names:
            raise _refuse(BAD_RENAME, step, f"there is no '{source}'")
        if source in new_names or source in sources:
            raise _refuse(BAD_RENAME, step, f"'{source}' is still there")
        sources.add(source)


def _check_kinds(old: Catalog, new: Catalog) -> None:
    changed = ({n.name for n in old.nodes} & {e.name for e in new.edges}) | (
        {e.name for e in old.edges} & {n.name for n in new.nodes}
    )
    for name in sorted(changed):
        raise _refuse(
            KIND_CHANGED, f"redeclare {name}", "a node cannot become an edge, nor the reverse"
        )


def _node_renames(old: Catalog, new: Catalog) -> dict[str, str]:
    pairs = [(counterpart(node, old.nodes), node) for node in new.nodes]
    return {before.name: after.name for before, after in pairs if before is not None}


def _type_steps(
    before: EntityType, after: EntityType, renames: dict[str, str], hard: bool
) -> Iterator[st.SchemaStep]:
    _check_renames(before.properties, after.properties, f"{after.name}.")
    _check_key(before, after)
    table = after.table_key
    property_pairs = [(counterpart(p, before.properties), p) for p in after.properties]
    names = {b.name: a.name for b, a in property_pairs if b is not None}
    for old_name, new_name in names.items():
        if old_name != new_name:
            yield st.RenameProperty(table, old_name, new_name)
    for known, declared in property_pairs:
        if known is None:
            yield _added(after, declared)
        else:
            yield from _property_steps(after, known, declared)
    yield from _constraint_steps(before, after, names)
    if isinstance(before, EdgeType) and isinstance(after, EdgeType):
        yield from _edge_steps(before, after, renames)
    if _notes(before.annotations) != _notes(after.annotations):
        yield st.ChangeAnnotations(table, None, after.annotations)
    kept = {known.identity for known, _ in property_pairs if known is not None}
    for gone in before.properties:
        if gone.identity not in kept:
            yield st.DropProperty(table, gone.name, hard)


def _check_key(before: EntityType, after: EntityType) -> None:
    identity_before = {p.name: p.identity for p in before.properties}
    identity_after = {p.name: p.identity for p in after.properties}
    old = [identity_before.get(name, name) for name in before.key]
    new = [identity_after.get(name, name) for name in after.key]
    if old != new:
        raise _refuse(
            KEY_CHANGED,
            f"change the key of {after.name} from ({', '.join(before.key)}) "
            f"to ({', '.join(after.key)})",
            f"ids are made of it; load the {before.table_key.kind.value}s into a new type instead",
        )


def _added(owner: EntityType, declared: Property) -> st.AddProperty:
    default = default_of(declared)
    if default is None and not declared.nullable:
        raise _refuse(
            NO_BACKFILL,
            f"add {owner.name}.{declared.name}",
            "existing rows need a value: make it nullable or give it a @default",
        )
    return st.AddProperty(owner.table_key, declared, default)


def _property_steps(
    owner: EntityType, before: Property, after: Property
) -> Iterator[st.SchemaStep]:
    table = owner.table_key
    if before.type != after.type:
        yield from _type_change(owner, before, after)
    if before.nullable and not after.nullable:
        yield st.MakeRequired(table, after.name, default_of(after))
    elif after.nullable and not before.nullable:
        yield st.MakeNullable(table, after.name)
    if _notes(before.annotations) != _notes(after.annotations):
        yield st.ChangeAnnotations(table, after.name, after.annotations)


def _type_change(owner: EntityType, before: Property, after: Property) -> Iterator[st.SchemaStep]:
    table, step = owner.table_key, f"change {owner.name}.{after.name}"
    is_key = after.name in owner.key
    if isinstance(before.type, EnumType) and isinstance(after.type, EnumType):
        added = tuple(v for v in after.type.values if v not in before.type.values)
        removed = tuple(v for v in before.type.values if v not in after.type.values)
        if added:
            yield st.ExtendEnum(table, after.name, added)
        if removed:
            yield st.ShrinkEnum(table, after.name, removed)
        return
    if is_key and not _keeps_ids_when_wider(before.type):
        raise _refuse(
            KEY_CHANGED,
            step,
            f"{after.type} would spell the ids of existing {table.kind.value}s differently",
        )
    if not widens(before.type, after.type):
        raise _refuse(
            TYPE_CHANGED, step, f"{after.type} cannot hold every {before.type}; add a new property"
        )
    yield st.WidenProperty(table, after.name, before.type, after.type)


def _keeps_ids_when_wider(before: ValueType) -> bool:
    """The id text of a key stays the same in the wider type; a date changes as a DateTime."""
    return not (isinstance(before, ScalarType) and before.kind is ScalarKind.DATE)


def widens(before: ValueType, after: ValueType) -> bool:
    """Every value of type `before` is a value of type `after`."""
    match before, after:
        case ScalarType(old), ScalarType(new):
            return new in _WIDER.get(old, frozenset())
        case ListType(old), ListType(new):
            return new in _WIDER.get(old, frozenset())
        case EnumType(), ScalarType(ScalarKind.STRING):
            return True
        case VectorType(), VectorType():
            return False
        case _:
            return False


def _constraint_steps(
    before: EntityType, after: EntityType, names: dict[str, str]
) -> Iterator[st.SchemaStep]:
    table = after.table_key
    old = {_renamed(c, names): c for c in before.constraints if not isinstance(c, Key)}
    new = [c for c in after.constraints if not isinstance(c, Key)]
    for renamed, constraint in old.items():
        if renamed not in new:
            yield st.RemoveConstraint(table, constraint)
    for constraint in new:
        if constraint not in old:
            yield st.AddConstraint(table, constraint)


def _renamed(constraint: Constraint, names: dict[str, str]) -> Constraint:
    match constraint:
        case Range() | Check():
            return replace(constraint, property=names.get(constraint.property, constraint.property))
        case Key() | Unique() | Index():
            renamed = tuple(names.get(name, name) for name in constraint.properties)
            return replace(constraint, properties=renamed)


def _edge_steps(
    before: EdgeType, after: EdgeType, renames: dict[str, str]
) -> Iterator[st.SchemaStep]:
    ends = (renames.get(before.source), renames.get(before.target))
    if ends != (after.source, after.target):
        raise _refuse(
            ENDPOINTS_CHANGED,
            f"change {after.name} from {before.source} -> {before.target} "
            f"to {after.source} -> {after.target}",
            "existing edges would end in nodes of another type; declare a new edge",
        )
    if before.cardinality != after.cardinality:
        yield st.ChangeCardinality(after.table_key, before.cardinality, after.cardinality)


def _interface_steps(
    old: Catalog, new: Catalog, kept: list[tuple[EntityType, EntityType]]
) -> Iterator[st.SchemaStep]:
    if old.interfaces != new.interfaces:
        yield st.ChangeInterfaces(None, tuple(i.name for i in new.interfaces))
    for before, after in kept:
        if not isinstance(before, NodeType) or not isinstance(after, NodeType):
            continue
        if before.implements != after.implements:
            yield st.ChangeInterfaces(after.table_key, after.implements)


def _notes(annotations: tuple[Annotation, ...]) -> tuple[Annotation, ...]:
    """`@rename_from` is an instruction for one change, not a fact about the type."""
    return tuple(a for a in annotations if a.name != "rename_from")
