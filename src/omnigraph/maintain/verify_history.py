"""Check the commit log of one branch: one chain, whole, and what commits say they changed."""

from __future__ import annotations

from itertools import islice, pairwise

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.diff.changed_ids import change_lists
from omnigraph.errors import OmnigraphError, SnapshotReclaimed
from omnigraph.lance_store.reads.scan import read_table
from omnigraph.maintain.findings import Findings
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import Commit, PinChange, TableChanges
from omnigraph.writes.row_compare import differing_rows


def verify_history(
    reader: ManifestReader, branch: str, state: BranchState, compared: int, found: Findings
) -> None:
    """`compared` newest commits are checked against the snapshots around them."""
    try:
        commits = [stored.commit for stored in CommitGraph(reader).walk(state)]
    except OmnigraphError as error:
        found.add("history", branch, "commit log", error.message)
        return
    found.checked["commits"] += len(commits)
    for child, parent in pairwise(commits):
        if child.parent_commit_id != parent.graph_commit_id:
            message = (
                f"its parent is {child.parent_commit_id}, before it comes {parent.graph_commit_id}"
            )
            found.add("commit_graph", branch, child.graph_commit_id, message)
        if child.created_at <= parent.created_at:
            found.add("commit_graph", branch, child.graph_commit_id, "older than its parent")
    if commits and commits[-1].parent_commit_id is not None:
        found.add("commit_graph", branch, commits[-1].graph_commit_id, "its parent is missing")
    if len({c.graph_commit_id for c in commits}) != len(commits):
        found.add("commit_graph", branch, "commit log", "a commit occurs twice")
    for commit in islice(commits, compared):
        _verify_changes(reader, branch, commit, found)


def _verify_changes(reader: ManifestReader, branch: str, commit: Commit, found: Findings) -> None:
    recorded = {change.key: change for change in commit.changes}
    for pins in commit.pins:
        if pins.before is None or pins.after is None:
            continue
        changes = recorded.get(pins.after.key)
        try:
            problem = _disagreement(reader, commit, pins, changes)
        except SnapshotReclaimed:
            found.checked["commits_reclaimed"] += 1
            continue
        found.checked["changes"] += 1
        if problem is not None:
            place = f"{commit.graph_commit_id} {pins.after.key}"
            found.add("recorded_changes", branch, place, problem)


def _disagreement(
    reader: ManifestReader, commit: Commit, pins: PinChange, changes: TableChanges | None
) -> str | None:
    """What a commit recorded against what its snapshots hold; None when they agree."""
    assert pins.before is not None
    assert pins.after is not None
    lists = change_lists(reader.store.files, changes) if changes else None
    if changes is not None and lists is None:
        return f"its change list {changes.file} is missing"
    inserted, updated, deleted = lists or (_NOTHING, _NOTHING, _NOTHING)
    # Columns that both states have: a schema change alters the others without touching rows.
    entity = reader.schemas.read(commit.schema_id).catalog.entity_type(pins.after.key)
    old, new = (reader.store.open(pin.at) for pin in (pins.before, pins.after))
    columns = [n for n in table_schema(entity).names if n in old.schema.names]
    before, after = read_table(old, columns), read_table(new, columns)
    appeared = _minus(after, before)
    vanished = _minus(before, after)
    for what, real, said in (("inserted", appeared, inserted), ("deleted", vanished, deleted)):
        if set(real.to_pylist()) != set(said.to_pylist()):
            return f"{len(said)} ids are recorded as {what}, the snapshots show {len(real)}"
    rewritten = _rewritten(before, after)
    unrecorded = set(rewritten.to_pylist()) - set(updated.to_pylist())
    return f"{len(unrecorded)} changed rows are not recorded" if unrecorded else None


_NOTHING = pa.array([], pa.string())


def _minus(rows: pa.Table, others: pa.Table) -> pa.Array:
    ids = rows.column("id").combine_chunks()
    return ids.filter(pc.invert(pc.is_in(ids, value_set=others.column("id").combine_chunks())))


def _rewritten(before: pa.Table, after: pa.Table) -> pa.Array:
    position = pc.index_in(after.column("id"), value_set=before.column("id").combine_chunks())
    both = after.filter(position.is_valid())
    same_order = before.take(position.drop_null())
    return both.filter(pa.array(differing_rows(same_order, both))).column("id").combine_chunks()
