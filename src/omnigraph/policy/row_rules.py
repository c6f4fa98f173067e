"""The part of a graph that matching rules leave to an actor, as a `DataScope`.

A row is in scope when the predicate of some `allow` rule about its type is true, and the negated
predicate of every `deny` rule is true. So a NULL does not pass either of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from omnigraph.catalog.model import Catalog, EntityType, embedding_of
from omnigraph.errors import InvalidArgument
from omnigraph.ir import expressions as ex
from omnigraph.ir.data_scope import DataScope, TypeScope
from omnigraph.policy.bundle import Effect, PolicyRule, rule_problem
from omnigraph.query.row_predicates import ACTOR, row_predicate_for

HIDDEN_KEY = "hidden_key"
UNKNOWN_TYPE = "unknown_type"
UNKNOWN_PROPERTY = "unknown_property"
WRONG_PREDICATE = "wrong_predicate"


def uses_actor(rule: PolicyRule) -> bool:
    """Whether the rows of the rule may differ by actor."""
    return any(f"${ACTOR}" in condition for condition in rule.where.values())


def data_scope(
    allows: Sequence[PolicyRule], denies: Sequence[PolicyRule], catalog: Catalog, actor: str
) -> DataScope | None:
    """What the rules leave; None when that is everything.

    A rule that does not fit the catalog raises `PolicyInvalid`. It never counts as absent.
    """
    for rule in (*allows, *denies):
        _require_known(rule, catalog)
    types: dict[str, TypeScope] = {}
    for entity in catalog.entity_types():
        found = _type_scope(entity, allows, denies, catalog, actor)
        if found is not None:
            types[entity.name] = found
    for edge in catalog.edges:
        if edge.source not in types or edge.target not in types:
            types.pop(edge.name, None)
    whole = TypeScope()
    if len(types) == len(list(catalog.entity_types())) and all(t == whole for t in types.values()):
        return None
    return DataScope(_key(types), types)


def _key(types: dict[str, TypeScope]) -> str:
    told = [(name, sorted(scope.hidden), repr(scope.rows)) for name, scope in sorted(types.items())]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:32]


def names_of(name: str, catalog: Catalog) -> tuple[str, ...]:
    """The types that a rule means by a name: the type itself, or those of an interface."""
    if name in catalog.node_types or name in catalog.edge_types:
        return (name,)
    return tuple(node.name for node in catalog.nodes if name in node.implements)


def _is_known(name: str, catalog: Catalog) -> bool:
    return bool(names_of(name, catalog)) or any(name == i.name for i in catalog.interfaces)


def _require_known(rule: PolicyRule, catalog: Catalog) -> None:
    """Refuse a name of an unknown type where its absence would show more."""
    limited = {*rule.properties, *rule.where}
    if rule.effect is Effect.DENY:
        limited |= {*(rule.types or ())}
    elif rule.types is not None:
        return  # the rule shows only what it lists
    for name in sorted(limited):
        if not _is_known(name, catalog):
            raise rule_problem(
                rule,
                UNKNOWN_TYPE,
                f"{rule.effect}.types",
                f"the schema of this state has no type {name!r}, so what the rule hides is unknown",
            )


@dataclass(frozen=True, slots=True)
class _Grant:
    """What one rule shows of one type."""

    rows: ex.Expression | None
    visible: frozenset[str]


def _type_scope(
    entity: EntityType,
    allows: Sequence[PolicyRule],
    denies: Sequence[PolicyRule],
    catalog: Catalog,
    actor: str,
) -> TypeScope | None:
    grants = [
        _grant(rule, entity, catalog, actor) for rule in allows if _covers(rule, entity, catalog)
    ]
    if not grants:
        return None
    every = frozenset(declared.name for declared in entity.properties)
    visible = _visible(grants)
    # Equal conditions are one; a rule without a condition shows every row.
    conditions = list(dict.fromkeys(grant.rows for grant in grants))
    kept: list[ex.Expression] = []
    if None not in conditions:
        shown = [condition for condition in conditions if condition is not None]
        kept.append(shown[0] if len(shown) == 1 else ex.Or(tuple(shown), nullable=True))
    for rule in denies:
        named = _named(rule.properties, entity, catalog)
        predicate = _predicate(rule, entity, catalog, actor)
        if named:
            hidden = {name for each in named for name in rule.properties[each]}
            _check_hidden(rule, entity, hidden, every)
            visible -= hidden
        elif predicate is not None:
            kept.append(ex.Not(predicate, nullable=True))
        elif rule.types is not None and _named(rule.types, entity, catalog):
            return None
    rows = None if not kept else kept[0] if len(kept) == 1 else ex.And(tuple(kept), nullable=True)
    return TypeScope(_with_vectors(entity, every - visible), rows)


def _with_vectors(entity: EntityType, hidden: frozenset[str]) -> frozenset[str]:
    """The hidden properties and the vectors that are made from them, which tell their content."""
    made = {p.name for p in entity.properties if (e := embedding_of(p)) and e.source in hidden}
    return hidden | made


def _visible(grants: Sequence[_Grant]) -> frozenset[str]:
    """The properties that are visible in every row in scope.

    Rules with equal rows add up. Of rules with different rows only what all of them show is
    visible, except that a rule about every row shows its properties in every row.
    """
    by_rows: dict[ex.Expression | None, frozenset[str]] = {}
    for grant in grants:
        by_rows[grant.rows] = by_rows.get(grant.rows, frozenset()) | grant.visible
    if None in by_rows:
        return by_rows[None]
    return frozenset.intersection(*by_rows.values())


def _covers(rule: PolicyRule, entity: EntityType, catalog: Catalog) -> bool:
    return rule.types is None or bool(_named(rule.types, entity, catalog))


def _named(names: Iterable[str], entity: EntityType, catalog: Catalog) -> list[str]:
    """Those of the names of a rule that mean this type."""
    return [name for name in names if entity.name in names_of(name, catalog)]


def _grant(rule: PolicyRule, entity: EntityType, catalog: Catalog, actor: str) -> _Grant:
    every = frozenset(declared.name for declared in entity.properties)
    visible = every
    for name in _named(rule.properties, entity, catalog):
        visible &= frozenset(rule.properties[name])
    missing = _keys(entity) - visible
    if missing:
        raise _hidden_key(rule, entity, missing)
    return _Grant(_predicate(rule, entity, catalog, actor), visible)


def _keys(entity: EntityType) -> frozenset[str]:
    declared = {p.name for p in entity.properties}
    return frozenset(name for name in entity.key if name in declared)


def _check_hidden(
    rule: PolicyRule, entity: EntityType, hidden: set[str], every: frozenset[str]
) -> None:
    if hidden & _keys(entity):
        raise _hidden_key(rule, entity, hidden & _keys(entity))
    for name in sorted(hidden - every):
        raise rule_problem(
            rule,
            UNKNOWN_PROPERTY,
            f"{rule.effect}.properties.{entity.name}",
            f"{entity.name} has no property {name!r} in the schema of this state, so what the "
            "rule hides is unknown",
        )


def _hidden_key(rule: PolicyRule, entity: EntityType, names: Iterable[str]) -> Exception:
    listed = ", ".join(sorted(names))
    return rule_problem(
        rule,
        HIDDEN_KEY,
        f"{rule.effect}.properties.{entity.name}",
        f"it hides {listed}, which is in the key of {entity.name}: ids are made of the key, so it "
        "cannot be hidden",
    )


def _predicate(
    rule: PolicyRule, entity: EntityType, catalog: Catalog, actor: str
) -> ex.Expression | None:
    """All conditions of the rule on this type; of an interface and of the type itself, both."""
    found: list[ex.Expression] = []
    for name in _named(rule.where, entity, catalog):
        try:
            found.append(row_predicate_for(catalog, entity.name, rule.where[name], actor))
        except InvalidArgument as error:
            path = f"{rule.effect}.where.{name}"
            raise rule_problem(rule, WRONG_PREDICATE, path, error.message) from error
    if not found:
        return None
    return found[0] if len(found) == 1 else ex.And(tuple(found), nullable=True)
