"""The write a load asks the one write path for: the same whichever engine prepared its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import failpoints
from omnigraph.catalog.model import ID, SOURCE, TARGET
from omnigraph.commit.request import Build, Claims
from omnigraph.commit.transaction import Transaction
from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.integrity.rules import (
    EdgesPerSource,
    UniqueTuple,
    edges_touching,
    graph_rules,
)
from omnigraph.integrity.stored_image import Deltas, TableDelta
from omnigraph.integrity.validate import claims, validate_deltas
from omnigraph.integrity.violations import Report
from omnigraph.lance_store.reads.scan import read_batches
from omnigraph.lance_store.store import Dataset, Store
from omnigraph.load.bulk_checks import BulkChecks, drop_earlier_rows, refuse_existing
from omnigraph.load.options import LoadMode, LoadOptions, LoadReceipt
from omnigraph.load.prepare_rows import PLACE
from omnigraph.load.prepared import PreparedInput
from omnigraph.load.write_tables import LoadTableWriter
from omnigraph.manifest.changed_ids import recorded_ids
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import Commit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.progress import tell
from omnigraph.values.identifiers import EntityKind, TableKey
from omnigraph.writes.changeset import AdoptRows, ChangeSet

_COMMITS_LOOKED_AT = 1000


@dataclass(frozen=True, slots=True)
class Recheck:
    """Compares by the ids that the commits in between recorded: cost follows their size."""

    reader: ManifestReader
    commits: CommitGraph

    def undisturbed(
        self,
        prepared: PreparedInput,
        relied_on: AbstractSet[TableKey],
        before: Snapshot,
        now: Snapshot,
    ) -> bool:
        """False also when it cannot be told: the checks are then made again."""
        moved = {
            key for key in relied_on if before.pin(key).content_epoch != now.pin(key).content_epoch
        }
        if not moved:
            return True
        if any(_is_counted(prepared, key) for key in moved):
            return False
        between = self._between(before, now)
        if between is None:
            return False
        return all(
            self._disjoint(prepared, commit, key) for commit in between for key in sorted(moved)
        )

    def _between(self, before: Snapshot, now: Snapshot) -> list[Commit] | None:
        _, state = self.reader.branch(now.graph_branch)
        found: list[Commit] = []
        for stored in self.commits.walk(state):
            if stored.commit_id == before.graph_commit_id:
                return found
            if len(found) == _COMMITS_LOOKED_AT:
                break
            found.append(stored.commit)
        return None

    def _disjoint(self, prepared: PreparedInput, commit: Commit, key: TableKey) -> bool:
        for changes in commit.changes:
            if changes.key != key:
                continue
            ids = recorded_ids(self.reader.store.files, changes)
            if ids is None:
                return False
            everything = pa.concat_arrays([ids.inserted, ids.updated, ids.deleted])
            if key in prepared.spools and _meets(prepared, key, ID, everything):
                return False
            if key.kind is EntityKind.NODE and _is_endpoint(prepared, key, ids.deleted):
                return False
        return True


def _is_counted(prepared: PreparedInput, key: TableKey) -> bool:
    """A rule about values or numbers of rows concerns this table: ids do not tell enough."""
    catalog = prepared.catalog
    for entity in catalog.entity_types():
        for rule in graph_rules(entity):
            if isinstance(rule, UniqueTuple) and rule.table == key and key in prepared.spools:
                return True
            if isinstance(rule, EdgesPerSource) and key in (rule.table, rule.node):
                return True
    return False


def _is_endpoint(prepared: PreparedInput, node: TableKey, deleted: pa.Array) -> bool:
    for edge in prepared.catalog.edges:
        if edge.table_key not in prepared.spools:
            continue
        for column, name in ((SOURCE, edge.source), (TARGET, edge.target)):
            if name == node.type_name and _meets(prepared, edge.table_key, column, deleted):
                return True
    return False


def _meets(prepared: PreparedInput, key: TableKey, column: str, ids: pa.Array) -> bool:
    if len(ids) == 0:
        return False
    index = prepared.index
    with index.shown(pa.table({"id": ids})) as shown:
        return (
            index.count(
                f"SELECT count(*) FROM {shown} o SEMI JOIN {index.input(key)} i "
                f"ON o.id = i.{column}"
            )
            > 0
        )


SMALL_INPUT = 20_000
"""So many rows are looked up one by one; more are joined with whole columns."""


@dataclass
class LoadBuild:
    """One load on its way into one branch."""

    prepared: PreparedInput
    store: Store
    mode: LoadMode
    recheck: Recheck
    small_input: int = SMALL_INPUT
    writer: type[LoadTableWriter] = LoadTableWriter
    _landed: tuple[Snapshot, ChangeSet] | None = field(default=None, init=False)
    _repeated: frozenset[TableKey] | None = field(default=None, init=False)
    """In a merge: the types of which earlier rows gave way to later ones."""

    @property
    def written(self) -> frozenset[TableKey]:
        return frozenset(self.prepared.spools)

    @property
    def replaced(self) -> frozenset[TableKey]:
        return self.written if self.mode is LoadMode.OVERWRITE else frozenset()

    def claims(self) -> Claims:
        """What the transaction has to take and hold."""
        gone = [k for k in self.replaced if k.kind is EntityKind.NODE]
        return claims(self.prepared.catalog, self.written, gone, self.replaced)

    def build(self, snapshot: Snapshot) -> ChangeSet:
        if snapshot.catalog != self.prepared.catalog:
            raise ExpectedVersionMismatch(
                "the schema changed while this load was prepared; repeat it", table="schema"
            )
        if self._landed is not None and self._still_holds(*self._landed, snapshot):
            self._landed = (snapshot, self._landed[1])
            return self._landed[1]
        self.prepared.index.forget_stored()
        tell(f"checking {self.prepared.total:,} rows")
        self._check(snapshot)
        failpoints.hit("load.after_check")
        changes = ChangeSet(tuple(self._write(snapshot)))
        failpoints.hit("load.after_write")
        self._landed = (snapshot, changes)
        return changes

    def _still_holds(self, before: Snapshot, changes: ChangeSet, now: Snapshot) -> bool:
        """What was checked and written for `before` is right for `now`, too."""
        homes = all(
            isinstance(e, AdoptRows)
            and (e.location, e.branch) == (now.pin(e.key).location, now.pin(e.key).branch)
            for e in changes.effects
        )
        relied_on = {*self.claims().tables, *self.claims().reads}
        return homes and self.recheck.undisturbed(self.prepared, relied_on, before, now)

    def _check(self, snapshot: Snapshot) -> None:
        prepared = self.prepared
        report = Report(files=prepared.files)
        checks = BulkChecks(
            prepared.catalog, prepared.index, self.written, self.replaced, prepared.place
        )
        if self.mode is LoadMode.MERGE:
            if self._repeated is None:
                self._repeated = drop_earlier_rows(prepared.index, prepared.given_ids)
        else:
            for key in sorted(prepared.given_ids):
                checks.duplicate_ids(key, report)
            report.raise_if_any()
        small = prepared.total <= self.small_input and not self.replaced
        if not small:
            self._offer_stored(snapshot)
        if self.mode is LoadMode.APPEND:
            refuse_existing(prepared, snapshot, self.store, small=small)
        if small:
            validate_deltas(snapshot, self.store, self._deltas(), report=report)
            return
        for edge in self._cascading():
            checks.cascade(prepared.catalog.edge_types[edge.type_name])
        checks.graph_rules(report)
        report.raise_if_any()

    def _deltas(self) -> Deltas:
        """The narrow columns of all rows, in memory: the input is small."""
        found: Deltas = {}
        for key, spool in self.prepared.spools.items():
            columns = [*self.prepared.index.columns(key), PLACE]
            rows = pa.concat_tables(chunk.select(columns) for chunk in spool.chunks())
            if key in (self._repeated or ()):
                rows = self._latest(key, rows)
            numbers = rows.column(PLACE)

            def place(row: int, numbers: pa.ChunkedArray = numbers) -> object:
                return self.prepared.place(numbers[row].as_py())

            found[key] = TableDelta(key, rows.drop_columns([PLACE]), places=place)  # type: ignore[arg-type]
        return found

    def _latest(self, key: TableKey, rows: pa.Table) -> pa.Table:
        index = self.prepared.index
        kept = index.table(f"SELECT {PLACE} FROM {index.input(key)}").column(PLACE)
        return rows.filter(pc.is_in(rows.column(PLACE), value_set=kept.combine_chunks()))

    def _cascading(self) -> list[TableKey]:
        """Edge types that lose edges when node types are replaced."""
        catalog = self.prepared.catalog
        nodes = [key for key in self.replaced if key.kind is EntityKind.NODE]
        found = {e.table_key for node in nodes for e in edges_touching(catalog, node)}
        return sorted(found - self.written)

    def _offer_stored(self, snapshot: Snapshot) -> None:
        index = self.prepared.index
        for key in sorted(self._needed()):
            pin = snapshot.pin(key)
            index.offer_stored(key, pin.row_count, partial(_columns, self.store.open(pin.at)))

    def _needed(self) -> Iterable[TableKey]:
        """Tables whose stored rows some check or change list looks at."""
        claimed = self.claims()
        everything = {*claimed.tables, *claimed.reads}
        free = {
            key
            for key in self.written - self.replaced - self.prepared.given_ids
            if key.kind is EntityKind.EDGE and not self._counts_rows(key)
        }
        return everything - free

    def _counts_rows(self, key: TableKey) -> bool:
        rules = graph_rules(self.prepared.catalog.entity_type(key))
        return any(isinstance(rule, UniqueTuple | EdgesPerSource) for rule in rules)

    def _write(self, snapshot: Snapshot) -> Iterable[AdoptRows]:
        writer = self.writer(self.prepared, self.store, snapshot, self._repeated or frozenset())
        for spool in self.prepared.spools.values():
            tell(f"writing {spool.rows:,} rows of {spool.entity.name}")
            match self.mode:
                case LoadMode.APPEND:
                    yield writer.append(spool)
                case LoadMode.MERGE:
                    yield writer.merge(spool)
                case LoadMode.OVERWRITE:
                    yield writer.replace(spool)
            failpoints.hit("load.after_write_first")
        for edge in self._cascading():
            yield writer.remove_gone(edge)


def _columns(dataset: Dataset, names: Sequence[str]) -> pa.RecordBatchReader:
    schema = pa.schema([dataset.schema.field(name) for name in names])
    return pa.RecordBatchReader.from_batches(schema, read_batches(dataset, names))


def commit_load(
    transaction: Transaction,
    prepared: PreparedInput,
    options: LoadOptions,
    claimed: Claims,
    build: Build,
    engine: str,
) -> LoadReceipt:
    keeps = options.mode is not LoadMode.OVERWRITE
    request = options.request("load", claimed, repreparable=keeps)
    request = replace(
        request,
        long_build=True,
        staged_since=prepared.staged_since,
        stream_batch=options.stream_batch,
    )
    receipt = transaction.run(request, build)
    # Counted after the build: Spark knows what it read only then.
    counts = sorted((key, spool.rows) for key, spool in prepared.spools.items())
    return LoadReceipt(
        branch=options.branch,
        base_branch=None,
        branch_created=False,
        mode=options.mode.value,
        engine=engine,
        counts=tuple(counts),
        commit=receipt.commit,
        repeated=receipt.repeated,
    )
