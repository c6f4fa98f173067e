"""Merge one branch into another: one commit with two parents, through the one write path."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph import failpoints
from omnigraph.changes.changeset import ChangeSet, MergedHead
from omnigraph.commit.branch_lifecycle import BranchLifecycle
from omnigraph.commit.request import WriteRequest
from omnigraph.commit.transaction import Transaction
from omnigraph.diff.change import ChangePage
from omnigraph.diff.id_runs import Scratch
from omnigraph.diff.recorded_ids import count_between
from omnigraph.diff.snapshots import take
from omnigraph.errors import InvalidArgument
from omnigraph.manifest.ancestry import best_common_ancestors, only_theirs, require_common
from omnigraph.manifest.history import CommitPage, encode_page
from omnigraph.manifest.layout import history_object
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import BranchRef, TableChanges
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.merge.conflicts import MergePreview, MergeResult, Outcome
from omnigraph.merge.content import Content
from omnigraph.merge.decisions import Decisions
from omnigraph.merge.in_turn import run_merge
from omnigraph.merge.merger import Merger, Sides
from omnigraph.merge.other_parent import OtherParent
from omnigraph.merge.resolve import Merged, merge_sides, schema_text
from omnigraph.settings.models import HistorySettings
from omnigraph.values.clock import Clock
from omnigraph.values.identifiers import TableKey

MOST_CHANGES = 10_000
"""So many changes a preview shows."""


@dataclass(frozen=True, slots=True)
class MergeParts:
    """What a merge works with."""

    reader: ManifestReader
    transaction: Transaction
    lifecycle: BranchLifecycle
    history: HistorySettings
    clock: Clock


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """Which branches, who decides, and what to leave behind."""

    source: str
    target: str
    decisions: Decisions
    actor_id: str | None = None
    message: str | None = None
    delete_branch: bool = False


def merge_branches(parts: MergeParts, request: MergeRequest) -> MergeResult:
    """All or nothing; raises `MergeConflicts` when something is left to decide."""
    with Scratch() as scratch:
        attempt = _Attempt(parts, request, scratch)
        write = WriteRequest(
            branch=request.target,
            operation="merge",
            tables=(),
            actor_id=request.actor_id,
            message=request.message or f"merge {request.source} into {request.target}",
            on_exact_head=True,
            tables_of=attempt.tables,
        )
        receipt = run_merge(parts.transaction, write, attempt.build, attempt.changed_rows)
    failpoints.hit("merge.before_branch_delete")
    deleted = None
    if request.delete_branch:
        # Only what was merged may go: a commit that arrived meanwhile keeps the branch alive.
        parts.lifecycle.delete(
            request.source, request.actor_id, only_at=attempt.theirs.head_commit_id
        )
        deleted = True
    return MergeResult(
        request.source, request.target, attempt.outcome.value, receipt.commit, deleted
    )


def preview_merge(parts: MergeParts, request: MergeRequest) -> MergePreview:
    """What `merge_branches` would do now; nothing is written."""
    with Scratch() as scratch:
        attempt = _Attempt(parts, request, scratch)
        merged = attempt.merge(parts.reader.snapshot(*parts.reader.branch(request.target)))
        changes = merged.changes(parts.reader.store) if merged else iter(())
        first, more = take(changes, MOST_CHANGES)
        return MergePreview(
            (request.source, request.target),
            attempt.outcome.value,
            merged.conflicts if merged else [],
            ChangePage(first),
            merged.conflict_count if merged else 0,
            more_changes=more,
        )


class _Attempt:
    """One merge; both heads are looked at again after every lost race."""

    def __init__(self, parts: MergeParts, request: MergeRequest, scratch: Scratch) -> None:
        self._parts = parts
        self._request = request
        self._scratch = scratch
        target, state = parts.reader.branch(request.target)
        if self._look_at_source() == target:
            raise InvalidArgument(f"{request.source!r} cannot be merged into itself")
        lineage = Lineage(parts.reader, (state, self.theirs))
        heads = (state.head_commit_id, self.theirs.head_commit_id)
        self.changed_rows = count_between(lineage, *heads)
        self.outcome = Outcome.ALREADY_UP_TO_DATE
        self._merged: Merged | None = None
        self._lineage: Lineage | None = None

    def _look_at_source(self) -> BranchRef:
        ref, self.theirs = self._parts.reader.branch(self._request.source)
        self._their_snapshot = self._parts.reader.snapshot(ref, self.theirs)
        return ref

    def tables(self, ours: Snapshot) -> tuple[TableKey, ...]:
        merged = self.merge(ours)
        if merged is None:
            return ()
        merged.refuse_conflicts((self._request.source, self._request.target))
        return merged.tables

    def build(self, ours: Snapshot) -> ChangeSet:
        merged, lineage = self._merged, self._lineage
        if merged is None or lineage is None:
            return ChangeSet(())
        store, theirs = self._parts.reader.store, self._their_snapshot
        text = self._parts.reader.schemas.read(theirs.schema_id).source
        source_text = schema_text(merged.catalog.catalog, theirs.catalog, text)
        failpoints.hit("merge.after_rows")
        head = self._merged_head(lineage, merged, ours.graph_commit_id)
        failpoints.hit("merge.after_history")
        return ChangeSet(
            merged.effects(store, ours), schema=merged.schema_change(source_text), merged=head
        )

    def merge(self, ours: Snapshot) -> Merged | None:
        """None when ours has everything already."""
        reader = self._parts.reader
        # Again: what was the source's head before a long wait could be gone when we are done.
        self._look_at_source()
        _, state = reader.branch(self._request.target)
        lineage = Lineage(reader, (state, self.theirs))
        our_id, their_id = ours.graph_commit_id, self.theirs.head_commit_id
        found = best_common_ancestors(lineage, (our_id,), their_id)
        bases = require_common(found, our_id, their_id)
        self._merged, self._lineage = None, lineage
        if bases == [their_id]:
            self.outcome = Outcome.ALREADY_UP_TO_DATE
            return None
        self.outcome = Outcome.FAST_FORWARD if bases == [our_id] else Outcome.MERGED
        merger = Merger(reader.store, lineage, self._scratch)
        sides = Sides(
            merger.ancestor(our_id, their_id), Content(ours), Content(self._their_snapshot)
        )
        decisions = self._request.decisions
        self._merged = merge_sides(reader.store, merger, sides, decisions, self._scratch)
        decisions.refuse_unused()
        return self._merged

    def _merged_head(self, lineage: Lineage, merged: Merged, our_id: str) -> MergedHead:
        """What the target must remember: the source's commits that only the source had."""
        head = self.theirs.head_commit_id
        theirs_only = only_theirs(lineage, our_id, head)
        newest_first = []
        for stored in lineage.first_parents(head):
            if stored.commit_id not in theirs_only:
                break
            newest_first.append(stored)
        page = CommitPage(tuple(reversed(newest_first)), tuple(self.theirs.tables.values()))
        page_id = self._parts.clock.new_ulid()
        self._parts.reader.store.files.put(history_object(page_id), encode_page(page))
        fast_forward = self.outcome is Outcome.FAST_FORWARD
        return MergedHead(
            head,
            lineage.commit(head).created_at,
            page_id,
            fast_forward,
            differs=() if fast_forward else self._differences(lineage, merged),
        )

    def _differences(self, lineage: Lineage, merged: Merged) -> tuple[TableChanges, ...] | None:
        parts = self._parts
        other = OtherParent(parts.reader.store, lineage, self._scratch, parts.history, parts.clock)
        return other.differences(merged)
