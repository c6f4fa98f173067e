"""The third stage of a load: check prepared rows against the graph, write and commit them.

Both engines end here. The transaction calls `LoadBuild.build` with the newest snapshot, and again
when another writer committed first. Rows are then checked and written again only if the new commits
changed something that the checks relied on; they are never parsed again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import failpoints
from omnigraph.catalog.model import ID, SOURCE, TARGET, Catalog, embedding_of
from omnigraph.commit.request import Build, Claims
from omnigraph.commit.transaction import Transaction
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.errors import ExpectedVersionMismatch, KeyConflict
from omnigraph.integrity.graph_checks import NOTHING_LEFT_OUT, check_graph
from omnigraph.integrity.rules import (
    EdgesPerSource,
    UniqueTuple,
    edges_touching,
    graph_rules,
)
from omnigraph.integrity.stored_image import Deltas, StoredImage, TableDelta
from omnigraph.integrity.validate import claims
from omnigraph.integrity.violations import FIRST_VIOLATIONS, Place, Report
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.reads.scan import read_batches
from omnigraph.lance_store.staging.written_fragments import remove_rows
from omnigraph.lance_store.store import Dataset, Store
from omnigraph.load.bulk_checks import (
    BulkChecks,
    ExistingIds,
    drop_earlier_rows,
    report_existing,
)
from omnigraph.load.kept_values import keep_generated
from omnigraph.load.match_edges import EdgeMatcher
from omnigraph.load.modes import MATCHING, SHRINKING, LoadMode, LoadModes
from omnigraph.load.options import LoadOptions, LoadReceipt, load_counts
from omnigraph.load.prepare_rows import MOST_REJECTED, PLACE
from omnigraph.load.prepared import PreparedFile, PreparedInput, PreparedTable
from omnigraph.load.rejected_input import explain, refuse_too_many, write_rejects
from omnigraph.load.write_tables import LoadTableWriter
from omnigraph.manifest.changed_ids import recorded_ids
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import Commit, TableChanges
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.progress import tell
from omnigraph.values.identifiers import EntityKind, TableKey
from omnigraph.values.plurals import counted
from omnigraph.writes.changeset import AdoptRows, ChangeSet
from omnigraph.writes.derived import fill_embeddings

SMALL_INPUT = 20_000
"""The checks of so many rows look stored rows up; the checks of more rows join whole columns."""

_EMBEDDED_ROWS = 4096
"""So many rows get their vectors between two reports of progress."""
_MOST_COMMITS = 1000
"""After so many commits of others it is cheaper to check everything again."""
_MOST_COMPARED_EDGES = 100_000
"""If a commit of others changed more edges, the matches are made again."""


def commit_load(
    transaction: Transaction,
    prepared: PreparedInput,
    options: LoadOptions,
    claimed: Claims,
    build: Build,
    engine: str,
) -> LoadReceipt:
    """Run the transaction of a load, or only plan it if the options ask for a dry run.

    `build` fills `prepared` first if workers write the rows.
    """
    plan = _Plan(prepared, options, engine, transaction.store)
    keeps = not options.modes.may_be(LoadMode.OVERWRITE)
    request = options.request("load", claimed, repreparable=keeps)
    request = replace(
        request,
        long_build=True,
        staged_since=prepared.staged_since,
        stream_batch=options.stream_batch,
    )
    if options.dry_run:
        outcome = transaction.preview(request, build)
        if isinstance(outcome, ChangeSet):
            return plan.receipt(planned_changes(outcome))
        earlier = outcome.commit.changes if outcome.commit else ()
        return plan.receipt(earlier, repeated=outcome.repeated)
    receipt = transaction.run(request, build if options.before_commit is None else plan.told(build))
    changed = receipt.commit.changes if receipt.commit else ()
    return plan.receipt(changed, receipt.commit, repeated=receipt.repeated)


def planned_changes(changes: ChangeSet) -> list[TableChanges]:
    """What a change set of a load would change in each table."""
    lists = [(e.key, e.changes) for e in changes.effects if isinstance(e, AdoptRows)]
    return [
        TableChanges(key, ids.inserted, ids.updated, ids.deleted, None)
        for key, ids in lists
        if ids.total
    ]


@dataclass
class _Plan:
    """Tells what a load does, before and after its commit."""

    prepared: PreparedInput
    options: LoadOptions
    engine: str
    store: Store
    _answered: LoadReceipt | None = field(default=None, init=False)

    def receipt(
        self,
        changed: Iterable[TableChanges],
        commit: Commit | None = None,
        *,
        repeated: bool = False,
    ) -> LoadReceipt:
        """Call it after the build, because Spark reads its input during the build."""
        prepared = self.prepared
        loaded = {k: table.rows - prepared.dropped[k] for k, table in prepared.tables.items()}
        counts = load_counts(loaded, changed, prepared.nulled, self.options.modes)
        return LoadReceipt(
            branch=self.options.branch,
            base_branch=None,
            branch_created=False,
            mode=self.options.modes.text,
            engine=self.engine,
            nodes=counts.nodes,
            edges=counts.edges,
            commit=commit,
            repeated=repeated,
            rejected=0 if repeated else len(prepared.rejected.rows),
            dry_run=self.options.dry_run,
        )

    def told(self, build: Build) -> Build:
        """The same build, which tells `before_commit` its counts; again only if they change."""

        def planned(snapshot: Snapshot) -> ChangeSet:
            changes = build(snapshot)
            receipt = self.receipt(planned_changes(changes))
            if receipt == self._answered:
                return changes
            try:
                assert self.options.before_commit is not None
                self.options.before_commit(receipt)
            except BaseException:
                self._remove_files(changes)
                raise
            self._answered = receipt
            return changes

        return planned

    def _remove_files(self, changes: ChangeSet) -> None:
        for effect in changes.effects:
            if isinstance(effect, AdoptRows):
                remove_rows(self.store, effect.location, effect.branch, effect.fragments)


def load_claims(catalog: Catalog, written: Collection[TableKey], modes: LoadModes) -> Claims:
    """The tables that a load of these types writes, and those that its checks rely on."""
    replaced = modes.with_mode(written, (LoadMode.OVERWRITE,))
    shrinking = modes.with_mode(written, SHRINKING)
    nodes = [key for key in shrinking if key.kind is EntityKind.NODE]
    return claims(catalog, written, nodes, replaced)


def refuse_new_schema(prepared: PreparedInput, snapshot: Snapshot) -> None:
    """Rows are prepared for one schema."""
    if snapshot.catalog != prepared.catalog:
        raise ExpectedVersionMismatch(
            "the schema changed while this load was prepared; repeat it", table="schema"
        )


@dataclass
class LoadBuild:
    """Builds the change set of one load."""

    prepared: PreparedInput
    reader: ManifestReader
    commits: CommitGraph
    modes: LoadModes
    small_input: int = SMALL_INPUT
    writer: type[LoadTableWriter] = LoadTableWriter
    dry_run: bool = False
    """Nothing is written; the change set only lists what would change."""
    _built: tuple[Snapshot, ChangeSet] | None = field(default=None, init=False)
    """The change set of the last call, and the newest snapshot that it is right for."""
    _repeated: frozenset[TableKey] | None = field(default=None, init=False)
    """In modes merge and mirror: types with several rows of one id; only the last is written."""
    _matched: frozenset[TableKey] = field(default=frozenset(), init=False)
    """Edge types of which rows without an id mean edges of the last snapshot."""
    provider: EmbeddingProvider | None = None
    """Makes the missing vectors of rows that passed all checks; None if workers made them."""
    _embedded: bool = field(default=False, init=False)
    _tables: dict[TableKey, PreparedTable] = field(default_factory=dict, init=False)
    """The prepared rows; those of stored entities have the stored values of generated defaults."""

    @property
    def written(self) -> frozenset[TableKey]:
        return frozenset(self.prepared.tables)

    @property
    def replaced(self) -> frozenset[TableKey]:
        return self.modes.with_mode(self.written, (LoadMode.OVERWRITE,))

    @property
    def mirrored(self) -> frozenset[TableKey]:
        return self.modes.with_mode(self.written, (LoadMode.MIRROR,))

    @property
    def matching(self) -> frozenset[TableKey]:
        """Edge types of which rows without an id may mean stored edges."""
        edges = [k for k in self.prepared.made_ids if k.kind is EntityKind.EDGE]
        return self.modes.with_mode(edges, MATCHING)

    @property
    def _thinned(self) -> frozenset[TableKey]:
        """Types of which some prepared rows are not written."""
        dropped = frozenset(key for key, count in self.prepared.dropped.items() if count)
        return (self._repeated or frozenset()) | dropped

    @property
    def _settled(self) -> frozenset[TableKey]:
        """Types of which not every row is written under the id that it was prepared with."""
        return self._thinned | self._matched

    def claims(self) -> Claims:
        return load_claims(self.prepared.catalog, self.written, self.modes)

    def build(self, snapshot: Snapshot) -> ChangeSet:
        refuse_new_schema(self.prepared, snapshot)
        kept = self.kept(snapshot)
        if kept is not None:
            return kept
        self.prepared.index.forget_stored()
        tell(f"checking {counted(self.prepared.total, 'row')}", stage="check")
        self._check(snapshot)
        self.prepared.index.forget_ids()
        failpoints.hit("load.after_check")
        if self.provider is not None and not self._embedded:
            self._embed(self.provider)
            self._embedded = True
            self._tables = self._with_kept(snapshot)
        changes = ChangeSet(tuple(self._write(snapshot)))
        failpoints.hit("load.after_write")
        tell("publishing", stage="publish")
        self._built = (snapshot, changes)
        return changes

    def close(self) -> None:
        """The prepared rows belong to the caller."""

    def kept(self, snapshot: Snapshot) -> ChangeSet | None:
        """The change set of the last call if it is right for this snapshot, too."""
        if self._built is None:
            return None
        before, changes = self._built
        if not self._still_holds(before, changes, snapshot):
            return None
        self._built = (snapshot, changes)
        return changes

    def _still_holds(self, before: Snapshot, changes: ChangeSet, now: Snapshot) -> bool:
        """The change set that was checked and written for `before` is also right for `now`."""
        homes = all(
            isinstance(e, AdoptRows)
            and (e.location, e.branch) == (now.pin(e.key).location, now.pin(e.key).branch)
            for e in changes.effects
        )
        claimed = self.claims()
        shrinks = bool(self.replaced | self.mirrored)
        recheck = _Recheck(self.prepared, self.reader, self.commits, self.matching, shrinks)
        return homes and recheck.undisturbed({*claimed.tables, *claimed.reads}, before, now)

    def _check(self, snapshot: Snapshot) -> None:
        """Raise if a rule is broken, or leave rows out until what is left keeps all rules."""
        prepared, rules = self.prepared, self.prepared.rules
        kept = MOST_REJECTED if rules.keeps_rows else FIRST_VIOLATIONS
        while True:
            report = Report(kept, files=prepared.files)
            existing = self._judge(snapshot, report)
            if rules.skip:
                self._leave_out(report)
            elif report.total or prepared.report.total:
                self._fail(report, existing)
            if report.total == 0:
                write_rejects(prepared)
                return
            prepared.index.forget_stored()

    def _judge(self, snapshot: Snapshot, report: Report) -> ExistingIds:
        """Check all graph rules; returns the ids that should be new and exist."""
        prepared = self.prepared
        left_out = NOTHING_LEFT_OUT if prepared.rules.skip else prepared.left_out()
        checks = BulkChecks(
            prepared.catalog,
            prepared.index,
            self.written,
            self.replaced,
            prepared.place,
            left_out,
            self.mirrored,
        )
        small = prepared.total <= self.small_input and not (self.replaced or self.mirrored)
        if not small:
            self._offer_stored(snapshot)
        given = prepared.given_ids
        # Patches were folded and matched before.
        merged = (LoadMode.MERGE, LoadMode.MIRROR)
        if self._repeated is None:
            self._repeated = drop_earlier_rows(prepared.index, self.modes.with_mode(given, merged))
        matching = sorted(self.modes.with_mode(self.matching, merged))
        self._matched = frozenset(k for k in matching if self._match(k, snapshot))
        distinct = (LoadMode.APPEND, LoadMode.OVERWRITE)
        for key in sorted(self.modes.with_mode(given, distinct)):
            checks.duplicate_ids(key, report)
        self._tables = self._with_kept(snapshot)
        new = self.modes.with_mode(given, (LoadMode.APPEND,))
        existing = ExistingIds()
        if new:
            store = self.reader.store
            existing = report_existing(prepared, new, snapshot, store, report, small=small)
        if small:
            deltas = self._deltas()
            image = StoredImage(snapshot, self.reader.store, deltas)
            check_graph(image, deltas, report, left_out=left_out)
            return existing
        for key in sorted(self.mirrored):
            self._remove_absent(key, snapshot, checks)
        for edge in self._cascading():
            checks.cascade(prepared.catalog.edge_types[edge.type_name])
        checks.graph_rules(report)
        return existing

    def _remove_absent(self, key: TableKey, snapshot: Snapshot, checks: BulkChecks) -> None:
        """Let the index know which entities of a mirrored type go."""
        prepared, pin = self.prepared, snapshot.pin(key)
        condition = self.modes.scopes.get(key.type_name)
        if pin.row_count == 0:
            return
        kept = set(prepared.dropped_ids.get(key, ()))
        rejected = prepared.left_out().ids.get(key)
        if rejected is not None:
            kept.update(i for i in rejected.to_pylist() if i is not None)
        scope = None
        if condition is not None:
            from omnigraph.load.mirror_scope import ids_in_scope, scope_predicate

            predicate = scope_predicate(prepared.catalog, key.type_name, condition)
            scope = ids_in_scope(self.reader.store.open(pin.at), predicate)
        checks.remove_absent(key, kept, scope)

    def _fail(self, found: Report, existing: ExistingIds) -> None:
        """Raise what is wrong with rows by themselves and with the graph, after writing them."""
        prepared = self.prepared
        if prepared.rejected.kept:
            for violation in found.violations:
                for number in violation.row_numbers():
                    prepared.rejected.add(number, violation)
            write_rejects(prepared)
        prepared.report.merge(found.violations, found.tally)
        if existing.total == prepared.report.total:
            first = found.violations[0].table
            raise KeyConflict(
                prepared.report.message(),
                type=first.type_name if first else None,
                entity_kind=first.kind.value if first else None,
                ids=existing.ids,
                **prepared.report.fields(),
            )
        prepared.report.raise_if_any()

    def _leave_out(self, found: Report) -> None:
        """Reject the rows that break a rule; fail if no row is at fault."""
        prepared = self.prepared
        prepared.report.merge(found.violations, found.tally)
        numbers: set[int] = set()
        lonely = None
        for violation in found.violations:
            rows = violation.row_numbers()
            lonely = violation if not rows else lonely
            numbers.update(rows)
            explained = explain(prepared, violation)
            for number in rows:
                prepared.rejected.add(number, explained)
        refuse_too_many(prepared)
        if found.total and (lonely is not None or prepared.drop(numbers) == 0):
            write_rejects(prepared)
            found.raise_if_any()

    def _embed(self, provider: EmbeddingProvider) -> None:
        """Make the missing vectors of the rows that will be written."""
        prepared = self.prepared
        for number, (key, table) in enumerate(list(prepared.tables.items())):
            if not any(embedding_of(declared) for declared in table.entity.properties):
                continue
            if not isinstance(table, PreparedFile):
                continue  # workers made the vectors
            path = prepared.folder / f"embedded-{number}.arrow"
            made = PreparedFile(table.entity, path, table.schema)
            for chunk in table.chunks():
                for start in range(0, chunk.num_rows, _EMBEDDED_ROWS):
                    rows = chunk.slice(start, _EMBEDDED_ROWS)
                    if key in self._thinned:
                        kept = prepared.index.is_kept(key, rows)
                        made.append(rows.filter(pc.invert(kept)))
                        rows = rows.filter(kept)
                    made.append(fill_embeddings(table.entity, rows, provider))
                    tell(f"embedding {table.entity.name}", made.rows, table.rows, "rows", "embed")
            made.close()
            prepared.tables[key] = made

    def _match(self, key: TableKey, snapshot: Snapshot) -> bool:
        """Whether some input edge without an id means a stored edge; the index then knows which."""
        pin = snapshot.pin(key)
        if pin.row_count == 0:
            return False
        edge = self.prepared.catalog.edge_types[key.type_name]
        matcher = EdgeMatcher(self.prepared, edge, self.reader.store.open(pin.at))
        if not matcher.match():
            return False
        if key in self._losing:
            # The node of an edge that is stored already may go, so its ends must be checked.
            self.prepared.index.compare_matches(key)
        self.prepared.index.resolve(key)
        return True

    def _with_kept(self, snapshot: Snapshot) -> dict[TableKey, PreparedTable]:
        """The prepared rows, with the stored values where a generated default has one."""
        found = dict(self.prepared.tables)
        for key in self.prepared.generated:
            if self.modes.of(key) is LoadMode.APPEND:
                continue
            pin = snapshot.pin(key)
            if pin.row_count:
                dataset = self.reader.store.open(pin.at)
                settled = key in self._settled
                found[key] = keep_generated(self.prepared, found[key], dataset, settled=settled)
        return found

    def _deltas(self) -> Deltas:
        """The checked columns of all rows, in memory because the input is small."""
        found: Deltas = {}
        index = self.prepared.index
        for key, table in self._tables.items():
            columns = [*index.columns(key), PLACE]
            rows = pa.concat_tables(chunk.select(columns) for chunk in table.chunks())
            rows = _in_place_order(rows)
            if key in self._settled:
                rows = index.as_written(key, rows)
            places = partial(self._place, rows.column(PLACE))
            # Whether an id occurs twice is checked before, with the place of the first one.
            found[key] = TableDelta(key, rows.drop_columns([PLACE]), distinct=True, places=places)
        return found

    def _place(self, numbers: pa.ChunkedArray, row: int) -> Place:
        return self.prepared.place(numbers[row].as_py())

    @property
    def _losing(self) -> frozenset[TableKey]:
        """Edge types that may lose edges because node types lose nodes."""
        catalog = self.prepared.catalog
        nodes = [k for k in self.replaced | self.mirrored if k.kind is EntityKind.NODE]
        found = {e.table_key for node in nodes for e in edges_touching(catalog, node)}
        return frozenset(found - self.replaced)

    def _cascading(self) -> list[TableKey]:
        return sorted(self._losing)

    def _offer_stored(self, snapshot: Snapshot) -> None:
        index = self.prepared.index
        for key in sorted(self._needed()):
            pin = snapshot.pin(key)
            dataset = self.reader.store.open(pin.at)
            index.offer_stored(key, pin.row_count, pin.content_epoch, partial(_columns, dataset))

    def _needed(self) -> Iterable[TableKey]:
        """Tables whose stored rows a check or a change list may read."""
        claimed = self.claims()
        everything = {*claimed.tables, *claimed.reads}
        free = {
            key
            for key in self.written - self.replaced - self.mirrored - self.prepared.given_ids
            if key.kind is EntityKind.EDGE and not self._counts_rows(key)
        }
        return everything - (free - self._losing)

    def _counts_rows(self, key: TableKey) -> bool:
        rules = graph_rules(self.prepared.catalog.entity_type(key))
        return any(isinstance(rule, UniqueTuple | EdgesPerSource) for rule in rules)

    def _write(self, snapshot: Snapshot) -> Iterable[AdoptRows]:
        writer = self.writer(
            self.prepared,
            self.reader.store,
            snapshot,
            self._settled,
            self._matched,
            dry=self.dry_run,
        )
        done, total = 0, self.prepared.total
        losing = self._losing | self.mirrored
        for table in self._tables.values():
            tell(f"writing {table.entity.name}", done, total, "rows", "write")
            done += table.rows
            key = table.entity.table_key
            match self.modes.of(key):
                case LoadMode.APPEND:
                    yield writer.append(table, loses=key in losing)
                case LoadMode.MERGE | LoadMode.PATCH | LoadMode.MIRROR:
                    yield writer.merge(table, loses=key in losing)
                case LoadMode.OVERWRITE:
                    yield writer.replace(table)
            failpoints.hit("load.after_write_first")
        tell("writing", done, total, "rows", "write")
        for edge in self._cascading():
            if edge not in self.written:
                yield writer.remove_gone(edge)


def _in_place_order(rows: pa.Table) -> pa.Table:
    """Of rows that cannot all stay, the later ones fall; parsers do not keep the order of lines."""
    places = rows.column(PLACE).to_numpy()
    if (places[1:] > places[:-1]).all():
        return rows
    return rows.take(pc.sort_indices(rows.column(PLACE)))


def _columns(dataset: Dataset, names: Sequence[str]) -> pa.RecordBatchReader:
    schema = pa.schema([dataset.schema.field(name) for name in names])
    return pa.RecordBatchReader.from_batches(schema, read_batches(dataset, names))


@dataclass(frozen=True, slots=True)
class _Recheck:
    """Compares prepared rows with the ids that newer commits recorded.

    The cost follows the size of those commits, not the size of the graph.
    """

    prepared: PreparedInput
    reader: ManifestReader
    commits: CommitGraph
    matching: frozenset[TableKey]
    """Edge types of which rows without an id may mean stored edges."""
    shrinks: bool = False
    """The load removes entities, also those that came after its checks."""

    def undisturbed(
        self, relied_on: AbstractSet[TableKey], before: Snapshot, now: Snapshot
    ) -> bool:
        """No commit after `before` changed a row that the checks relied on.

        False if that is not certain. Everything is checked again then.
        """
        moved = {
            key for key in relied_on if before.pin(key).content_epoch != now.pin(key).content_epoch
        }
        if not moved:
            return True
        if self.shrinks or any(self._is_counted(key) for key in moved):
            return False
        between = self._between(before, now)
        if between is None:
            return False
        return all(self._disjoint(commit, key, now) for commit in between for key in sorted(moved))

    def _between(self, before: Snapshot, now: Snapshot) -> list[Commit] | None:
        _, state = self.reader.branch(now.graph_branch)
        found: list[Commit] = []
        for stored in self.commits.walk(state):
            if stored.commit_id == before.graph_commit_id:
                return found
            if len(found) == _MOST_COMMITS:
                break
            found.append(stored.commit)
        return None

    def _disjoint(self, commit: Commit, key: TableKey, now: Snapshot) -> bool:
        for changes in commit.changes:
            if changes.key != key:
                continue
            ids = recorded_ids(self.reader.store.files, changes)
            if ids is None:
                return False
            everything = pa.concat_arrays([ids.inserted, ids.updated, ids.deleted])
            if key in self.prepared.tables and self._some_among(key, ID, everything):
                return False
            if key.kind is EntityKind.NODE and self._is_endpoint(key, ids.deleted):
                return False
            if key in self.matching and self._may_mean(key, everything, now):
                return False
        return True

    def _may_mean(self, key: TableKey, changed: pa.Array, now: Snapshot) -> bool:
        """A row without an id means, or may mean now, one of the changed edges."""
        if len(changed) > _MOST_COMPARED_EDGES:
            return True
        index = self.prepared.index
        with index.shown(pa.table({ID: changed})) as shown:
            matched = f"FROM {index.matches(key)} m SEMI JOIN {shown} o USING ({ID})"
            if index.count(f"SELECT count(*) {matched}"):
                return True
        dataset = self.reader.store.open(now.pin(key).at)
        rows = find_rows(dataset, changed, [SOURCE, TARGET]).select([SOURCE, TARGET])
        with index.shown(rows) as shown:
            same = f"FROM {index.input(key)} i SEMI JOIN {shown} o USING ({SOURCE}, {TARGET})"
            return index.count(f"SELECT count(*) {same}") > 0

    def _is_counted(self, key: TableKey) -> bool:
        """A rule about values or numbers of rows concerns this table, so ids are not enough."""
        for entity in self.prepared.catalog.entity_types():
            for rule in graph_rules(entity):
                if isinstance(rule, UniqueTuple) and rule.table == key:
                    if key in self.prepared.tables:
                        return True
                elif isinstance(rule, EdgesPerSource) and key in (rule.table, rule.node):
                    return True
        return False

    def _is_endpoint(self, node: TableKey, deleted: pa.Array) -> bool:
        """A prepared edge begins or ends at one of the deleted nodes."""
        for edge in self.prepared.catalog.edges:
            if edge.table_key not in self.prepared.tables:
                continue
            for column, name in ((SOURCE, edge.source), (TARGET, edge.target)):
                if name == node.type_name and self._some_among(edge.table_key, column, deleted):
                    return True
        return False

    def _some_among(self, key: TableKey, column: str, ids: pa.Array) -> bool:
        """Some prepared row has one of `ids` in this column."""
        if len(ids) == 0:
            return False
        index = self.prepared.index
        with index.shown(pa.table({"id": ids})) as shown:
            met = f"FROM {shown} o SEMI JOIN {index.input(key)} i ON o.id = i.{column}"
            return index.count(f"SELECT count(*) {met}") > 0
