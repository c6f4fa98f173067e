"""`verify_graph`: check every invariant of a graph and report; nothing is changed.

First come the records of the report, then the checks of the graph as a whole, of the tables of a
snapshot (manifest, files, rules, indexes), and of the history of a branch.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import islice, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.index_plan import wanted_indexes
from omnigraph.catalog.model import EntityType
from omnigraph.commit.intents import IntentBoard
from omnigraph.commit.recovery.audit import read_audits
from omnigraph.errors import (
    GraphMoved,
    InvalidArgument,
    NotFound,
    OmnigraphError,
    RecoveryRequired,
    SchemaDrift,
    SnapshotReclaimed,
    StorageFailure,
)
from omnigraph.integrity.graph_checks import check_graph
from omnigraph.integrity.row_checks import check_rows
from omnigraph.integrity.rules import checked_columns
from omnigraph.integrity.stored_image import Deltas, StoredImage, TableDelta
from omnigraph.integrity.violations import Report
from omnigraph.lance_store.dataset_files import lineages, needed_content
from omnigraph.lance_store.reads.indexes import disagreeing_values
from omnigraph.lance_store.reads.scan import read_table
from omnigraph.lance_store.store import Dataset, Store, head_version
from omnigraph.maintain.cleanup import Cleanup
from omnigraph.maintain.garbage import Retention
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.changed_ids import ChangedIds, recorded_ids
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import Commit, PinChange, TableChanges, TablePin
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.stored_columns import column_differences
from omnigraph.values.indexes import IndexKind
from omnigraph.writes.row_compare import differing_rows

_KEPT = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """One violated invariant."""

    check: str
    graph_branch: str | None
    place: str
    message: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """`findings` are the first ones; `counts` counts all by check; `checked` is the work done."""

    findings: tuple[Finding, ...]
    counts: dict[str, int]
    checked: dict[str, int]
    pending_intents: int
    orphan_files: int
    orphan_bytes: int

    @property
    def ok(self) -> bool:
        return not self.counts

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}


@dataclass(slots=True)
class FindingLog:
    """Collects findings: all are counted, the first hundred are kept."""

    first: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)

    def add(self, check: str, branch: str | None, place: object, message: str) -> None:
        self.counts[check] += 1
        if len(self.first) < _KEPT:
            self.first.append(Finding(check, branch, str(place), message))

    def report(
        self, pending_intents: int, orphan_files: int = 0, orphan_bytes: int = 0
    ) -> VerifyReport:
        return VerifyReport(
            findings=tuple(self.first),
            counts=dict(+self.counts),
            checked=dict(self.checked),
            pending_intents=pending_intents,
            orphan_files=orphan_files,
            orphan_bytes=orphan_bytes,
        )


def verify_graph(
    reader: ManifestReader, board: IntentBoard, cleanup: Cleanup, compared: int, *, full: bool
) -> VerifyReport:
    """Check manifest, datasets, rules, indexes, history, tags, audits and unneeded files.

    `compared` is how many commits of each branch are compared with their snapshots. `full` compares
    every value of every index.
    """
    if not 0 <= compared <= sys.maxsize:
        raise InvalidArgument(f"commits is 0 or more, not {compared}", option="commits")
    found = FindingLog()
    pending = board.pending()
    for intent in pending:
        if not intent.is_readable:
            message = "cannot be read: `repair --confirm --force` quarantines it"
            found.add("intent", None, intent.intent_id, message)
    try:
        heads = reader.live_branches()
    except GraphMoved as moved:
        found.add("moved", None, reader.store.location.uri, moved.message)
        return found.report(pending_intents=len(pending))
    busy = _busy_locations(cleanup)
    for ref, state in heads:
        found.checked["branches"] += 1
        try:
            snapshot = reader.snapshot(ref, state)
        except (NotFound, SchemaDrift) as error:
            found.add("schema", ref.name, state.schema_id, error.message)
            continue
        _verify_tables(reader.store, snapshot, ref.incarnation, busy, found, full=full)
        _verify_history(reader, ref.name, state, compared, found)
    _verify_tags(reader, found)
    operations = [audit.operation_id for audit in read_audits(reader.store)]
    if len(set(operations)) != len(operations):
        found.add("audit", None, "recovery audit", "a recovery has two rows")
    orphan_files, orphan_bytes = _orphans(cleanup, found)
    return found.report(len(pending), orphan_files, orphan_bytes)


def _busy_locations(cleanup: Cleanup) -> frozenset[str]:
    try:
        return cleanup.busy_locations()
    except RecoveryRequired:
        return frozenset()  # an unreadable intent, which is a finding already


def _verify_tags(reader: ManifestReader, found: FindingLog) -> None:
    commits = CommitGraph(reader)
    for name in reader.tag_refs.names():
        found.checked["tags"] += 1
        try:
            snapshot = commits.snapshot_at(name)
            for pin in snapshot.tables.values():
                reader.store.open(pin.at)
        except (NotFound, StorageFailure) as error:
            found.add("tag", None, name, error.message)


def _orphans(cleanup: Cleanup, found: FindingLog) -> tuple[int, int]:
    """Files and bytes that cleanup could remove without losing a commit; they are no finding."""
    try:
        report = cleanup.preview(Retention(None, None))
    except (RecoveryRequired, NotFound, StorageFailure) as error:
        found.add("cleanup", None, "orphans", error.message)
        return 0, 0
    return report.files, report.bytes


def _verify_tables(
    store: Store,
    snapshot: Snapshot,
    owner: str | None,
    busy: frozenset[str],
    found: FindingLog,
    *,
    full: bool,
) -> None:
    """Check every table of a snapshot: files, rows, rules and indexes.

    `owner` is the incarnation of the branch; HEAD of a table that it owns must be the pinned
    version. Tables at `busy` locations are left out of that check, because a writer in flight may
    have moved HEAD already.
    """
    deltas: Deltas = {}
    rows = Report()
    for key, pin in snapshot.tables.items():
        found.checked["tables"] += 1
        try:
            dataset = store.open(pin.at)
            _check_against_pin(snapshot, pin, dataset, found)
            _check_files(store, snapshot, pin, found)
            if pin.owner == owner and pin.location not in busy:
                _check_head(snapshot, pin, dataset, found)
            entity = snapshot.catalog.entity_type(key)
            content = read_table(dataset, table_schema(entity).names)
            check_rows(entity, content, rows)
            _check_indexes(snapshot, pin, dataset, found, full=full)
            found.checked["rows"] += content.num_rows
            deltas[key] = TableDelta(key, content.select(checked_columns(entity)), replaces=True)
        except (NotFound, StorageFailure) as error:
            found.add("dataset", snapshot.graph_branch, key, error.message)
    if len(deltas) == len(snapshot.tables):
        check_graph(StoredImage(snapshot, store, deltas), deltas, rows)
    for violation in rows.violations:
        found.add(f"rule:{violation.rule}", snapshot.graph_branch, violation.table, str(violation))
    for rule, count in rows.counts.items():
        kept = sum(violation.rule == rule for violation in rows.violations)
        found.counts[f"rule:{rule}"] += count - kept


def _check_against_pin(
    snapshot: Snapshot, pin: TablePin, dataset: Dataset, found: FindingLog
) -> None:
    branch = snapshot.graph_branch
    for difference in column_differences(snapshot, pin, dataset):
        found.add("columns", branch, pin.key, str(difference))
    rows = dataset.count_rows()
    if rows != pin.row_count:
        message = f"the manifest says {pin.row_count} rows, the dataset has {rows}"
        found.add("row_count", branch, pin.key, message)
    if not dataset.has_stable_row_ids:
        found.add("row_ids", branch, pin.key, "the dataset was made without stable row ids")


def _check_files(store: Store, snapshot: Snapshot, pin: TablePin, found: FindingLog) -> None:
    """Compare with a listing, because a read may be served from memory after a file is gone."""
    lines = lineages(pin.location, store.files.walk(pin.location))
    present = {name for line in lines.values() for name in line.content}
    missing = sorted(needed_content(store, pin.at) - present)
    if missing:
        message = f"{len(missing)} files are missing, the first is {missing[0]}"
        found.add("files", snapshot.graph_branch, pin.key, message)


def _check_head(snapshot: Snapshot, pin: TablePin, dataset: Dataset, found: FindingLog) -> None:
    head = head_version(dataset)
    if head > pin.version:
        message = f"HEAD is {head}, the manifest shows {pin.version}: `repair` puts it right"
        found.add("drift", snapshot.graph_branch, pin.key, message)
    elif head < pin.version:
        message = f"HEAD is {head}, behind the manifest's {pin.version}: restore files from backup"
        found.add("invariant", snapshot.graph_branch, pin.key, message)


def _check_indexes(
    snapshot: Snapshot, pin: TablePin, dataset: Dataset, found: FindingLog, *, full: bool
) -> None:
    for spec in wanted_indexes(snapshot.catalog.entity_type(pin.key)):
        if spec.kind is not IndexKind.SORTED:
            continue
        found.checked["indexes"] += 1
        wrong, exact = disagreeing_values(dataset, spec.column, full=full)
        found.checked["indexes_sampled"] += not exact
        for value in wrong:
            message = f"the index on {spec.column!r} and a scan disagree about {value!r}"
            found.add("index", snapshot.graph_branch, pin.key, message)


def _verify_history(
    reader: ManifestReader, branch: str, state: BranchState, compared: int, found: FindingLog
) -> None:
    """Check that the log is one whole chain, and the `compared` newest commits by their rows."""
    try:
        commits = [stored.commit for stored in CommitGraph(reader).walk(state)]
    except OmnigraphError as error:
        found.add("history", branch, "commit log", error.message)
        return
    found.checked["commits"] += len(commits)
    for child, parent in pairwise(commits):
        if child.parent_commit_id != parent.graph_commit_id:
            message = (
                f"its parent is {child.parent_commit_id}, "
                f"but the commit before it is {parent.graph_commit_id}"
            )
            found.add("commit_graph", branch, child.graph_commit_id, message)
        if child.created_at <= parent.created_at:
            found.add("commit_graph", branch, child.graph_commit_id, "older than its parent")
    if commits and commits[-1].parent_commit_id is not None:
        found.add("commit_graph", branch, commits[-1].graph_commit_id, "its parent is missing")
    if len({c.graph_commit_id for c in commits}) != len(commits):
        found.add("commit_graph", branch, "commit log", "a commit occurs twice")
    for commit, parent in islice(pairwise(commits), compared):
        _verify_changes(reader, branch, commit, parent, found)


def _verify_changes(
    reader: ManifestReader, branch: str, commit: Commit, parent: Commit, found: FindingLog
) -> None:
    recorded = {change.key: change for change in commit.changes}
    for pins in commit.pins:
        if pins.before is None or pins.after is None:
            continue
        changes = recorded.get(pins.after.key)
        try:
            problem = _disagreement(reader, (parent, commit), pins, changes)
        except SnapshotReclaimed:
            found.checked["commits_reclaimed"] += 1
            continue
        except (SchemaDrift, StorageFailure) as error:
            problem = error.message
        found.checked["changes"] += 1
        if problem is not None:
            place = f"{commit.graph_commit_id} {pins.after.key}"
            found.add("recorded_changes", branch, place, problem)


def _disagreement(
    reader: ManifestReader,
    commits: tuple[Commit, Commit],
    pins: PinChange,
    changes: TableChanges | None,
) -> str | None:
    """How the recorded changes differ from those between the snapshots; None when they agree."""
    assert pins.before is not None
    assert pins.after is not None
    if changes is not None and not changes.is_listed:
        return None
    ids = recorded_ids(reader.store.files, changes) if changes else _NO_CHANGES
    if changes is not None and ids is None:
        return f"its change list {changes.file} is missing"
    assert ids is not None
    entities = (
        reader.schemas.read(commit.schema_id).catalog.entity_type(pin.key)
        for commit, pin in zip(commits, (pins.before, pins.after), strict=True)
    )
    columns = _common_columns(*entities)
    old, new = (reader.store.open(pin.at) for pin in (pins.before, pins.after))
    before = read_table(old, list(columns)).rename_columns(list(columns.values()))
    after = read_table(new, list(columns.values()))
    appeared = _minus(after, before)
    vanished = _minus(before, after)
    for what, real, said in (
        ("inserted", appeared, ids.inserted),
        ("deleted", vanished, ids.deleted),
    ):
        if set(real.to_pylist()) != set(said.to_pylist()):
            return f"{len(said)} ids are recorded as {what}, the snapshots show {len(real)}"
    rewritten = _rewritten(before, after)
    unrecorded = set(rewritten.to_pylist()) - set(ids.updated.to_pylist())
    return f"{len(unrecorded)} changed rows are not recorded" if unrecorded else None


def _common_columns(before: EntityType, after: EntityType) -> dict[str, str]:
    """Old name -> new name of the columns that both have with the same type.

    A schema change adds, drops and renames columns without touching rows.
    """
    kinds, wanted = ({f.name: f.type for f in table_schema(e)} for e in (before, after))
    properties = {
        old.name: new.name
        for new in after.properties
        for old in before.properties
        if {old.identity, *old.also} & {new.identity, *new.also}
        and kinds[old.name] == wanted[new.name]
    }
    named = {p.name for p in after.properties}
    return {name: name for name in wanted if name not in named} | properties


def _minus(rows: pa.Table, others: pa.Table) -> pa.Array:
    ids = rows.column("id").combine_chunks()
    return ids.filter(pc.invert(pc.is_in(ids, value_set=others.column("id").combine_chunks())))


def _rewritten(before: pa.Table, after: pa.Table) -> pa.Array:
    position = pc.index_in(after.column("id"), value_set=before.column("id").combine_chunks())
    both = after.filter(position.is_valid())
    same_order = before.take(position.drop_null())
    return both.filter(pa.array(differing_rows(same_order, both))).column("id").combine_chunks()


_NO_CHANGES = ChangedIds(*(pa.array([], pa.string()) for _ in range(3)))
