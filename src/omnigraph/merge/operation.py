"""Merge one branch into another: one commit with two parents, written as every other write.

`merge_branches` finds the common ancestor, merges the rows of both branches (`merge.resolve`) and
commits the result. `preview_merge` does the same without a commit. `run_merge` runs the write of a
merge, a revert or a cherry-pick.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from omnigraph import failpoints
from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.commit.branches import BranchLifecycle
from omnigraph.commit.request import Build, WriteReceipt, WriteRequest
from omnigraph.commit.transaction import Transaction
from omnigraph.diff.change import Change, ChangedType, ChangeOp, ChangePage
from omnigraph.diff.differing_ids import DifferingIds, count_between
from omnigraph.diff.entity_rows import TypeIdentity, identity_of, images, same_content, sort_key
from omnigraph.diff.id_runs import IdRuns, Scratch
from omnigraph.diff.snapshot_diff import take
from omnigraph.errors import ExpectedVersionMismatch, InvalidArgument, OmnigraphError
from omnigraph.lance_store.store import Store
from omnigraph.manifest.changed_ids import ChangeListWriter, Op, record_ids
from omnigraph.manifest.history import CommitPage, encode_page
from omnigraph.manifest.layout import history_object
from omnigraph.manifest.lineage import Lineage, best_common_ancestors, only_theirs, require_common
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import BranchRef, StreamBatch, TableChanges, stream_details
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.merge.ancestor import common_ancestor
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
from omnigraph.merge.tables import MergeStorage, SideContent, Sides, SideTable, differing_types
from omnigraph.scoping.write_judge import WriteJudge
from omnigraph.settings.models import HistorySettings
from omnigraph.values.clock import Clock
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.changeset import ChangeSet, MergedHead

logger = logging.getLogger(__name__)

LARGE = 50_000
"""A merge with more changed rows on both sides runs beside other writers, not in turn with them."""
MOST_CHANGES = 10_000
"""A preview shows at most this many changes."""
_DELETES_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class MergeContext:
    """The parts of the engine that a merge uses."""

    reader: ManifestReader
    transaction: Transaction
    lifecycle: BranchLifecycle
    history: HistorySettings
    clock: Clock
    choose_engine: Callable[[int | None], MergeEngine] = lambda _: LOCAL_ENGINE
    """By the number of rows that both sides changed; None when it is not known."""


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """Which branches to merge, how conflicts are decided, and what the commit says."""

    source: str
    target: str
    decisions: Decisions
    actor_id: str | None = None
    message: str | None = None
    delete_branch: bool = False
    may_delete: Callable[[], None] = lambda: None
    """Raises when the caller may not delete the source."""
    idempotency_key: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    judge: WriteJudge | None = field(default=None, compare=False, repr=False)
    """None: the actor may change everything."""


def merge_branches(context: MergeContext, request: MergeRequest) -> MergeResult:
    """All or nothing; raises `MergeConflicts` when a conflict is left undecided."""
    with Scratch() as scratch:
        attempt = _Attempt(context, request, scratch)
        write = WriteRequest(
            branch=request.target,
            operation="merge",
            tables=(),
            actor_id=request.actor_id,
            message=request.message or f"merge {request.source} into {request.target}",
            idempotency_key=request.idempotency_key,
            details=request.details,
            on_exact_head=True,
            tables_of=attempt.tables,
            judge=request.judge,
        )
        engine = attempt.engine
        if engine.writes_ahead:
            attempt.own_tables()
        receipt = run_merge(
            context.transaction,
            write,
            attempt.build,
            attempt.changed_rows,
            writes_ahead=engine.writes_ahead,
        )
    failpoints.hit("merge.before_branch_delete")
    deleted, trouble = None, None
    if request.delete_branch:
        deleted, trouble = True, None
        try:
            request.may_delete()
            # Delete only what was merged: a commit that arrived since then keeps the branch.
            context.lifecycle.delete(
                request.source, request.actor_id, only_at=attempt.theirs.head_commit_id
            )
        except OmnigraphError as error:  # the merge is done, so it must not look as if it failed
            deleted, trouble = False, error.message
    return MergeResult(
        request.source,
        request.target,
        attempt.outcome.value,
        receipt.commit,
        deleted,
        trouble,
        engine.name,
        engine.reason,
        receipt.repeated,
    )


def preview_merge(
    context: MergeContext, request: MergeRequest, shown: Collection[str] | None = None
) -> MergePreview:
    """What `merge_branches` would do now to the types `shown` (None: all); nothing is written.

    The limits of a preview count only these types, so they tell nothing about others.
    """
    with Scratch() as scratch:
        store = context.reader.store
        attempt = _Attempt(context, request, scratch)
        ours = context.reader.snapshot(*context.reader.branch(request.target))
        merged = attempt.merge(ours, LocalRowMerger(store, scratch), shown)
        changes = _changes(store, merged, shown) if merged else iter(())
        first, more = take(changes, MOST_CHANGES)
        findings = merged.findings if merged else MergeFindings()
        return MergePreview(
            request.source,
            request.target,
            attempt.outcome.value,
            findings.conflicts,
            ChangePage(first),
            findings.conflict_count,
            more_changes=more,
        )


def require_scope(judge: WriteJudge | None, ours: Snapshot, merged: MergedSides[OutputT]) -> None:
    """Refuse a merge that touches more than its actor may change, or tells what it may not see.

    Rows of both sides are mixed, so the actor must be allowed to change the whole of every type.
    """
    if judge is None:
        return
    judge.require_whole(ours, merged.touched_types)
    judge.require_seen(ours, merged.findings.types)


def run_merge(
    transaction: Transaction,
    request: WriteRequest,
    build: Build,
    changed_rows: int | None,
    *,
    writes_ahead: bool = False,
) -> WriteReceipt:
    """Commit in turn with other writers, or beside them if many rows changed.

    A large merge is computed while others write. It is computed again, in turn, only if another
    writer moved the branch during the merge. `changed_rows` is None when the number is not known.
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


class _Attempt:
    """One merge; both heads are read again after every lost race."""

    def __init__(self, context: MergeContext, request: MergeRequest, scratch: Scratch) -> None:
        self._context = context
        self._request = request
        self._scratch = scratch
        target, state = context.reader.branch(request.target)
        if self._read_source() == target:
            raise InvalidArgument(f"{request.source!r} cannot be merged into itself")
        lineage = Lineage(context.reader, (state, self.theirs))
        self.changed_rows = count_between(lineage, state.head_commit_id, self.theirs.head_commit_id)
        self.engine = context.choose_engine(self.changed_rows)
        self.outcome = Outcome.ALREADY_UP_TO_DATE
        self._merged: MergedSides[TableOutput] | None = None
        self._lineage: Lineage | None = None

    def _read_source(self) -> BranchRef:
        ref, self.theirs = self._context.reader.branch(self._request.source)
        self._their_snapshot = self._context.reader.snapshot(ref, self.theirs)
        return ref

    def own_tables(self) -> None:
        """Fork the tables that the target shares with another branch and that differ in theirs.

        Workers write files of the target's own tables, because files belong to one table branch.
        """
        reader, request = self._context.reader, self._request
        ref, state = reader.branch(request.target)
        lineage = Lineage(reader, (state, self.theirs))
        ours, theirs = state.head_commit_id, self.theirs.head_commit_id
        if best_common_ancestors(lineage, (ours,), theirs) == [theirs]:
            return
        pins = self._their_snapshot.tables
        foreign = tuple(
            key
            for key, pin in state.tables.items()
            if pin.owner != ref.incarnation and key in pins and not same_content(pin, pins[key])
        )
        if foreign:
            fork = WriteRequest(request.target, "merge", foreign, actor_id=request.actor_id)
            self._context.transaction.run(fork, lambda _: ChangeSet(()))

    def tables(self, ours: Snapshot) -> tuple[TableKey, ...]:
        """Merge the rows, and say which tables of ours the commit will write."""
        reader = self._context.reader
        owner = reader.ref(self._request.target).incarnation
        rows = self.engine.start(reader.store, self._scratch, owner)
        merged = self._merged = self.merge(ours, rows)
        if merged is None:
            return ()
        require_scope(self._request.judge, ours, merged)
        merged.refuse_conflicts(source=self._request.source, target=self._request.target)
        return merged.tables

    def build(self, ours: Snapshot) -> ChangeSet:
        """The change set of what `tables` merged; the tables are ours to write by now."""
        merged, lineage = self._merged, self._lineage
        if merged is None or lineage is None:
            return ChangeSet(())
        store, theirs = self._context.reader.store, self._their_snapshot
        accepted = self._context.reader.schemas.read(theirs.schema_id)
        schema = merged.schema_change(store, ours.catalog, accepted)
        failpoints.hit("merge.after_rows")
        head = self._merged_head(lineage, merged, ours.graph_commit_id)
        failpoints.hit("merge.after_history")
        return ChangeSet(merged.effects(store, ours), schema=schema, merged=head)

    def merge(
        self, ours: Snapshot, rows: RowMerger[OutputT], shown: Collection[str] | None = None
    ) -> MergedSides[OutputT] | None:
        """None when ours already has every commit of theirs."""
        reader = self._context.reader
        # Read the source again: after a long wait its old head could be removed during the merge.
        self._read_source()
        _, state = reader.branch(self._request.target)
        lineage = self._lineage = Lineage(reader, (state, self.theirs))
        our_id, their_id = ours.graph_commit_id, self.theirs.head_commit_id
        found = best_common_ancestors(lineage, (our_id,), their_id)
        bases = require_common(found, our_id, their_id)
        if bases == [their_id]:
            self.outcome = Outcome.ALREADY_UP_TO_DATE
            return None
        self.outcome = Outcome.FAST_FORWARD if bases == [our_id] else Outcome.MERGED
        storage = MergeStorage(reader.store, lineage, self._scratch)
        sides = Sides(
            base=common_ancestor(storage, our_id, their_id),
            ours=SideContent(ours),
            theirs=SideContent(self._their_snapshot),
        )
        decisions = self._request.decisions
        return merge_sides(storage, sides, decisions, rows, shown)

    def _merged_head(
        self, lineage: Lineage, merged: MergedSides[TableOutput], our_id: str
    ) -> MergedHead:
        """The second parent, with the commits that only the source has.

        The target keeps these commits, so that its history survives the deletion of the source.
        """
        head = self.theirs.head_commit_id
        theirs_only = only_theirs(lineage, our_id, head)
        newest_first = []
        for stored in lineage.first_parents(head):
            if stored.commit_id not in theirs_only:
                break
            newest_first.append(stored)
        page = CommitPage(tuple(reversed(newest_first)), tuple(self.theirs.tables.values()))
        context = self._context
        page_id = context.clock.new_ulid()
        context.reader.store.files.put(history_object(page_id), encode_page(page))
        fast_forward = self.outcome is Outcome.FAST_FORWARD
        storage = MergeStorage(context.reader.store, lineage, self._scratch)
        batches = self._new_batches()
        return MergedHead(
            head,
            lineage.commit(head).created_at,
            page_id,
            fast_forward,
            differs=()
            if fast_forward
            else _differences_from_theirs(storage, merged, context.history, context.clock),
            batches=batches,
            carried=self._carried(lineage, batches),
        )

    def _new_batches(self) -> tuple[StreamBatch, ...]:
        """The marks of theirs that are ahead of ours.

        The target then has all rows of these batches, so it must not take them again.
        """
        _, ours = self._context.reader.branch(self._request.target)
        return tuple(
            StreamBatch(stream, mark.batch)
            for stream, mark in self.theirs.streams.items()
            if stream not in ours.streams or ours.streams[stream].batch < mark.batch
        )

    def _carried(self, lineage: Lineage, batches: Iterable[StreamBatch]) -> dict[str, Any]:
        """What the commits of these batches recorded, because the new marks name the merge."""
        found = {}
        for batch in batches:
            stored = lineage.find(self.theirs.streams[batch.stream].commit_id)
            details = stream_details(stored.commit, batch.stream) if stored else None
            if details is not None:
                found[batch.stream] = details
        return found


def _differences_from_theirs(
    storage: MergeStorage,
    merged: MergedSides[TableOutput],
    history: HistorySettings,
    clock: Clock,
) -> tuple[TableChanges, ...] | None:
    """Ids in which the result may differ from theirs, recorded for later walks of the history.

    Where ours has what the base has, the result is what theirs has. So the result can differ from
    theirs only in the ids that ours changed since the base, and in those that a broken rule forced.
    None when ours has no record of its changes: a scan is not worth it, later walks take the first
    parent.
    """
    sides = merged.sides
    base, ours = sides.base.snapshot, sides.ours.snapshot
    changed = DifferingIds(storage.store, storage.lineage, base, ours, storage.scratch)
    pairs = {pair.identity: pair for pair in differing_types(sides.base, sides.ours)}
    names = {identity_of(e): e.table_key for e in merged.catalog.catalog.entity_types()}
    found = []
    for entity in ours.catalog.entity_types():
        identity = identity_of(entity)
        key = names.get(identity)
        if key is None:
            continue
        if not _in_one_place(sides, identity) or _keeps_more(merged, identity):
            found.append(TableChanges(key, 0, 0, 0, ids=None))
            continue
        pair = pairs.get(identity)
        runs = IdRuns(storage.scratch) if pair is None else changed.recorded(pair)
        if runs is None:
            return None
        sides.add_overlay_ids(runs, identity)
        runs.add(pa.array(merged.forced_ids(key), pa.string()))
        writer = ChangeListWriter(storage.scratch.new_file(".arrow"))
        for ids in runs.chunks():
            writer.add(Op.UPDATE, ids)
        listed = record_ids(key, writer.finish(), storage.store.files, history, clock)
        if listed.updated:
            found.append(listed)
    return tuple(found)


def _keeps_more(merged: MergedSides[TableOutput], identity: TypeIdentity) -> bool:
    """Theirs dropped a property, and it stays with the values that the base has, too."""
    base, theirs = (side.of(identity).table for side in (merged.sides.base, merged.sides.theirs))
    kept = next(
        (e for e in merged.catalog.catalog.entity_types() if identity_of(e) == identity), None
    )
    if base is None or theirs is None or kept is None:
        return False
    old, now = ({p.identity for p in table.entity.properties} for table in (base, theirs))
    return any(p.identity in old and p.identity not in now for p in kept.properties)


def _in_one_place(sides: Sides, identity: TypeIdentity) -> bool:
    """False for a type that was created twice: it has two tables, and their ids are unrelated."""
    tables = [side.of(identity).table for side in sides.all]
    return len({table.pin.location if table else None for table in tables}) == 1


def _changes(
    store: Store, merged: MergedSides[LocalOutput], shown: Collection[str] | None
) -> Iterator[Change]:
    """What a merge would change in ours, in the order of a diff."""
    outputs = [o for o in merged.outputs if shown is None or o.entity.name in shown]
    for output in sorted(outputs, key=lambda o: sort_key(o.entity.table_key)):
        ours = merged.sides.ours.of(identity_of(output.entity))
        written, deleted = _written(store, ours, output), _deleted(store, ours, output)
        yield from heapq.merge(written, deleted, key=lambda change: change.id)


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
    type_ref = ChangedType(output.entity.identity, output.entity.name)
    return Change(output.entity.table_key.kind.value, type_ref, entity_id, op.value, before, after)
