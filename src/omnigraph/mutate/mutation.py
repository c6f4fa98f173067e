"""`g.mutate`: one mutation query becomes one commit, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from omnigraph.catalog.model import ID, Catalog
from omnigraph.commit.request import Claims, CommitTerms, WriteReceipt
from omnigraph.commit.transaction import Transaction
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.errors import InvalidArgument, NotFound, TypeCheckError
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.integrity.cascade import EdgeSearch, with_cascades
from omnigraph.integrity.validate import claims, validate_changes
from omnigraph.ir import expressions as ex
from omnigraph.ir.walk import walk
from omnigraph.ir.writes import Delete, DeleteMatched, Insert, Update, WriteOp
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import Commit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.mutate.statements import MutationContext, ReadPlan, run_statements
from omnigraph.query.compiler import CompiledQuery, compile_query
from omnigraph.scoping.write_scopes import WriterView
from omnigraph.values.clock import Clock
from omnigraph.values.external_blobs import ExternalBases
from omnigraph.values.identifiers import TableKey, edge_table, node_table
from omnigraph.writes.changeset import ChangeSet


@dataclass(frozen=True, slots=True)
class Mutation(CommitTerms):
    """A mutation query with its parameters and the terms of its commit."""

    _: KW_ONLY
    source: str
    file: str = "<query>"
    """The name of the text in errors."""
    name: str | None = None
    is_stored: bool = False
    """The caller named a stored query, whose text an operator may change."""
    params: Mapping[str, object] | None = None
    view: WriterView | None = field(default=None, compare=False, repr=False)
    """What the statements may name and read; None: everything."""


@dataclass(frozen=True, slots=True)
class MutationReceipt:
    """The result of a mutation. `commit` is None when it changed nothing.

    Affected are entities that were inserted, updated or deleted, each counted once.
    """

    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor_id: str | None
    commit: Commit | None
    repeated: bool = False
    """The idempotency key was used before, and this is the receipt of that commit."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "branch": self.branch,
            "query_name": self.query_name,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "actor_id": self.actor_id,
            "commit": self.commit.to_dict() if self.commit else None,
            "repeated": self.repeated,
        }


class Mutator:
    """Runs mutation queries of one graph."""

    def __init__(
        self,
        reader: ManifestReader,
        transaction: Transaction,
        provider: EmbeddingProvider,
        read: ReadPlan,
        clock: Clock,
        external: ExternalBases,
    ) -> None:
        self._reader = reader
        self._transaction = transaction
        self._provider = provider
        self._read = read
        self._clock = clock
        self._external = external

    def run(self, mutation: Mutation) -> MutationReceipt:
        catalog, compiled = self._compile(mutation)
        parameters = compiled.bind(mutation.params)
        now_millis = self._clock.now_micros() // 1000
        context = MutationContext(
            self._reader.store,
            parameters,
            Evaluator(parameters, now_millis),
            self._provider,
            self._clock,
            self._read,
            now_millis,
            mutation.view,
            self._external,
        )

        def by(current: Catalog) -> CompiledQuery:
            return compiled if current is catalog else _compile(mutation, current)

        def build(snapshot: Snapshot) -> ChangeSet:
            statements = by(snapshot.catalog).statements
            search = EdgeSearch(snapshot, context.store)
            changes = run_statements(context, snapshot, statements, search)
            complete = with_cascades(snapshot, context.store, changes, search)
            validate_changes(snapshot, context.store, complete, cascaded=True)
            return complete

        only_adds = all(isinstance(s, Insert) for s in compiled.statements)
        request = mutation.request(
            "mutate",
            _claims(catalog, compiled),
            repreparable=only_adds,
            claims_by=lambda current: _claims(current, by(current)),
            # A pattern reads tables as the executor keeps them, by commits that were published.
            small=not any(isinstance(s, DeleteMatched) for s in compiled.statements),
        )
        return _receipt(compiled.name, mutation, self._transaction.run(request, build))

    def _compile(self, mutation: Mutation) -> tuple[Catalog, CompiledQuery]:
        def compiled(catalog: Catalog) -> CompiledQuery:
            return _compile(mutation, catalog)

        misfits = (TypeCheckError, NotFound)
        return self._reader.by_known_schema(mutation.branch, compiled, misfits)


def _compile(mutation: Mutation, catalog: Catalog) -> CompiledQuery:
    if mutation.view is not None:
        _refuse_hidden(mutation, mutation.view, catalog)
    compiled = compile_query(mutation.source, catalog, mutation.name, mutation.file)
    if compiled.is_read:
        raise InvalidArgument(f"query {compiled.name!r} only reads: use query for it")
    return compiled


def _refuse_hidden(mutation: Mutation, view: WriterView, catalog: Catalog) -> None:
    """Compile against what the writer may see, so that the rest is unknown as if it did not exist.

    What the writer may change and not see has a name in an assignment only.
    """
    named = view.named(catalog)
    if named is catalog:
        return
    compiled = compile_query(mutation.source, named, mutation.name, mutation.file)
    if any(view.hides(catalog, *read) for s in compiled.statements for read in _reads_of(s)):
        compile_query(mutation.source, view.readable(catalog), mutation.name, mutation.file)
        raise InvalidArgument("this mutation reads a property that you may not see")


def _reads_of(statement: WriteOp) -> Iterator[tuple[str, str]]:
    """(type, property) of everything that a statement reads."""
    match statement:
        case Update(table, assignments, predicate):
            values = [predicate, *(assignment.value for assignment in assignments)]
        case Delete(table, predicate):
            values = [predicate]
        case DeleteMatched(pattern, variables):
            yield from ((name, ID) for variable in variables for name in variable.types)
            for node in walk(pattern):
                if isinstance(node, ex.PropertyOf):
                    yield from ((name, node.property) for name in node.variable.types)
            return
        case _:
            return
    for value in values:
        for node in walk(value):
            if isinstance(node, ex.RowProperty):
                yield table.type_name, node.property


def _claims(catalog: Catalog, compiled: CompiledQuery) -> Claims:
    written: set[TableKey] = set()
    deleted: set[TableKey] = set()
    for statement in compiled.statements:
        match statement:
            case Insert(table) | Update(table):
                written.add(table)
            case Delete(table):
                deleted.add(table)
            case DeleteMatched(_, variables):
                for variable in variables:
                    is_node = variable.kind is ex.VariableKind.NODE
                    table_of = node_table if is_node else edge_table
                    deleted |= {table_of(name) for name in variable.types}
    found = claims(catalog, written, deleted)
    return Claims(found.tables, tuple(sorted({*found.reads, *compiled.operation.reads})))


def _receipt(name: str, mutation: Mutation, receipt: WriteReceipt) -> MutationReceipt:
    commit = receipt.commit
    return MutationReceipt(
        receipt.branch,
        name,
        receipt.affected_nodes,
        receipt.affected_edges,
        commit.actor_id if commit else mutation.actor,
        commit,
        receipt.repeated,
    )
