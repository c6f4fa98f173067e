"""Revert and cherry-pick: a commit's changes, backwards or again, as a three-way merge.

Cherry-pick brings the step from a commit's parent to the commit; revert the step back. Both are
merges whose base is one end of the step, so what happened since is respected property by property.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph import failpoints
from omnigraph.commit.request import WriteReceipt, WriteRequest
from omnigraph.diff.id_runs import Scratch
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.merge.ancestor import Merger, Sides
from omnigraph.merge.decisions import Decisions
from omnigraph.merge.operation import MergeContext, run_merge
from omnigraph.merge.output import LocalRowMerger, RowMerger, TableOutput
from omnigraph.merge.resolve import MergedSides, merge_sides
from omnigraph.merge.tables import SideContent
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.changeset import ChangeSet

REVERT = "revert"
CHERRY_PICK = "cherry_pick"


@dataclass(frozen=True, slots=True)
class PickRequest:
    """Which commit, where to, and in which direction."""

    commit_id: str
    branch: str
    operation: str
    decisions: Decisions
    actor_id: str | None = None
    message: str | None = None


def pick(parts: MergeContext, request: PickRequest) -> WriteReceipt:
    """One commit on `branch`; `commit` is None when there is nothing left to do or undo."""
    with Scratch() as scratch:
        attempt = _Pick(parts, request, scratch)
        write = WriteRequest(
            branch=request.branch,
            operation=request.operation,
            tables=(),
            actor_id=request.actor_id,
            message=request.message or attempt.message,
            on_exact_head=True,
            tables_of=attempt.tables,
        )
        return run_merge(parts.transaction, write, attempt.build, attempt.changed_rows)


class _Pick:
    def __init__(self, parts: MergeContext, request: PickRequest, scratch: Scratch) -> None:
        self._parts = parts
        self._request = request
        self._scratch = scratch
        _, state = parts.reader.branch(request.branch)
        self._lineage = Lineage(parts.reader, (state,))
        commit = self._lineage.commit(request.commit_id)
        before, after = self._lineage.step(request.commit_id)
        backwards = request.operation == REVERT
        self._base, self._theirs = (after, before) if backwards else (before, after)
        self.changed_rows = sum(c.inserted + c.updated + c.deleted for c in commit.changes)
        self._merged: MergedSides[TableOutput] | None = None
        said = f": {commit.message}" if commit.message else ""
        self.message = f"{request.operation.replace('_', '-')} {request.commit_id}{said}"

    def tables(self, ours: Snapshot) -> tuple[TableKey, ...]:
        store = self._parts.reader.store
        merger = Merger(store, self._lineage, self._scratch)
        sides = Sides(SideContent(self._base), SideContent(ours), SideContent(self._theirs))
        rows: RowMerger[TableOutput] = LocalRowMerger(store, self._scratch)
        merged = merge_sides(store, merger, sides, self._request.decisions, rows)
        self._request.decisions.refuse_unused()
        merged.refuse_conflicts((self._request.commit_id, self._request.branch))
        self._merged = merged
        return merged.tables

    def build(self, ours: Snapshot) -> ChangeSet:
        merged = self._merged
        assert merged is not None
        reader = self._parts.reader
        schema = merged.schema_change(reader.schemas.read(self._theirs.schema_id))
        failpoints.hit("merge.after_rows")
        return ChangeSet(merged.effects(reader.store, ours), schema=schema)
