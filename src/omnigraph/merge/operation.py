"""Merge one branch into another: one commit with two parents, through the one write path."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph import failpoints
from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.commit.branches import BranchLifecycle
from omnigraph.commit.request import Build, WriteReceipt, WriteRequest
from omnigraph.commit.transaction import Transaction
from omnigraph.diff.change import Change, ChangeOp, ChangePage, TypeRef
from omnigraph.diff.differing_ids import DifferingIds, TablePair, count_between
from omnigraph.diff.entity_rows import images, same_content, sort_key
from omnigraph.diff.id_runs import IdRuns, Scratch
from omnigraph.diff.snapshot_diff import take
from omnigraph.errors import ExpectedVersionMismatch, InvalidArgument
from omnigraph.lance_store.store import Store
from omnigraph.manifest.history import CommitPage, encode_page
from omnigraph.manifest.layout import history_object
from omnigraph.manifest.lineage import Lineage, best_common_ancestors, only_theirs, require_common
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import BranchRef, TableChanges
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.merge.ancestor import Merger, Sides, identity_of
from omnigraph.merge.conflicts import MergePreview, MergeResult, Outcome
from omnigraph.merge.decisions import Decisions
from omnigraph.merge.output import (
    LOCAL_ENGINE,
    LocalOutput,
    LocalRowMerger,
    MergeEngine,
    MergeFindings,
    RowMerger,
    TableOutput,
)
from omnigraph.merge.resolve import MergedSides, OutputT, merge_sides
from omnigraph.merge.tables import Identity, SideContent, SideTable, add_overlay_ids, differing
from omnigraph.settings.models import HistorySettings
from omnigraph.values.clock import Clock
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.changed_ids import ChangeListWriter, Op, record_ids
from omnigraph.writes.changeset import ChangeSet, MergedHead

logger = logging.getLogger(__name__)

LARGE = 50_000
"""Changed rows on both sides; computing more takes longer than others should wait."""


def run_merge(
    transaction: Transaction,
    request: WriteRequest,
    build: Build,
    changed_rows: int | None,
    *,
    writes_ahead: bool = False,
) -> WriteReceipt:
    """`changed_rows` is None when nobody knows how many there are.

    `writes_ahead`: files are written long before the commit, so cleanup is held off in any case.
    """
    if writes_ahead:
        request = replace(request, long_build=True, in_turn=True)
    if writes_ahead or changed_rows is None or changed_rows > LARGE:
        beside_others = replace(request, long_build=True, in_turn=False, repreparable=False)
        try:
            return transaction.run(beside_others, build)
        except ExpectedVersionMismatch as moved:
            logger.info("%s; merging again in turn", moved.message)
    return transaction.run(request, build)


_DELETES_AT_ONCE = 1024


def preview_changes(store: Store, merged: MergedSides[LocalOutput]) -> Iterator[Change]:
    """In the order of a diff."""
    for output in sorted(merged.outputs, key=lambda o: sort_key(o.entity.table_key)):
        ours = merged.sides.ours.of(identity_of(output.entity))
        parts = (_written(store, ours, output), _deleted(store, ours, output))
        yield from heapq.merge(*parts, key=lambda change: change.id)


def _written(store: Store, ours: SideTable, output: LocalOutput) -> Iterator[Change]:
    schema = table_schema(output.entity)
    for table in output.batches():
        ids = table.column("id").combine_chunks()
        before = ours.rows(store, ids, schema)
        old = images(before.rows)
        for row, new in enumerate(images(table)):
            if not before.present[row]:
                yield _change(output, new["id"], ChangeOp.INSERT, None, new)
            elif old[row] != new:  # a table with new columns is written whole
                yield _change(output, new["id"], ChangeOp.UPDATE, old[row], new)


def _deleted(store: Store, ours: SideTable, output: LocalOutput) -> Iterator[Change]:
    ids = output.ids(Op.DELETE)
    schema = table_schema(output.entity)
    for start in range(0, len(ids), _DELETES_AT_ONCE):
        some = ids.slice(start, _DELETES_AT_ONCE)
        before = ours.rows(store, some, schema)
        for old in images(before.rows):
            yield _change(output, old["id"], ChangeOp.DELETE, old, None)


def _change(
    output: LocalOutput,
    entity_id: str,
    op: ChangeOp,
    before: dict[str, object] | None,
    after: dict[str, object] | None,
) -> Change:
    type_ref = TypeRef(output.entity.identity, output.entity.name)
    return Change(output.entity.table_key.kind.value, type_ref, entity_id, op.value, before, after)


class OtherParent:
    """Records the differences of one merge from the branch it merged."""

    def __init__(
        self,
        store: Store,
        lineage: Lineage,
        scratch: Scratch,
        history: HistorySettings,
        clock: Clock,
    ) -> None:
        self._store = store
        self._lineage = lineage
        self._scratch = scratch
        self._history = history
        self._clock = clock

    def differences(self, merged: MergedSides[TableOutput]) -> tuple[TableChanges, ...] | None:
        """None when a record is missing: a scan for what nobody may ever ask is not worth it."""
        sides = merged.sides
        base, ours = sides.base.snapshot, sides.ours.snapshot
        changed = DifferingIds(self._store, self._lineage, base, ours, self._scratch)
        pairs = {pair.identity: pair for pair in differing(sides.base, sides.ours)}
        found = []
        for entity in ours.catalog.entity_types():
            key, identity = entity.table_key, (entity.table_key.kind.value, entity.identity)
            if not _in_one_place(sides, identity):
                found.append(TableChanges(key, 0, 0, 0, ids=None))
                continue
            runs = self._changed_by_us(changed, pairs.get(identity))
            if runs is None:
                return None
            add_overlay_ids(runs, identity, sides.all)
            runs.add(pa.array(merged.forced_ids(key), pa.string()))
            listed = self._listed(key, runs)
            if listed.updated:
                found.append(listed)
        return tuple(found)

    def _changed_by_us(self, changed: DifferingIds, pair: TablePair | None) -> IdRuns | None:
        return IdRuns(self._scratch) if pair is None else changed.recorded(pair)

    def _listed(self, key: TableKey, runs: IdRuns) -> TableChanges:
        writer = ChangeListWriter(self._scratch.new_file(".arrow"))
        for ids in runs.chunks():
            writer.add(Op.UPDATE, ids)
        return record_ids(key, writer.finish(), self._store.files, self._history, self._clock)


def _in_one_place(sides: Sides, identity: Identity) -> bool:
    """The rows of a type made twice are in two tables, and ids of one say nothing of the other."""
    tables = [side.of(identity).table for side in sides.all]
    return len({table.pin.location if table else None for table in tables}) == 1


MOST_CHANGES = 10_000
"""So many changes a preview shows."""


@dataclass(frozen=True, slots=True)
class MergeContext:
    """What a merge works with."""

    reader: ManifestReader
    transaction: Transaction
    lifecycle: BranchLifecycle
    history: HistorySettings
    clock: Clock
    choose_engine: Callable[[int | None], MergeEngine] = lambda _: LOCAL_ENGINE
    """By how many rows both sides changed; None when nobody knows."""


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """Which branches, who decides, and what to leave behind."""

    source: str
    target: str
    decisions: Decisions
    actor_id: str | None = None
    message: str | None = None
    delete_branch: bool = False


def merge_branches(parts: MergeContext, request: MergeRequest) -> MergeResult:
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
        engine = attempt.engine
        if engine.writes_ahead:
            attempt.own_tables()
        receipt = run_merge(
            parts.transaction,
            write,
            attempt.build,
            attempt.changed_rows,
            writes_ahead=engine.writes_ahead,
        )
    failpoints.hit("merge.before_branch_delete")
    deleted = None
    if request.delete_branch:
        # Only what was merged may go: a commit that arrived meanwhile keeps the branch alive.
        parts.lifecycle.delete(
            request.source, request.actor_id, only_at=attempt.theirs.head_commit_id
        )
        deleted = True
    return MergeResult(
        request.source,
        request.target,
        attempt.outcome.value,
        receipt.commit,
        deleted,
        engine.name,
        engine.reason,
    )


def preview_merge(parts: MergeContext, request: MergeRequest) -> MergePreview:
    """What `merge_branches` would do now; nothing is written."""
    with Scratch() as scratch:
        store = parts.reader.store
        attempt = _Attempt(parts, request, scratch)
        ours = parts.reader.snapshot(*parts.reader.branch(request.target))
        merged = attempt.merge(ours, LocalRowMerger(store, scratch))
        first, more = take(preview_changes(store, merged) if merged else iter(()), MOST_CHANGES)
        findings = merged.findings if merged else MergeFindings()
        return MergePreview(
            (request.source, request.target),
            attempt.outcome.value,
            findings.conflicts,
            ChangePage(first),
            findings.conflict_count,
            more_changes=more,
        )


class _Attempt:
    """One merge; both heads are looked at again after every lost race."""

    def __init__(self, parts: MergeContext, request: MergeRequest, scratch: Scratch) -> None:
        self._parts = parts
        self._request = request
        self._scratch = scratch
        target, state = parts.reader.branch(request.target)
        if self._look_at_source() == target:
            raise InvalidArgument(f"{request.source!r} cannot be merged into itself")
        lineage = Lineage(parts.reader, (state, self.theirs))
        heads = (state.head_commit_id, self.theirs.head_commit_id)
        self.changed_rows = count_between(lineage, *heads)
        self.engine = parts.choose_engine(self.changed_rows)
        self.outcome = Outcome.ALREADY_UP_TO_DATE
        self._merged: MergedSides[TableOutput] | None = None
        self._lineage: Lineage | None = None

    def _look_at_source(self) -> BranchRef:
        ref, self.theirs = self._parts.reader.branch(self._request.source)
        self._their_snapshot = self._parts.reader.snapshot(ref, self.theirs)
        return ref

    def own_tables(self) -> None:
        """Fork what the target does not own and theirs has otherwise: files have one lineage."""
        reader, request = self._parts.reader, self._request
        ref, state = reader.branch(request.target)
        lineage = Lineage(reader, (state, self.theirs))
        heads = state.head_commit_id, self.theirs.head_commit_id
        if best_common_ancestors(lineage, heads[:1], heads[1]) == [heads[1]]:
            return
        theirs = self._their_snapshot.tables
        foreign = tuple(
            key
            for key, pin in state.tables.items()
            if pin.owner != ref.incarnation and key in theirs and not same_content(pin, theirs[key])
        )
        if foreign:
            fork = WriteRequest(request.target, "merge", foreign, actor_id=request.actor_id)
            self._parts.transaction.run(fork, lambda _: ChangeSet(()))

    def tables(self, ours: Snapshot) -> tuple[TableKey, ...]:
        reader = self._parts.reader
        owner = reader.ref(self._request.target).incarnation
        rows = self.engine.start(reader.store, self._scratch, owner)
        merged = self._merged = self.merge(ours, rows)
        if merged is None:
            return ()
        merged.refuse_conflicts((self._request.source, self._request.target))
        return merged.tables

    def build(self, ours: Snapshot) -> ChangeSet:
        merged, lineage = self._merged, self._lineage
        if merged is None or lineage is None:
            return ChangeSet(())
        store, theirs = self._parts.reader.store, self._their_snapshot
        schema = merged.schema_change(self._parts.reader.schemas.read(theirs.schema_id))
        failpoints.hit("merge.after_rows")
        head = self._merged_head(lineage, merged, ours.graph_commit_id)
        failpoints.hit("merge.after_history")
        return ChangeSet(merged.effects(store, ours), schema=schema, merged=head)

    def merge(self, ours: Snapshot, rows: RowMerger[OutputT]) -> MergedSides[OutputT] | None:
        """None when ours has everything already."""
        reader = self._parts.reader
        # Again: what was the source's head before a long wait could be gone when we are done.
        self._look_at_source()
        _, state = reader.branch(self._request.target)
        lineage = Lineage(reader, (state, self.theirs))
        our_id, their_id = ours.graph_commit_id, self.theirs.head_commit_id
        found = best_common_ancestors(lineage, (our_id,), their_id)
        bases = require_common(found, our_id, their_id)
        self._lineage = lineage
        if bases == [their_id]:
            self.outcome = Outcome.ALREADY_UP_TO_DATE
            return None
        self.outcome = Outcome.FAST_FORWARD if bases == [our_id] else Outcome.MERGED
        merger = Merger(reader.store, lineage, self._scratch)
        sides = Sides(
            merger.ancestor(our_id, their_id), SideContent(ours), SideContent(self._their_snapshot)
        )
        decisions = self._request.decisions
        merged = merge_sides(reader.store, merger, sides, decisions, rows)
        decisions.refuse_unused()
        return merged

    def _merged_head(
        self, lineage: Lineage, merged: MergedSides[TableOutput], our_id: str
    ) -> MergedHead:
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

    def _differences(
        self, lineage: Lineage, merged: MergedSides[TableOutput]
    ) -> tuple[TableChanges, ...] | None:
        parts = self._parts
        other = OtherParent(parts.reader.store, lineage, self._scratch, parts.history, parts.clock)
        return other.differences(merged)
