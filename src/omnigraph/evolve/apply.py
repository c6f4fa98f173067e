"""Apply a schema change: one commit through the one write path.

Metadata steps only name other columns of the same files. Rewritten columns are written beside live
data, one fragment at a time, and no other writer waits for that. If a writer of the same type was
faster, the change is prepared once more, and this time other writers wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from omnigraph import failpoints
from omnigraph.catalog.model import Catalog
from omnigraph.commit.request import Claims, CommitTerms, WriteReceipt, WriteRequest
from omnigraph.commit.transaction import Transaction
from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.evolve.checks import tables_read
from omnigraph.evolve.new_columns import (
    ColumnTask,
    ColumnWriter,
    NewColumns,
    id_map,
    new_shape,
    write_here,
)
from omnigraph.evolve.plan import (
    NewSchema,
    PlanContext,
    PreparedChange,
    SchemaPlan,
    prepare_change,
)
from omnigraph.evolve.stored_plans import plan_of_commit
from omnigraph.lance_store.staging.columns import fragment_ids, holds_null
from omnigraph.lance_store.store import Store
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import Commit, TablePin
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.schema.changes import Granted, SchemaChanges
from omnigraph.schema.evolve import plan_changes
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.changeset import ChangeSet, Effect, ReshapeTable, SchemaChange

OPERATION = "schema_apply"

ChooseWriter = Callable[[int], ColumnWriter]
"""Where the new columns of so many rows are written."""


@dataclass(frozen=True, slots=True)
class SchemaResult:
    """What `schema apply` did. Without `commit` the schema was in force already."""

    plan: SchemaPlan
    commit: Commit | None
    repeated: bool = False

    @property
    def applied(self) -> bool:
        return self.commit is not None

    def to_dict(self) -> dict[str, Any]:
        version = self.commit.graph_manifest_version if self.commit else None
        return {
            "supported": True,
            "applied": self.applied,
            "graph_branch": self.plan.graph_branch,
            "step_count": len(self.plan.steps),
            "steps": [step.to_dict() for step in self.plan.steps],
            "warnings": list(self.plan.warnings),
            "graph_manifest_version": version,
            "commit": self.commit.to_dict() if self.commit else None,
            "repeated": self.repeated,
        }


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """A schema change as a caller asks for it."""

    new: NewSchema
    granted: Granted
    terms: CommitTerms
    graph_id: str
    accepted_source: Callable[[Snapshot], str]
    """The text of the schema of a state."""
    require_base: Callable[[Snapshot], None] = lambda _: None
    """Refuses a state that the change was not planned for; with a saved plan."""
    choose_writer: ChooseWriter = lambda _: write_here


def apply_schema(
    context: PlanContext, transaction: Transaction, request: SchemaRequest, current: Snapshot
) -> SchemaResult:
    """Commit the change, or raise without any effect."""
    work = _Application(context, request)
    claims = work.claims(current.catalog)
    write = replace(
        request.terms.request(OPERATION, claims, repreparable=True, claims_by=work.claims),
        changes_schema=True,
    )
    reads_rows = bool(claims.tables) or bool(claims.reads)
    with transaction.schema_lease(request.terms.branch, request.terms.actor):
        receipt = _run(transaction, write, work, beside_others=reads_rows)
    if receipt.repeated and receipt.commit is not None:
        return repeated_result(
            context.reader, receipt.commit, request.new, request.granted, request.graph_id
        )
    assert work.prepared is not None
    return SchemaResult(work.prepared.plan, receipt.commit, receipt.repeated)


def repeated_result(
    reader: ManifestReader, commit: Commit, new: NewSchema, granted: Granted, graph_id: str
) -> SchemaResult:
    """The result of the request that made this commit."""
    plan = plan_of_commit(reader, commit, new, granted, graph_id)
    return SchemaResult(plan, commit, repeated=True)


def _run(
    transaction: Transaction, write: WriteRequest, work: _Application, *, beside_others: bool
) -> WriteReceipt:
    if beside_others:
        first = replace(write, long_build=True, repreparable=False)
        try:
            return transaction.run(first, work.build)
        except ExpectedVersionMismatch:
            write = replace(write, long_build=True, in_turn=True)
    return transaction.run(write, work.build)


class _Application:
    """One change; it is planned again whenever the transaction prepares it again."""

    def __init__(self, context: PlanContext, request: SchemaRequest) -> None:
        self._context = context
        self._request = request
        self.prepared: PreparedChange | None = None

    def claims(self, catalog: Catalog) -> Claims:
        """The tables whose columns change, and those that checks read or that change their name."""
        changes = plan_changes(catalog, self._request.new.catalog, self._request.granted)
        old = {c.after.table_key: c.before for c in changes.tables if c.after and c.before}
        tables = {c.before.table_key for c in changes.tables if c.before and c.moves_columns}
        read = {
            before.table_key for key in tables_read(changes) if (before := old.get(key)) is not None
        }
        read |= {old[key].table_key for c in changes.tables for _, key in c.remaps if key in old}
        read |= {
            c.before.table_key
            for c in changes.tables
            if c.before and (c.after is None or c.after.name != c.before.name)
        }
        return Claims(tuple(sorted(tables)), tuple(sorted(read - tables)))

    def _prepare(self, snapshot: Snapshot) -> PreparedChange:
        request = self._request
        return prepare_change(
            self._context,
            snapshot,
            request.new,
            request.granted,
            request.graph_id,
            request.accepted_source(snapshot),
        )

    def build(self, snapshot: Snapshot) -> ChangeSet:
        self._request.require_base(snapshot)
        failpoints.hit("schema_apply.before_validate")
        prepared = self.prepared = self._prepare(snapshot)
        prepared.require_supported()
        if not prepared.plan.steps:
            return ChangeSet(())
        failpoints.hit("schema_apply.before_effects")
        return ChangeSet(
            tuple(_effects(self._context.store, snapshot, prepared, self._request.choose_writer)),
            schema=_schema_change(prepared, self._request.new.source),
        )


def _schema_change(prepared: PreparedChange, source: str) -> SchemaChange:
    tables = prepared.changes.tables
    return SchemaChange(
        prepared.changes.target,
        source,
        added=tuple(c.after for c in tables if c.before is None and c.after is not None),
        dropped=tuple(c.before.table_key for c in tables if c.after is None and c.before),
        renamed=tuple(
            (c.before.table_key, c.after.table_key)
            for c in tables
            if c.before and c.after and c.before.name != c.after.name
        ),
        steps=tuple(step.to_dict() for step in prepared.plan.steps),
    )


def _effects(
    store: Store, snapshot: Snapshot, prepared: PreparedChange, choose: ChooseWriter
) -> list[Effect]:
    found: list[Effect] = []
    for columns in prepared.columns.values():
        change = columns.change
        assert change.before is not None
        if not change.moves_columns:
            continue
        if change.remaps:
            new_ids = {
                column: id_map(store, _pin(snapshot, prepared, node).at, prepared.columns[node])
                for column, node in change.remaps
            }
            columns = replace(columns, new_ids=new_ids)
        found.append(reshape(store, snapshot.pin(change.before.table_key), columns, choose))
    return found


def _pin(snapshot: Snapshot, prepared: PreparedChange, after: TableKey) -> TablePin:
    before = prepared.columns[after].change.before
    assert before is not None
    return snapshot.pin(before.table_key)


def reshape(store: Store, pin: TablePin, columns: NewColumns, choose: ChooseWriter) -> ReshapeTable:
    """Write the new values of one table; the effect that puts them in place."""
    change = columns.change
    dataset = store.open(pin.at)
    loose = frozenset(
        c.after.name
        for c in change.columns
        if c.before is not None
        and c.before.nullable
        and not (c.after.nullable or c.is_written)
        and holds_null(dataset, c.before.name)
    )
    shape = tuple(new_shape(change, keeps_nullable=loose))
    written: tuple[str, ...] = ()
    if change.is_written:
        task = ColumnTask.of(columns, pin.row_count)
        write = write_here if task.needs_this_process else choose(pin.row_count)
        written = tuple(write(store, pin.at, fragment_ids(dataset), task))
    return ReshapeTable(
        pin.key,
        pin.location,
        pin.branch,
        pin.version,
        shape,
        written,
        discards=change.discards,
    )


def changes_between(old: Catalog, new: Catalog) -> SchemaChanges:
    """The change from one accepted schema to another, by identity."""
    return plan_changes(old, new, rows={}, by_identity=True)
