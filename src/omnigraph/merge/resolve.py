"""Merge three contents into effects on ours: rows first, then the rules of the graph."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import Catalog
from omnigraph.changes.change_list import Op
from omnigraph.changes.changeset import SchemaChange
from omnigraph.changes.effects import Effect
from omnigraph.diff.change import Change, ChangeOp, TypeRef
from omnigraph.diff.entity_rows import images, sort_key
from omnigraph.diff.id_runs import Scratch
from omnigraph.errors import MergeConflicts, ValidationFailed
from omnigraph.integrity.row_checks import check_rows
from omnigraph.integrity.validate import validate_deltas
from omnigraph.integrity.violations import Report, Violation
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.merge.catalogs import MergedCatalog, merge_catalogs
from omnigraph.merge.conflicts import Conflict
from omnigraph.merge.constraint_conflicts import ConstraintConflicts, ForcedTables
from omnigraph.merge.decisions import Decisions, Take
from omnigraph.merge.merger import Merger, Sides, identity_of
from omnigraph.merge.table_output import TableOutput
from omnigraph.merge.three_way import Forced
from omnigraph.values.identifiers import TableKey

_STALLED_ROUNDS = 20
_VIOLATIONS = 10_000
_NAMED = 5
_DELETES_AT_ONCE = 1024

MOST_CONFLICTS = 10_000
"""So many conflicts are listed; further ones are only counted."""


@dataclass
class Merged:
    """The result of merging: what to do to our tables, and what stands in the way."""

    sides: Sides
    catalog: MergedCatalog
    outputs: list[TableOutput] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    conflict_count: int = 0
    forced: Mapping[TableKey, Forced] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[TableKey, ...]:
        """Existing tables of ours that change."""
        return tuple(o.key for o in self.outputs if o.key not in self.new_tables)

    @property
    def new_tables(self) -> frozenset[TableKey]:
        return frozenset(entity.table_key for entity in self.catalog.created)

    def add_conflicts(self, found: list[Conflict]) -> None:
        self.conflict_count += len(found)
        self.conflicts += found[: MOST_CONFLICTS - len(self.conflicts)]

    def forced_ids(self, key: TableKey) -> list[str]:
        """Entities whose side was decided because a rule was broken."""
        return self.forced[key].ids if key in self.forced else []

    def effects(self, store: Store, ours: Snapshot) -> tuple[Effect, ...]:
        return tuple(
            o.first_rows()
            if o.key in self.new_tables
            else o.effect(store, ours.pin(o.key), self.sides.ours.snapshot.tables.get(o.key))
            for o in self.outputs
        )

    def schema_change(self, source_text: str) -> SchemaChange | None:
        catalog = self.catalog
        if catalog.catalog == self.sides.ours.snapshot.catalog:
            return None
        replaced = tuple(entity.table_key for entity in catalog.reshaped)
        return SchemaChange(catalog.catalog, source_text, catalog.created, replaced)

    def refuse_conflicts(self, names: tuple[str, str]) -> None:
        if not self.conflicts:
            return
        source, target = names
        shown = "; ".join(c.message for c in self.conflicts[:_NAMED])
        more = self.conflict_count - _NAMED
        rest = f" and {more} more" if more > 0 else ""
        raise MergeConflicts(
            f"{source} and {target} are in conflict: {shown}{rest}",
            conflicts=self.conflicts,
            total=self.conflict_count,
            source=source,
            target=target,
        )

    def changes(self, store: Store) -> Iterator[Change]:
        """What would change in ours, in the order of a diff."""
        for output in sorted(self.outputs, key=lambda o: sort_key(o.key)):
            parts = (_written(store, self.sides, output), _deleted(store, self.sides, output))
            yield from heapq.merge(*parts, key=lambda change: change.id)


def merge_sides(
    store: Store,
    merger: Merger,
    sides: Sides,
    decisions: Decisions,
    scratch: Scratch,
) -> Merged:
    """Merge; then settle broken rules as decided, until the graph is right or somebody must look.

    Every round starts from the rows, because bringing a node back or dropping an edge can break
    the next rule.
    """
    catalogs = [side.snapshot.catalog for side in sides.all]
    catalog = merge_catalogs(*catalogs)
    forced, stalled = ForcedTables(), 0
    rules = ConstraintConflicts(store, sides, catalog.catalog)
    while True:
        merged = Merged(sides, catalog, forced=forced.by_table())
        violations = _violations(store, merged, _merge_rows(merger, merged, decisions, scratch))
        known = forced.count
        open_ones, moved = _judge(violations, rules, decisions, forced)
        stalled = 0 if forced.count > known else stalled + 1
        if moved and stalled < _STALLED_ROUNDS:
            for output in merged.outputs:
                output.discard()
            continue
        # Decisions that undo each other settle nothing: somebody must look at all of them.
        merged.add_conflicts([rules.conflict(v) for v in violations] if moved else open_ones)
        merged.conflicts.sort(key=_conflict_order)
        return merged


def _merge_rows(merger: Merger, merged: Merged, decisions: Decisions, scratch: Scratch) -> Report:
    """Fill `merged` with outputs and conflicts; what is wrong with single rows is reported."""
    report = Report(_VIOLATIONS)
    parts = merger.merge(merged.sides, merged.catalog, decisions, merged.forced)
    for entity, chunks in parts:
        output = TableOutput(entity, scratch)
        for chunk in chunks:
            merged.add_conflicts(chunk.conflicts)
            check_rows(entity, chunk.written, report)
            output.add(chunk)
        if not output.is_empty or output.key in merged.new_tables:
            merged.outputs.append(output)
    return report


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


def _violations(store: Store, merged: Merged, report: Report) -> list[Violation]:
    deltas = {o.key: o.delta(creates=o.key in merged.new_tables) for o in merged.outputs}
    try:
        validate_deltas(_image(merged.sides, merged.catalog), store, deltas, report=report)
    except ValidationFailed:
        return report.violations
    return []


def _image(sides: Sides, catalog: MergedCatalog) -> Snapshot:
    """Our snapshot as the rules see it: a table that is only created now looks like theirs."""
    ours, theirs = sides.ours.snapshot, sides.theirs.snapshot
    created = {e.table_key: theirs.pin(e.table_key) for e in catalog.added}
    return replace(ours, catalog=catalog.catalog, tables={**ours.tables, **created})


def _written(store: Store, sides: Sides, output: TableOutput) -> Iterator[Change]:
    schema = table_schema(output.entity)
    for table in output.batches():
        ids = table.column("id").combine_chunks()
        before = sides.ours.rows(store, identity_of(output.entity), ids, schema)
        old = images(before.rows)
        for row, new in enumerate(images(table)):
            if not before.present[row]:
                yield _change(output, new["id"], ChangeOp.INSERT, None, new)
            elif old[row] != new:  # a table with new columns is written whole
                yield _change(output, new["id"], ChangeOp.UPDATE, old[row], new)


def _deleted(store: Store, sides: Sides, output: TableOutput) -> Iterator[Change]:
    ids = output.ids(Op.DELETE)
    schema = table_schema(output.entity)
    for start in range(0, len(ids), _DELETES_AT_ONCE):
        some = ids.slice(start, _DELETES_AT_ONCE)
        before = sides.ours.rows(store, identity_of(output.entity), some, schema)
        for old in images(before.rows):
            yield _change(output, old["id"], ChangeOp.DELETE, old, None)


def _change(
    output: TableOutput,
    entity_id: str,
    op: ChangeOp,
    before: dict[str, object] | None,
    after: dict[str, object] | None,
) -> Change:
    type_ref = TypeRef(output.entity.identity, output.entity.name)
    return Change(output.key.kind.value, type_ref, entity_id, op.value, before, after)


def _conflict_order(conflict: Conflict) -> tuple[bool, str, str, str]:
    by_kind = conflict.entity_kind != "node"
    return by_kind, conflict.type_name, conflict.entity_id, conflict.property or ""


def schema_text(catalog: Catalog, theirs: Catalog, text: str) -> str:
    """The text of a merged schema, where one of the sides wrote exactly it."""
    return text if catalog == theirs else ""
