"""Check every invariant of a graph and report; nothing is changed."""

from __future__ import annotations

from omnigraph.commit.intent_board import IntentBoard
from omnigraph.commit.recovery.audit import read_audits
from omnigraph.errors import GraphMoved, NotFound, RecoveryRequired, StorageFailure
from omnigraph.maintain.cleanup import Cleanup
from omnigraph.maintain.findings import Findings, VerifyReport
from omnigraph.maintain.needed import Retention
from omnigraph.maintain.verify_history import verify_history
from omnigraph.maintain.verify_tables import verify_tables
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.reader import ManifestReader


def verify_graph(
    reader: ManifestReader, board: IntentBoard, cleanup: Cleanup, compared: int, *, full: bool
) -> VerifyReport:
    """Manifest, datasets, rules, indexes, history, tags, audits, and what nobody needs."""
    found = Findings()
    pending = board.pending()
    for intent in pending:
        if not intent.is_readable:
            message = "cannot be read: `repair --confirm --force` quarantines it"
            found.add("intent", None, intent.intent_id, message)
    try:
        heads = reader.live_branches()
    except GraphMoved as moved:
        found.add("moved", None, reader.store.location.uri, moved.message)
        return _report(found, len(pending), (0, 0))
    busy = _busy_locations(cleanup, found)
    for ref, state in heads:
        found.checked["branches"] += 1
        try:
            snapshot = reader.snapshot(ref, state)
        except NotFound as error:
            found.add("schema", ref.name, state.schema_id, error.message)
            continue
        verify_tables(reader.store, snapshot, ref.incarnation, busy, found, full=full)
        verify_history(reader, ref.name, state, compared, found)
    _verify_tags(reader, found)
    operations = [audit.operation_id for audit in read_audits(reader.store)]
    if len(set(operations)) != len(operations):
        found.add("audit", None, "recovery audit", "a recovery has two rows")
    return _report(found, len(pending), _orphans(cleanup, found))


def _report(found: Findings, pending: int, orphans: tuple[int, int]) -> VerifyReport:
    return VerifyReport(
        findings=tuple(found.first),
        counts=dict(+found.counts),
        checked=dict(found.checked),
        pending_intents=pending,
        orphan_files=orphans[0],
        orphan_bytes=orphans[1],
    )


def _busy_locations(cleanup: Cleanup, found: Findings) -> frozenset[str]:
    try:
        return cleanup.busy_locations()
    except RecoveryRequired:
        return frozenset()  # reported as an unreadable intent


def _verify_tags(reader: ManifestReader, found: Findings) -> None:
    commits = CommitGraph(reader)
    for name in reader.tag_refs.names():
        found.checked["tags"] += 1
        try:
            snapshot = commits.snapshot_at(name)
            for pin in snapshot.tables.values():
                reader.store.open(pin.at)
        except (NotFound, StorageFailure) as error:
            found.add("tag", None, name, error.message)


def _orphans(cleanup: Cleanup, found: Findings) -> tuple[int, int]:
    """Not a fault: what cleanup would remove without losing any commit."""
    try:
        report = cleanup.preview(Retention(None, None))
    except (RecoveryRequired, NotFound, StorageFailure) as error:
        found.add("cleanup", None, "orphans", error.message)
        return 0, 0
    return report.files, report.bytes
