"""The one write path: capture, fork, build, stage, arm, revalidate, advance, publish, disarm.

Every change of rows and all maintenance of tables comes through here. A failure before *arm* leaves
no trace. From *arm* on, the intent describes the write completely, so any process that finds it can
finish or undo the write.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph import failpoints, yielding
from omnigraph.commit.arming import Arming, IntentHold, hold_intent
from omnigraph.commit.creation import accept_schema, fork_unowned
from omnigraph.commit.group import MOST_WRITES, GoAlone, GroupCommit, MaybePublished, QueuedWrite
from omnigraph.commit.intents import Intent, IntentBoard, IntentKind, PostedIntent
from omnigraph.commit.queues import BranchQueues, ThreadQueue, Ticket
from omnigraph.commit.request import (
    Build,
    ClaimsOutdated,
    WriteReceipt,
    WriteRequest,
    draft_of,
    judged,
    receipt_of,
    require_claims,
    require_declared,
    resources_of,
)
from omnigraph.commit.restore import tag_orphan, undo_to_pins
from omnigraph.commit.schema_lease import SchemaLease
from omnigraph.commit.settling import outcome_unknown, publish_until_known, receipt_from
from omnigraph.commit.staging import KnownIds, MayExist, StagedTable, record_changes, stage
from omnigraph.errors import (
    ExpectedVersionMismatch,
    OmnigraphError,
    OutcomeUnknown,
    StorageFailure,
    WriterFenced,
)
from omnigraph.lance_store.advance import HeadMoved, advance
from omnigraph.lance_store.staging.rebase import rebase
from omnigraph.lance_store.store import Store
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.changed_ids import ChangedIds
from omnigraph.manifest.publication import CommitDraft, Publication, unmet_requirement
from omnigraph.manifest.publisher import Published, Publisher, Repeated
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import CARRIED, BranchRef, Commit, TablePin
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.stored_columns import require_columns, same_columns
from omnigraph.progress import tell
from omnigraph.settings.models import Settings
from omnigraph.tracing import span
from omnigraph.values.clock import Clock
from omnigraph.writes.changeset import ChangeSet, MergedHead

logger = logging.getLogger(__name__)

_RESTAGE_LIMIT = 100
_RECLAIM_LIMIT = 10

Observer = Callable[[Commit], None]
"""Called with every commit that a transaction makes. It must neither fail nor wait."""


class _MovedPhysically(Exception):
    """The tables have the same rows at another version: stage again, the caller sees no error."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Everything up to *arm*: staged writes and the publication that would make them visible."""

    ref: BranchRef
    request: WriteRequest
    staged: tuple[StagedTable, ...]
    publication: Publication
    began_at: int


class Transaction:
    """Runs write requests against one graph."""

    def __init__(
        self,
        reader: ManifestReader,
        publisher: Publisher,
        board: IntentBoard,
        arming: Arming,
        settings: Settings,
        clock: Clock,
        observer: Observer | None = None,
    ) -> None:
        self._reader = reader
        self.store: Store = reader.store
        self._publisher = publisher
        self._board = board
        self._arming = arming
        self._settings = settings
        self._clock = clock
        self._observer = observer
        self._threads = ThreadQueue()
        self._known_ids = KnownIds()
        self._processes = BranchQueues(
            self.store, clock, settings.write.lease_seconds, board.others
        )
        self._groups = GroupCommit(
            reader, publisher, board, arming, settings, clock, self._known_ids
        )

    def run(self, request: WriteRequest, build: Build) -> WriteReceipt:
        """Commit the write, or raise.

        After `OutcomeUnknown` the write may still be committed by recovery. After any other error
        nothing has changed.
        """
        operation_id = self._clock.new_ulid()
        if request.long_build:
            receipt = self._run_holding_cleanup_off(request, build, operation_id)
        else:
            with yielding.short_write():
                receipt = self._run_attempts(request, build, operation_id)
        if self._observer is not None and receipt.commit is not None and not receipt.repeated:
            self._observer(receipt.commit)
        return receipt

    def schema_lease(self, branch: str, actor_id: str | None) -> IntentHold:
        """Held while the schema of a branch is changed, so that a second change is refused."""
        lease = SchemaLease(self._arming, self._settings.write.lease_seconds)
        return lease.hold(self._reader.ref(branch), actor_id)

    def cleanup_hold(self, branch: str, actor_id: str | None) -> IntentHold:
        """Held while files are written for a branch before the transaction that adopts them."""
        operation_id = self._clock.new_ulid()
        ref = self._reader.ref(branch)
        return IntentHold(
            self._board, hold_intent(ref, actor_id, operation_id, self._settings.write)
        )

    def preview(self, request: WriteRequest, build: Build) -> ChangeSet | WriteReceipt:
        """The changes that `run` would stage now; it stages and commits nothing.

        A receipt if the write was committed before.
        """
        ref, state = self._reader.branch(request.branch)
        bare = self._bare(request, state, self._clock.new_ulid())
        receipt = self._earlier_receipt(request, state, bare)
        if receipt is not None:
            return receipt
        _require(state, bare, ref)
        snapshot = self._reader.snapshot(ref, state)
        return judged(request, snapshot, build(snapshot))

    def _run_holding_cleanup_off(
        self, request: WriteRequest, build: Build, operation_id: str
    ) -> WriteReceipt:
        ref = self._reader.ref(request.branch)
        intent = hold_intent(ref, request.actor_id, operation_id, self._settings.write)
        # A running cleanup may have listed old files as garbage: `arm` waits until it has ended.
        since = request.staged_since
        old = since is not None and outstayed(since, self._clock, self._settings)
        with IntentHold(self._board, intent, self._arming.arm if old else None) as hold:

            def guarded(snapshot: Snapshot) -> ChangeSet:
                changes = build(snapshot)
                hold.check()
                return changes

            return self._run_attempts(request, guarded, operation_id)

    def _run_attempts(self, request: WriteRequest, build: Build, operation_id: str) -> WriteReceipt:
        reprepared = restaged = reclaimed = 0
        while True:
            try:
                return self._attempt(request, build, operation_id)
            except _MovedPhysically:
                restaged += 1
                if restaged > _RESTAGE_LIMIT:
                    raise ExpectedVersionMismatch(
                        "maintenance kept moving the tables of this write; repeat it"
                    ) from None
            except ClaimsOutdated as outdated:
                reclaimed += 1
                if reclaimed > _RECLAIM_LIMIT:
                    raise ExpectedVersionMismatch(
                        "the schema kept changing while this write was prepared; repeat it",
                        table="schema",
                    ) from None
                needed = outdated.needed
                request = replace(request, tables=needed.tables, reads=needed.reads)
            except ExpectedVersionMismatch:
                reprepared += 1
                if not request.repreparable or reprepared > self._settings.write.reprepare_limit:
                    raise

    def _attempt(self, request: WriteRequest, build: Build, operation_id: str) -> WriteReceipt:
        if request.long_build and not request.in_turn:
            prepared = self._traced_prepare(request, build, operation_id)
            if not isinstance(prepared, _Prepared):
                return prepared
            with self._turn(request):
                return self._conclude(self._carried_over(prepared, operation_id), operation_id)
        if not request.small:
            with self._turn(request), yielding.awaited() if request.long_build else nullcontext():
                return self._make(request, build, operation_id)
        try:
            return self._turn_or_ride(request, build, operation_id)
        except GoAlone as left_out:
            made = self._made_by_group(request, left_out.maybe)
            return made or self._attempt(replace(request, small=False), build, operation_id)

    def _make(self, request: WriteRequest, build: Build, operation_id: str) -> WriteReceipt:
        prepared = self._traced_prepare(request, build, operation_id)
        if not isinstance(prepared, _Prepared):
            return prepared
        return self._conclude(prepared, operation_id)

    def _carried_over(self, prepared: _Prepared, operation_id: str) -> _Prepared:
        """Upkeep on the tables as they are now, if what was made of their files is still right.

        Otherwise it is left as it is, and `_revalidate` refuses it.
        """
        request, publication = prepared.request, prepared.publication
        if request.kind is not IntentKind.MAINTENANCE:
            return prepared
        state = self._reader.state(prepared.ref)
        if state.deleted or state.schema_id != publication.on_schema_id:
            return prepared
        staged = []
        for table in prepared.staged:
            pin = state.tables.get(table.pin.key)
            write = None if pin is None else rebase(self.store, table.write, pin.at)
            if pin is None or write is None:
                return prepared
            staged.append(replace(table, pin=pin, write=write))
        moves = tuple(table.move(operation_id) for table in staged)
        current = replace(publication, based_on=state.version, moves=moves)
        return replace(prepared, staged=tuple(staged), publication=current)

    def _turn_or_ride(self, request: WriteRequest, build: Build, operation_id: str) -> WriteReceipt:
        """Wait for a turn, or for a writer that takes this write along with its own."""
        ref = self._reader.ref(request.branch)
        write = QueuedWrite(request, build, operation_id)
        ticket = Ticket(resources_of(request, ref), write)
        with self._threads.turn_or_ride(ticket) as inside:
            if inside:
                with self._processes.turn(ref):
                    others = self._threads.take_along(ticket, MOST_WRITES - 1)
                    if not others:
                        return self._make(request, build, operation_id)
                    self._lead(ref, write, others)
        return write.result()

    def _lead(self, ref: BranchRef, own: QueuedWrite, others: Sequence[Ticket]) -> None:
        try:
            carried = [ticket.write for ticket in others if ticket.write is not None]
            self._groups.commit(ref, [own, *carried])
        finally:
            settled = [t for t in others if t.write is not None and t.write.is_settled]
            self._threads.put_down(others, settled)

    def _made_by_group(
        self, request: WriteRequest, maybe: MaybePublished | None
    ) -> WriteReceipt | None:
        """The receipt, if the group of this write was published although its leader failed."""
        if maybe is None:
            return None
        try:
            self._arming.outwait(maybe.intent)
            state = self._reader.state(maybe.intent.branch)
            commit = self._publisher.find_commit(state, maybe.commit_id, maybe.based_on)
        except OmnigraphError as error:
            raise outcome_unknown(maybe.intent.intent_id, maybe.commit_id, error) from error
        return None if commit is None else receipt_of(request.branch, commit)

    def _traced_prepare(
        self, request: WriteRequest, build: Build, operation_id: str
    ) -> _Prepared | WriteReceipt:
        with span("commit prepare", operation=request.operation, branch=request.branch):
            return self._prepare(request, build, operation_id)

    @contextmanager
    def _turn(self, request: WriteRequest) -> Iterator[None]:
        """Queue with the threads of this process, then with the processes of this host."""
        ref = self._reader.ref(request.branch)
        with self._threads.turn(resources_of(request, ref)), self._processes.turn(ref):
            yield

    def _prepare(
        self, request: WriteRequest, build: Build, operation_id: str
    ) -> _Prepared | WriteReceipt:
        began_at = self._clock.now_micros()
        ref, state = self._reader.branch(request.branch)
        bare = self._bare(request, state, operation_id)
        receipt = self._earlier_receipt(request, state, bare)
        if receipt is not None:
            return receipt
        _require(state, bare, ref)
        if request.tables_of is not None:
            tables = request.tables_of(self._reader.snapshot(ref, state))
            request = replace(request, tables=tables)
        state = self._fork(ref, state, request)
        snapshot = self._reader.snapshot(ref, state)
        require_claims(request, snapshot.catalog)
        changes = judged(request, snapshot, build(snapshot))
        staged = self._stage(request, state, snapshot, changes)
        if not staged and changes.schema is None and changes.merged is None:
            return receipt_of(ref.name, None)
        recorded = (
            record_changes(s, self.store, self._settings.history, self._clock) for s in staged
        )
        draft = _merging(draft_of(request, operation_id), changes.merged)
        draft = replace(draft, changes=tuple(c for c in recorded if c is not None))
        publication = replace(
            bare,
            commit=draft if request.kind is IntentKind.WRITE else None,
            moves=tuple(s.move(operation_id) for s in staged),
            reads=tuple((k, snapshot.pin(k).content_epoch) for k in request.reads),
        )
        if changes.schema is not None:
            publication = accept_schema(
                self._reader,
                changes,
                publication,
                state.tables,
                ref=ref,
                commit_id=operation_id,
                settings=self._settings.history,
                clock=self._clock,
            )
        failpoints.hit("commit.after_stage")
        return _Prepared(ref, request, staged, publication, began_at)

    def _bare(self, request: WriteRequest, state: BranchState, operation_id: str) -> Publication:
        """A publication with the conditions of the request, before anything is staged."""
        return Publication(
            self._clock.new_ulid(),
            state.version,
            commit=draft_of(request, operation_id),
            if_commit=state.head_commit_id if request.on_exact_head else request.if_commit,
            on_schema_id=state.schema_id,
        )

    def _fork(self, ref: BranchRef, state: BranchState, request: WriteRequest) -> BranchState:
        """Make the branch own the tables.

        Nothing was built yet, so when another writer was faster, the attempt just starts again.
        """
        try:
            return fork_unowned(
                self.store, self._publisher, self._clock, ref, state, request.tables
            )
        except ExpectedVersionMismatch as error:
            raise _MovedPhysically from error

    def _stage(
        self, request: WriteRequest, state: BranchState, snapshot: Snapshot, changes: ChangeSet
    ) -> tuple[StagedTable, ...]:
        require_declared(request, changes)
        if request.kind is IntentKind.WRITE:
            for effect in changes.effects:
                require_columns(self.store, snapshot, snapshot.pin(effect.key))
        may_exist: MayExist = self._known_ids.among(self.store, state.commits)
        if request.tables_of is not None:
            may_exist = _any_may_exist  # a merge: most of its ids exist
        staged = (stage(self.store, snapshot.pin(e.key), e, may_exist) for e in changes.effects)
        return tuple(s for s in staged if s is not None)

    def _conclude(self, prepared: _Prepared, operation_id: str) -> WriteReceipt:
        ref, request = prepared.ref, prepared.request
        intent = Intent(
            intent_id=prepared.publication.intent_id,
            operation_id=operation_id,
            kind=request.kind,
            branch=ref,
            resources=resources_of(request, ref),
            lease_seconds=self._settings.write.lease_seconds,
            actor_id=request.actor_id,
            publication=prepared.publication,
        )
        # The last moment at which a listener can stop the write.
        tell("publishing", stage="publish")
        self.store.flush_to_disk()
        with span("commit arm"):
            posted = self._arming.arm(intent)
        try:
            if not request.long_build and outstayed(prepared.began_at, self._clock, self._settings):
                raise _MovedPhysically
            receipt = self._revalidate(request, ref, posted)
        except BaseException:
            self._arming.withdraw(posted)
            raise
        if receipt is not None:
            self._arming.withdraw(posted)
            return receipt
        try:
            failpoints.hit("commit.after_revalidate")
            receipt = self._advance_and_publish(request, prepared, posted)
        finally:
            # Give up the lock on the intent: when the outcome is not settled, the object is
            # still there and another process can recover it at once.
            posted.release()
        return receipt

    def _revalidate(
        self, request: WriteRequest, ref: BranchRef, posted: PostedIntent
    ) -> WriteReceipt | None:
        """Compare the branch with what the write was prepared on. No table has moved yet."""
        state = self._reader.state(ref)
        publication = posted.intent.publication
        assert publication is not None
        receipt = self._earlier_receipt(request, state, publication)
        if receipt is None:
            if request.on_exact_head and publication.if_commit != state.head_commit_id:
                raise ExpectedVersionMismatch(
                    f"branch {ref.name!r} moved while this was prepared; repeat it",
                    table="branch",
                    expected=publication.if_commit,
                    actual=state.head_commit_id,
                )
            _require(state, publication, ref)
        return receipt

    def _advance_and_publish(
        self, request: WriteRequest, prepared: _Prepared, posted: PostedIntent
    ) -> WriteReceipt:
        publication = posted.intent.publication
        assert publication is not None
        with span("commit advance", tables=len(prepared.staged)):
            self._advance_all(prepared, posted)
        failpoints.hit("commit.before_publish")
        try:
            published = publish_until_known(self._publisher, prepared.ref, publication, self._clock)
        except (WriterFenced, OutcomeUnknown):
            raise
        except OmnigraphError:
            self._give_up(posted.intent, prepared.staged)
            raise
        if isinstance(published, Repeated):
            self._undo(posted.intent, prepared.staged)
        else:
            self._remember_ids(prepared, publication)
        failpoints.hit("commit.after_publish")
        self._disarm(posted.intent)
        failpoints.hit("commit.after_disarm")
        if isinstance(published, Published):
            self._publisher.trim(prepared.ref, published.state.version)
        return receipt_from(request, published)

    def _advance_all(self, prepared: _Prepared, posted: PostedIntent) -> None:
        advanced: list[StagedTable] = []
        for staged in prepared.staged:
            try:
                outcome = advance(self.store, staged.write)
            except StorageFailure:
                self._give_up(posted.intent, advanced)
                raise
            if isinstance(outcome, HeadMoved):
                self._stop_if_fenced(posted.intent)
                # The intent excludes other writers of this table, so the versions above the pin
                # were never published: restore the pinned rows and start again from there.
                orphan = outcome.head - (staged.write.steps if outcome.landed_on_top else 0)
                tag_orphan(self.store, replace(outcome.at, version=orphan), posted.intent)
                self._undo(posted.intent, [*advanced, staged])
                self._disarm(posted.intent)
                raise _MovedPhysically
            advanced.append(staged)
            failpoints.hit("commit.after_advance_first")
        failpoints.hit("commit.after_advance")

    def _undo(self, intent: Intent, advanced: Sequence[StagedTable]) -> None:
        pins = [staged.pin for staged in advanced]
        undo_to_pins(self._reader, self._publisher, intent, pins)

    def _stop_if_fenced(self, intent: Intent) -> None:
        state = self._reader.state(intent.branch)
        if intent.intent_id in state.cancelled or self._board.is_gone_or_taken(intent):
            raise WriterFenced(
                "this write outlived its lease and another process rolled it back; repeat it",
                operation_id=intent.intent_id,
            )

    def _disarm(self, intent: Intent) -> None:
        try:
            self._board.remove(intent)
        except StorageFailure as error:
            # The write is settled; the next recovery finds a finished intent and removes it.
            logger.warning("intent %s could not be removed: %s", intent.intent_id, error)

    def _earlier_receipt(
        self, request: WriteRequest, state: BranchState, publication: Publication
    ) -> WriteReceipt | None:
        earlier = self._publisher.published_before(state, publication)
        if earlier is None:
            return None
        return receipt_from(request, earlier)

    def _remember_ids(self, prepared: _Prepared, publication: Publication) -> None:
        for staged, move in zip(prepared.staged, publication.moves, strict=False):
            if isinstance(staged.changed, ChangedIds):
                self._known_ids.committed(staged.pin, move.after, staged.changed.inserted)
            if isinstance(staged.changed, ChangedIds) and publication.schema_id is None:
                same_columns(self.store, publication.on_schema_id, staged.pin, move.after)

    def _give_up(self, intent: Intent, advanced: Sequence[StagedTable]) -> None:
        try:
            self._stop_if_fenced(intent)
            self._undo(intent, advanced)
        except StorageFailure as error:
            # The intent stays. Recovery may find every table advanced and finish the write, so
            # the caller must not be told that it was rejected.
            assert intent.publication is not None
            draft = intent.publication.commit
            commit_id = draft.commit_id if draft is not None else None
            raise outcome_unknown(intent.intent_id, commit_id, error) from error
        self._disarm(intent)


def _any_may_exist(_: TablePin, ids: pa.Array) -> pa.Array:
    return ids


def _require(state: BranchState, publication: Publication, ref: BranchRef) -> None:
    unmet = unmet_requirement(state, publication, ref.name)
    if unmet is not None:
        raise _MovedPhysically if unmet.physical else unmet.error


def _merging(draft: CommitDraft, merged: MergedHead | None) -> CommitDraft:
    if merged is None:
        return draft
    return replace(
        draft,
        merged_parent_commit_id=merged.commit_id,
        merged_history=merged.history,
        equals_merged=merged.fast_forward,
        differs_from_merged=merged.differs,
        not_before=merged.created_at,
        carried=merged.batches,
        details={**draft.details, CARRIED: dict(merged.carried)}
        if merged.carried
        else draft.details,
    )


def outstayed(began_at: int, clock: Clock, settings: Settings) -> bool:
    """Whether files that were staged since `began_at` are so old that cleanup may remove them.

    Ask after the intent was posted, because cleanup leaves files alone while an intent is posted.
    A process that was stopped for longer than this stages again. The limit is half the age at
    which cleanup removes files, so that clocks and file times may differ.
    """
    age = (clock.now_micros() - began_at) / 1_000_000
    return age > max(settings.maintenance.minimum_age_seconds / 2, settings.write.lease_seconds)
