"""Revert and cherry-pick: a three-way merge that undoes or repeats the changes of one commit.

Cherry-pick merges the step from the parent of a commit to the commit; revert merges the step back.
The base of the merge is the state that the step starts from. So later changes of other properties
and entities stay, and later changes of the same property are conflicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph import failpoints
from omnigraph.commit.request import WriteReceipt, WriteRequest
from omnigraph.diff.id_runs import Scratch
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.merge.decisions import Decisions
from omnigraph.merge.operation import MergeContext, require_scope, run_merge
from omnigraph.merge.output import LocalRowMerger, RowMerger, TableOutput
from omnigraph.merge.resolve import MergedSides, merge_sides
from omnigraph.merge.tables import MergeStorage, SideContent, Sides
from omnigraph.scoping.write_judge import WriteJudge
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.changeset import ChangeSet

REVERT = "revert"
CHERRY_PICK = "cherry_pick"


@dataclass(frozen=True, slots=True)
class PickRequest:
    """Which commit, onto which branch, and in which direction (`operation`)."""

    commit_id: str
    branch: str
    operation: str
    decisions: Decisions
    actor_id: str | None = None
    message: str | None = None
    idempotency_key: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    judge: WriteJudge | None = field(default=None, compare=False, repr=False)
    """None: the actor may change everything."""


def pick(context: MergeContext, request: PickRequest) -> WriteReceipt:
    """One commit on `branch`; the receipt's commit is None when nothing is left to change."""
    with Scratch() as scratch:
        attempt = _Pick(context, request, scratch)
        write = WriteRequest(
            branch=request.branch,
            operation=request.operation,
            tables=(),
            actor_id=request.actor_id,
            message=request.message or attempt.message,
            idempotency_key=request.idempotency_key,
            details=request.details,
            on_exact_head=True,
            tables_of=attempt.tables,
            judge=request.judge,
        )
        return run_merge(context.transaction, write, attempt.build, attempt.changed_rows)


class _Pick:
    def __init__(self, context: MergeContext, request: PickRequest, scratch: Scratch) -> None:
        self._context = context
        self._request = request
        self._scratch = scratch
        _, state = context.reader.branch(request.branch)
        self._lineage = Lineage(context.reader, (state,))
        commit = self._lineage.commit(request.commit_id)
        before, after = self._lineage.step(request.commit_id)
        backwards = request.operation == REVERT
        self._base, self._theirs = (after, before) if backwards else (before, after)
        self.changed_rows = sum(c.inserted + c.updated + c.deleted for c in commit.changes)
        self._merged: MergedSides[TableOutput] | None = None
        said = f": {commit.message}" if commit.message else ""
        self.message = f"{request.operation.replace('_', '-')} {request.commit_id}{said}"

    def tables(self, ours: Snapshot) -> tuple[TableKey, ...]:
        store = self._context.reader.store
        storage = MergeStorage(store, self._lineage, self._scratch)
        restores = self._request.operation == REVERT
        sides = Sides(
            SideContent(self._base), SideContent(ours), SideContent(self._theirs), restores
        )
        rows: RowMerger[TableOutput] = LocalRowMerger(store, self._scratch)
        merged = merge_sides(storage, sides, self._request.decisions, rows)
        require_scope(self._request.judge, ours, merged)
        merged.refuse_conflicts(source=self._request.commit_id, target=self._request.branch)
        self._merged = merged
        return merged.tables

    def build(self, ours: Snapshot) -> ChangeSet:
        merged = self._merged
        assert merged is not None
        reader = self._context.reader
        schema = merged.schema_change(
            reader.store, ours.catalog, reader.schemas.read(self._theirs.schema_id)
        )
        failpoints.hit("merge.after_rows")
        return ChangeSet(merged.effects(reader.store, ours), schema=schema)
