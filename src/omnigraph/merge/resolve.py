"""Merge three contents into effects on ours: rows first, then the rules of the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from omnigraph.catalog.model import Catalog
from omnigraph.errors import MergeConflicts, ValidationFailed
from omnigraph.integrity.validate import validate_deltas
from omnigraph.integrity.violations import Violation
from omnigraph.lance_store.store import Store
from omnigraph.manifest.schemas import AcceptedSchema
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.merge.catalogs import MergedCatalog, merge_catalogs
from omnigraph.merge.conflicts import Conflict
from omnigraph.merge.constraint_conflicts import ConstraintConflicts, ForcedTables
from omnigraph.merge.decisions import Decisions, Take
from omnigraph.merge.merger import Merger, Sides
from omnigraph.merge.row_work import Findings, RowWork
from omnigraph.merge.table_output import Output
from omnigraph.merge.three_way import Forced
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.changeset import SchemaChange
from omnigraph.writes.effects import Effect

_STALLED_ROUNDS = 20
_NAMED = 5

OutputT = TypeVar("OutputT", bound=Output)


@dataclass
class Merged(Generic[OutputT]):
    """The result of merging: what to do to our tables, and what stands in the way."""

    sides: Sides
    catalog: MergedCatalog
    outputs: list[OutputT] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)
    forced: Mapping[TableKey, Forced] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[TableKey, ...]:
        """Existing tables of ours that change."""
        changed = (output.entity.table_key for output in self.outputs)
        return tuple(key for key in changed if key not in self.new_tables)

    @property
    def new_tables(self) -> frozenset[TableKey]:
        return frozenset(entity.table_key for entity in self.catalog.created)

    def forced_ids(self, key: TableKey) -> list[str]:
        """Entities whose side was decided because a rule was broken."""
        return self.forced[key].ids if key in self.forced else []

    def effects(self, store: Store, ours: Snapshot) -> tuple[Effect, ...]:
        before = self.sides.ours.snapshot.tables
        found = []
        for output in self.outputs:
            key = output.entity.table_key
            pin = None if key in self.new_tables else ours.pin(key)
            found.append(output.effect(store, pin, before.get(key)))
        return tuple(found)

    def schema_change(self, theirs: AcceptedSchema) -> SchemaChange | None:
        catalog = self.catalog
        if catalog.catalog == self.sides.ours.snapshot.catalog:
            return None
        replaced = tuple(entity.table_key for entity in catalog.reshaped)
        text = _schema_text(catalog.catalog, theirs)
        return SchemaChange(catalog.catalog, text, catalog.created, replaced)

    def refuse_conflicts(self, names: tuple[str, str]) -> None:
        conflicts, total = self.findings.conflicts, self.findings.conflict_count
        if not conflicts:
            return
        source, target = names
        shown = "; ".join(c.message for c in conflicts[:_NAMED])
        rest = f" and {total - _NAMED} more" if total > _NAMED else ""
        raise MergeConflicts(
            f"{source} and {target} are in conflict: {shown}{rest}",
            conflicts=conflicts,
            total=total,
            source=source,
            target=target,
        )


def merge_sides(
    store: Store,
    merger: Merger,
    sides: Sides,
    decisions: Decisions,
    rows: RowWork[OutputT],
) -> Merged[OutputT]:
    """Merge; then settle broken rules as decided, until the graph is right or somebody must look.

    Every round starts from the rows, because bringing a node back or dropping an edge can break
    the next rule.
    """
    catalogs = [side.snapshot.catalog for side in sides.all]
    catalog = merge_catalogs(*catalogs)
    forced, stalled = ForcedTables(), 0
    rules = ConstraintConflicts(store, sides, catalog.catalog)
    while True:
        merged: Merged[OutputT] = Merged(sides, catalog, forced=forced.by_table())
        _merge_rows(merger, merged, decisions, rows)
        violations = _violations(store, merged)
        known = forced.count
        open_ones, moved = _judge(violations, rules, decisions, forced)
        stalled = 0 if forced.count > known else stalled + 1
        if moved and stalled < _STALLED_ROUNDS:
            for output in merged.outputs:
                output.discard()
            continue
        # Decisions that undo each other settle nothing: somebody must look at all of them.
        merged.findings.add([rules.conflict(v) for v in violations] if moved else open_ones)
        merged.findings.conflicts.sort(key=_conflict_order)
        return merged


def _merge_rows(
    merger: Merger, merged: Merged[OutputT], decisions: Decisions, rows: RowWork[OutputT]
) -> None:
    """Fill `merged` with outputs, conflicts and what is wrong with single rows."""
    for table, ids in merger.tables(merged.sides, merged.catalog, merged.forced):
        output = rows.merge_table(table, ids, decisions, merged.findings)
        if not output.is_empty or table.entity.table_key in merged.new_tables:
            merged.outputs.append(output)


def _judge(
    violations: list[Violation],
    rules: ConstraintConflicts,
    decisions: Decisions,
    forced: ForcedTables,
) -> tuple[list[Conflict], bool]:
    """(conflicts nobody decided, whether a decision changed something)."""
    open_ones, moved = [], False
    seen: set[tuple[TableKey | None, str | None, str]] = set()
    for found in violations:
        name = (found.table, found.entity_id, found.rule)
        if name in seen:
            continue
        seen.add(name)
        uniform = decisions.uniform
        take = Take(uniform) if uniform else decisions.decide(rules.conflict(found))
        if take is not None and rules.settle(found, take, forced):
            moved = True
        else:
            open_ones.append(rules.conflict(found))
    return open_ones, moved


def _violations(store: Store, merged: Merged[OutputT]) -> list[Violation]:
    deltas = {}
    for output in merged.outputs:
        key = output.entity.table_key
        deltas[key] = output.delta(creates=key in merged.new_tables)
    report, image = merged.findings.report, _image(merged.sides, merged.catalog)
    try:
        validate_deltas(image, store, deltas, report=report)
    except ValidationFailed:
        return report.violations
    return []


def _image(sides: Sides, catalog: MergedCatalog) -> Snapshot:
    """Our snapshot as the rules see it: a table that is only created now looks like theirs."""
    ours, theirs = sides.ours.snapshot, sides.theirs.snapshot
    created = {e.table_key: theirs.pin(e.table_key) for e in catalog.added}
    return replace(ours, catalog=catalog.catalog, tables={**ours.tables, **created})


def _conflict_order(conflict: Conflict) -> tuple[bool, str, str, str]:
    by_kind = conflict.entity_kind != "node"
    return by_kind, conflict.type_name, conflict.entity_id, conflict.property or ""


def _schema_text(catalog: Catalog, theirs: AcceptedSchema) -> str:
    """As one of the sides wrote it, else made of the catalog."""
    if catalog == theirs.catalog and theirs.source:
        return theirs.source
    from omnigraph.schema.catalog_text import catalog_text

    return catalog_text(catalog)
