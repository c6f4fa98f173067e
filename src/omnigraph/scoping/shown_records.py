"""Commits, tags and broken rules as an actor with a scope may see them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.errors import ExpectedVersionMismatch, KeyConflict, ValidationFailed
from omnigraph.ir.data_scope import DataScope
from omnigraph.manifest.records import Commit
from omnigraph.manifest.refs import Tag
from omnigraph.values.identifiers import TableKey

_ABOUT_OTHERS = {
    "unique": "a value belongs to another entity already",
    "cardinality": "a source would have too many or too few edges",
}
"""Rules whose messages tell about stored entities: the message without these."""
_SYSTEM = frozenset({"id", "from", "to", "src", "dst"})


def whole_tables(catalog: Catalog, scope: DataScope) -> frozenset[TableKey]:
    """The tables of types that are in scope with all properties and rows."""
    return frozenset(e.table_key for e in catalog.entity_types() if shows_whole(e, scope))


def shows_whole(entity: EntityType, scope: DataScope) -> bool:
    names = {entity.name, getattr(entity, "source", entity.name)}
    names.add(getattr(entity, "target", entity.name))
    if not names <= scope.types.keys() or scope.types[entity.name].hidden:
        return False
    return not scope.may_hide_rows(entity)


def shown_commit(commit: Commit, whole: frozenset[TableKey]) -> Commit:
    """The commit with counts, ids and pins only of these tables."""
    recovery = commit.recovery
    if recovery is not None:
        known = {str(key) for key in whole}
        tables = {name: state for name, state in recovery.tables.items() if name in known}
        recovery = replace(recovery, tables=tables)
    return replace(
        commit,
        changes=tuple(c for c in commit.changes if c.key in whole),
        pins=tuple(p for p in commit.pins if {x.key for x in (p.before, p.after) if x} <= whole),
        differs_from_merged=None,
        recovery=recovery,
        details={},
    )


def shown_tag(tag: Tag, whole: frozenset[TableKey]) -> Tag:
    return replace(tag, tables=tuple(pin for pin in tag.tables if pin.key in whole))


def quiet_message(rule: str, message: str) -> str:
    """The message about a broken rule, without what it tells about stored entities."""
    return _ABOUT_OTHERS.get(rule, message)


def may_name(named: Catalog, type_name: str | None, properties: str | None) -> bool:
    """Whether a type and its properties (names with commas between them) are in this catalog."""
    if type_name is None:
        return True
    entity = named.node_types.get(type_name) or named.edge_types.get(type_name)
    if entity is None:
        return False
    known = _SYSTEM | {p.name for p in entity.properties}
    return properties is None or set(properties.split(",")) <= known


def discreet(error: ValidationFailed, named: Catalog) -> ValidationFailed:
    """The error for a writer that sees only a part of the graph.

    It has only broken rules of types and properties that the writer may name, and no values of
    stored entities.
    """
    if isinstance(error, KeyConflict):
        return error  # it names ids of the input
    kept = [
        {**violation, "message": quiet_message(violation["rule"], violation["message"])}
        for violation in error.violations
        if may_name(named, violation["type"], violation["property"])
    ]
    summary = [s for s in error.summary or () if may_name(named, s["type"], s["property"])]
    if not kept:
        return ValidationFailed(
            "this write breaks a rule about data that you may not see", violations=(), total=1
        )
    counts: Counter[str] = Counter()
    for broken in summary:
        counts[broken["rule"]] += broken["count"]
    total = max(counts.total(), len(kept))
    first = kept[0]
    where = f"{first['file']}:{first['line']}: " if first.get("file") else ""
    whose = f" {first['entity_id']!r}" if first.get("entity_id") else ""
    more = f" ({total:,} violations in total)" if total > 1 else ""
    return ValidationFailed(
        f"{where}{first['type'] or ''}{whose}: {first['message']}{more}",
        violations=kept,
        total=total,
        counts=dict(counts),
        summary=summary,
    )


def discreet_mismatch(error: ExpectedVersionMismatch, named: Catalog) -> ExpectedVersionMismatch:
    """The error for a writer that may name only these types."""
    _, _, type_name = (error.table or "").partition(":")
    if not type_name or may_name(named, type_name, None):
        return error
    return ExpectedVersionMismatch(
        "another writer changed the branch while this was prepared; repeat it", table="branch"
    )
