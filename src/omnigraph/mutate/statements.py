"""Execute write statements in order. Each statement sees the effect of the earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.generated import generated_column
from omnigraph.catalog.model import ID, EntityType, NodeType, embedding_of, generated_defaults
from omnigraph.embed.provider import EmbeddingProvider, fill_vectors
from omnigraph.errors import ExternalBlobDenied, InvalidArgument
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.evaluation.row_expressions import one_chunk, over_rows
from omnigraph.integrity.cascade import EdgeSearch, with_cascades
from omnigraph.integrity.rules import Required
from omnigraph.integrity.violations import Report, Violation
from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.writes import Assignment, Delete, DeleteMatched, Insert, Update, WriteOp
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.staging.stage import RowEdit, drop_preview, preview_edit
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.mutate.pending import PendingTable
from omnigraph.mutate.row_search import matching_rows
from omnigraph.scoping.visible_rows import VisibleRows
from omnigraph.scoping.write_scopes import WriterView
from omnigraph.values.arrow_types import is_blob
from omnigraph.values.blob_columns import judged_column
from omnigraph.values.blob_values import judged_blob
from omnigraph.values.clock import SYSTEM_CLOCK, Clock
from omnigraph.values.entity_ids import entity_id
from omnigraph.values.external_blobs import NONE_ALLOWED, ExternalBases
from omnigraph.values.identifiers import TableKey, edge_table, node_table
from omnigraph.writes.changeset import ChangeSet, EditRows
from omnigraph.writes.derived import fill_embeddings

ReadPlan = Callable[[Snapshot, reads.ReadOp, Mapping[str, Any]], pa.Table]
"""Runs a read plan on a snapshot with these parameters."""


@dataclass(frozen=True, slots=True)
class MutationContext:
    """The fixed inputs of all statements of one mutation."""

    store: Store
    parameters: Mapping[str, Any]
    evaluator: Evaluator
    provider: EmbeddingProvider
    clock: Clock
    read: ReadPlan
    now_millis: int
    """The `now()` of expressions and of defaults."""
    view: WriterView | None = None
    """What the statements may read; None: everything."""
    external: ExternalBases = NONE_ALLOWED
    """The external blobs that the statements may name."""

    def seen(self, snapshot: Snapshot) -> Snapshot:
        return snapshot if self.view is None else self.view.seen(snapshot)


def run_statements(
    context: MutationContext, snapshot: Snapshot, statements: Iterable[WriteOp], search: EdgeSearch
) -> ChangeSet:
    """The change set of all statements; the caller adds cascades, with `search`, and validates."""
    run = _StatementRun(context, snapshot, search)
    for statement in statements:
        match statement:
            case Insert():
                run.insert(statement)
            case Update():
                run.update(statement)
            case Delete():
                run.delete(statement)
            case DeleteMatched():
                run.delete_matched(statement)
    return run.changes()


class _StatementRun:
    """One pass over the statements."""

    def __init__(self, context: MutationContext, snapshot: Snapshot, search: EdgeSearch) -> None:
        self._context = context
        self._snapshot = snapshot
        self._search = search
        self._visible = VisibleRows(context.store, context.seen(snapshot))
        self._pending: dict[TableKey, PendingTable] = {}

    def insert(self, op: Insert) -> None:
        pending = self._of(op.table)
        entity = pending.entity
        row = {
            a.property: self._plain(entity, a, pending.schema)
            for a in (*op.defaults, *op.assignments)
        }
        row |= {name: self._generated(entity, name, pending.schema) for name in op.generated}
        keyed, named = bool(entity.key), ID in row
        if row.get(ID) is None:
            row[ID] = self._new_id(entity, row)
        if op.skip_on_match and (keyed or named) and self._exists(pending, row[ID]):
            return
        # An insert replaces a keyed node, but it refuses an edge that exists.
        replaces = keyed and isinstance(entity, NodeType)
        if replaces and op.generated:
            row |= self._kept(pending, row[ID], op.generated)
        pending.insert(row, strict=not replaces, fresh=not keyed and not named)

    def update(self, op: Update) -> None:
        pending = self._settled(op.table)
        found = matching_rows(
            self._dataset(op.table),
            pending,
            op.predicate,
            self._context.evaluator,
            pending.schema.names,
            self._visible,
        )
        parts = [t for t in (found.stored, found.pending) if t is not None]
        if not parts:
            return
        schema = pending.schema
        rows = pa.concat_tables([t.select(schema.names).cast(schema) for t in parts])
        pending.put(self._assigned(pending.entity, rows, op.assignments))
        if found.stored is not None:
            pending.remember(found.stored)

    def delete(self, op: Delete) -> None:
        pending = self._settled(op.table)
        evaluator = self._context.evaluator
        dataset = self._dataset(op.table)
        edges = partial(self._search.begin, op.table)
        found = matching_rows(dataset, pending, op.predicate, evaluator, [ID], self._visible, edges)
        if found.stored is not None:
            pending.delete(found.stored.column(ID), found.stored)

    def delete_matched(self, op: DeleteMatched) -> None:
        columns = []
        for variable in op.variables:
            identity = ex.PropertyOf(variable, ID, ex.STRING)
            columns.append(reads.Column(f"id{variable.id}", identity))
            columns.append(reads.Column(f"type{variable.id}", ex.TypeName(variable)))
        plan = reads.Distinct(reads.Project(op.pattern, tuple(columns)))
        with _overlaid(self._context.store, self._snapshot, self.changes()) as snapshot:
            seen = self._context.seen(snapshot)
            found = self._context.read(seen, plan, self._context.parameters)
        for variable in op.variables:
            table = node_table if variable.kind is ex.VariableKind.NODE else edge_table
            types = found.column(f"type{variable.id}")
            for name in variable.types:
                mine = found.column(f"id{variable.id}").filter(pc.equal(types, name))
                self._of(table(name)).delete(mine.drop_null())

    def changes(self) -> ChangeSet:
        effects = [self._settled(key).effect() for key in self._pending]
        return ChangeSet(tuple(effect for effect in effects if effect is not None))

    # --- tables

    def _of(self, key: TableKey) -> PendingTable:
        found = self._pending.get(key)
        if found is None:
            found = self._pending[key] = PendingTable(self._snapshot.catalog.entity_type(key))
        return found

    def _settled(self, key: TableKey) -> PendingTable:
        """Turns inserted values into rows, so that one call makes all of their vectors."""
        pending = self._of(key)
        inserted = pending.take_inserted()
        if inserted is not None:
            pending.put(fill_embeddings(pending.entity, inserted, self._context.provider))
        return pending

    def _dataset(self, key: TableKey) -> Dataset:
        return self._context.store.open(self._snapshot.pin(key).at)

    def _exists(self, pending: PendingTable, wanted: str) -> bool:
        if pending.holds(wanted):
            return True
        stored = find_rows(self._dataset(pending.entity.table_key), pa.array([wanted]))
        return bool(stored.num_rows)

    # --- values

    def _plain(self, entity: EntityType, assignment: Assignment, schema: pa.Schema) -> Any:
        """The Python value of an assignment that reads no row."""
        value = assignment.value
        if isinstance(value, ex.Constant | ex.ParameterRef):
            found = self._context.evaluator.plain(value)
        else:
            with _naming(entity, assignment.property):
                found = self._context.evaluator.scalar(value)
        if found is not None and is_blob(schema.field(assignment.property)):
            with _naming(entity, assignment.property):
                text = found if isinstance(found, str) else bytes(found).decode()
                return judged_blob(text, self._context.external)
        return found

    def _generated(self, entity: EntityType, name: str, schema: pa.Schema) -> Any:
        """The value that `now()` or `uuid()` gives to a property."""
        default, kind = generated_defaults(entity)[name], schema.field(name).type
        return generated_column(default, kind, 1, self._context.now_millis)[0].as_py()

    def _kept(self, pending: PendingTable, wanted: str, names: tuple[str, ...]) -> dict[str, Any]:
        """The values of these properties that a replaced entity has, so that they stay."""
        if pending.holds(wanted):
            found = self._settled(pending.entity.table_key).rows
            assert found is not None
            found = found.filter(pc.equal(found.column(ID), wanted))
        else:
            dataset = self._dataset(pending.entity.table_key)
            found = find_rows(dataset, pa.array([wanted]), [ID, *names])
        return found.select(names).to_pylist()[0] if found.num_rows else {}

    def _new_id(self, entity: EntityType, row: Mapping[str, Any]) -> str:
        if not entity.key:
            if ID in row:
                _refuse_null(entity, ID)
            return self._context.clock.new_ulid()
        for name in entity.key:
            if row.get(name) is None:
                _refuse_null(entity, name)
        return entity_id([row[name] for name in entity.key])

    def _assigned(
        self, entity: EntityType, rows: pa.Table, assignments: tuple[Assignment, ...]
    ) -> pa.Table:
        """The rows with new values. Every expression reads the row before the update."""
        result = rows
        for assignment in assignments:
            judged = over_rows(assignment.value)
            field = rows.schema.field(assignment.property)
            with _naming(entity, assignment.property):
                values = judged.values(rows, self._context.evaluator)
                if is_blob(field):
                    # The value of an expression is a text. It may come as the bytes of the text.
                    values = judged_column(values.cast(pa.string()), self._context.external)
                values = values.cast(field.type)
            result = result.set_column(rows.schema.get_field_index(field.name), field, values)
        return self._embedded(entity, rows, result, {a.property for a in assignments})

    def _embedded(
        self, entity: EntityType, before: pa.Table, after: pa.Table, assigned: set[str]
    ) -> pa.Table:
        """Makes vectors again whose text the update changed, unless it also assigned the vector."""
        for declared in entity.properties:
            embedding = embedding_of(declared)
            if embedding is None or embedding.source not in assigned or declared.name in assigned:
                continue
            index = after.schema.get_field_index(declared.name)
            field = after.schema.field(index)
            old, new = before.column(embedding.source), after.column(embedding.source)
            same = pc.fill_null(pc.equal(old, new), False)
            kept = pc.if_else(
                same.combine_chunks(), one_chunk(after.column(index)), _none(field.type)
            )
            vectors = fill_vectors(self._context.provider, new, kept, embedding.model)
            after = after.set_column(index, field, vectors)
        return after


@contextmanager
def _overlaid(store: Store, snapshot: Snapshot, changes: ChangeSet) -> Iterator[Snapshot]:
    """The snapshot without the rows that `changes` deletes, cascades included.

    `changes` has no other edits, because a query that deletes neither inserts nor updates.
    """
    tables = dict(snapshot.tables)
    previews: list[DatasetVersion] = []
    try:
        for effect in with_cascades(snapshot, store, changes).effects:
            assert isinstance(effect, EditRows)
            assert effect.inserts is None
            assert effect.upserts is None
            pin = snapshot.pin(effect.key)
            gone = find_rows(store.open(pin.at), effect.deletes)
            if gone.num_rows:
                at = preview_edit(store, pin.at, RowEdit(None, None, gone))
                previews.append(at)
                left = pin.row_count - gone.num_rows
                tables[effect.key] = pin.changed_to(at.version, left, SYSTEM_CLOCK.new_ulid())
        yield replace(snapshot, tables=tables)
    finally:
        for preview in previews:
            drop_preview(store, preview)


class _naming:
    """Errors of a value name the property that it was assigned to."""

    def __init__(self, entity: EntityType, name: str) -> None:
        self._where = f"{entity.name}.{name}"
        self._fields = {"type": entity.name, "property": name}

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ExternalBlobDenied):
            fields = {**error.fields, **self._fields}
            raise ExternalBlobDenied(f"{self._where}: {error}", **fields) from error
        if isinstance(error, InvalidArgument | pa.ArrowInvalid | UnicodeError):
            raise InvalidArgument(f"{self._where}: {error}", **self._fields) from error


def _refuse_null(entity: EntityType, name: str) -> None:
    report = Report()
    message = f"{name!r} is required"
    broken = Violation(Required.name, entity.table_key, None, name, message)
    report.add(Required.name, 1, [broken], entity.table_key, name)
    report.raise_if_any()


def _none(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(None, kind)
