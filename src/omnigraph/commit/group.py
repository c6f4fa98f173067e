"""Group commit: small writes that wait for each other share an intent and a publication.

The writes are built one after the other on an armed intent. Each is built on the tables as the
writes before it left them, and advances them by its own versions (`group_advances`). One
publication then shows all of their commits. So each write keeps its commit, its conditions, its
error and its versions.

The intent of a group is posted before the writes are built, so it cannot say what they will do.
It names the tables and their pins. Recovery therefore finishes a published group and rolls an
unpublished one back as a whole; it never rolls a group forward.

A write that fails by itself (its build, its checks, its conditions) gets its error, and the others
go on without it. When the group fails as a whole, what it did is undone and every write is made
alone.
"""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from omnigraph import failpoints
from omnigraph.commit.arming import Arming, IntentHold
from omnigraph.commit.creation import fork_unowned
from omnigraph.commit.group_advances import GroupAdvances, NotAdvanced
from omnigraph.commit.intents import Intent, IntentBoard, IntentKind
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
from omnigraph.commit.settling import outcome_unknown, publish_until_known, receipt_from
from omnigraph.commit.staging import FoundEdit, KnownIds, find_edit, record_changes
from omnigraph.errors import OmnigraphError, OutcomeUnknown, WriterFenced
from omnigraph.lance_store.store import Store
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.publication import (
    CommitDraft,
    GroupedCommit,
    Publication,
    TableMove,
    wrong_head,
)
from omnigraph.manifest.publisher import Published, Publisher, Repeated
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import BranchRef, Commit, TablePin
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.stored_columns import require_columns
from omnigraph.settings.models import Settings
from omnigraph.values.clock import Clock
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.changeset import ChangeSet, EditRows

logger = logging.getLogger(__name__)

MOST_WRITES = 64
_LONGEST_SECONDS = 1.0
"""A group begins no further write after this time. A part of the lease bounds it, too."""
_LEASE_PART = 4
_LEASES_OF_PATIENCE = 2
"""A group that waits longer for the intents of other processes is given up."""


@dataclass(frozen=True, slots=True)
class MaybePublished:
    """A commit of a group whose publication was tried, with no answer."""

    commit_id: str
    based_on: int
    intent: Intent


class GoAlone(Exception):
    """The group did not make this write: make it by itself, unless `maybe` was published."""

    def __init__(self, maybe: MaybePublished | None = None) -> None:
        self.maybe = maybe


class QueuedWrite:
    """A small write in the queue, which a group may carry, and what became of it."""

    __slots__ = ("_context", "_outcome", "build", "operation_id", "request")

    def __init__(self, request: WriteRequest, build: Build, operation_id: str) -> None:
        self.request = request
        self.build = build
        self.operation_id = operation_id
        self._context = contextvars.copy_context()
        self._outcome: WriteReceipt | BaseException | None = None

    @property
    def is_settled(self) -> bool:
        return self._outcome is not None

    def settle(self, outcome: WriteReceipt | BaseException) -> None:
        if self._outcome is None:
            self._outcome = outcome

    def result(self) -> WriteReceipt:
        """The receipt, or the error of the write; raises `GoAlone` when the group made neither."""
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome

    def changes_on(self, snapshot: Snapshot) -> ChangeSet:
        """Built in the context of the thread that wants the write, though by another thread."""
        return self._context.run(self.build, snapshot)


class _Dissolved(Exception):
    """The group cannot go on, and nothing of it is left: every write is made alone."""


@dataclass(frozen=True, slots=True)
class GroupCommit:
    """Commits groups of small writes to one branch."""

    reader: ManifestReader
    publisher: Publisher
    board: IntentBoard
    arming: Arming
    settings: Settings
    clock: Clock
    known_ids: KnownIds

    @property
    def store(self) -> Store:
        return self.reader.store

    def commit(self, ref: BranchRef, writes: Sequence[QueuedWrite]) -> None:
        """Settle the writes. Those that a group has no time for are left as they are."""
        try:
            self._commit(ref, writes)
        except _Dissolved as dissolved:
            logger.debug("group on %s dissolved: %s", ref.name, dissolved)
            _all_alone(writes)
        except OmnigraphError as error:
            logger.info("group on %s given up: %s", ref.name, error)
            _all_alone(writes)
        except Exception:
            logger.exception("group on %s given up", ref.name)
            _all_alone(writes)
        except BaseException:
            # The thread that leads was interrupted. The other threads go on by themselves.
            _all_alone(writes)
            raise

    def _commit(self, ref: BranchRef, writes: Sequence[QueuedWrite]) -> None:
        state, admitted = self._admit(ref, writes)
        if not admitted:
            return
        intent = self._intent(ref, state, admitted)
        patience = min(self.arming.wait_limit_seconds, intent.lease_seconds * _LEASES_OF_PATIENCE)
        arming = replace(self.arming, wait_limit_seconds=patience)
        with IntentHold(self.board, intent, arming.arm) as hold:
            members = [
                _Member(write, grouped.draft)
                for write, grouped in zip(admitted, _planned(hold.intent), strict=True)
            ]
            work = _GroupWork(self, hold, members)
            failpoints.hit("group.after_arm")
            try:
                published = work.run(state)
            except BaseException:
                work.settle_unanswered()
                raise
            failpoints.hit("group.after_publish")
        failpoints.hit("group.after_disarm")
        if published is not None:
            self.publisher.trim(ref, published.state.version)

    def _admit(
        self, ref: BranchRef, writes: Sequence[QueuedWrite]
    ) -> tuple[BranchState, list[QueuedWrite]]:
        """The writes whose claims are right under the current schema, on tables of this branch."""
        found, state = self.reader.branch(ref.name)
        if found != ref:
            raise _Dissolved("the branch was deleted, and its name is used again")
        catalog = self.reader.snapshot(ref, state).catalog
        admitted = []
        for write in writes:
            try:
                require_claims(write.request, catalog)
                missing = [key for key in write.request.tables if key not in state.tables]
            except (ClaimsOutdated, OmnigraphError):
                missing = []
                write.settle(GoAlone())
            if missing:
                write.settle(GoAlone())
            if not write.is_settled:
                admitted.append(write)
        return fork_unowned(
            self.store, self.publisher, self.clock, ref, state, _tables_of(admitted)
        ), admitted

    def _intent(self, ref: BranchRef, state: BranchState, writes: Sequence[QueuedWrite]) -> Intent:
        resources = resources_of(writes[0].request, ref)
        for write in writes[1:]:
            resources = resources.joined(resources_of(write.request, ref))
        intent_id = self.clock.new_ulid()
        # New ids with each attempt: readers keep rows by the commit that made them, and the rows
        # of a later attempt may be others.
        drafts = (draft_of(write.request, self.clock.new_ulid()) for write in writes)
        actors = {write.request.actor_id for write in writes}
        return Intent(
            intent_id=intent_id,
            operation_id=min(write.operation_id for write in writes),
            kind=IntentKind.GROUP,
            branch=ref,
            resources=resources,
            lease_seconds=self.settings.write.lease_seconds,
            actor_id=actors.pop() if len(actors) == 1 else None,
            publication=Publication(
                intent_id,
                state.version,
                moves=tuple(_taken(state.tables[key]) for key in _tables_of(writes)),
                group=tuple(GroupedCommit(draft) for draft in drafts),
            ),
        )


def _all_alone(writes: Iterable[QueuedWrite]) -> None:
    for write in writes:
        write.settle(GoAlone())


def _planned(intent: Intent) -> tuple[GroupedCommit, ...]:
    assert intent.publication is not None
    return intent.publication.group


def _tables_of(writes: Iterable[QueuedWrite]) -> list[TableKey]:
    return sorted({key for write in writes for key in write.request.tables})


def _taken(pin: TablePin) -> TableMove:
    """A table that the group may move: recovery compares HEAD with the pin."""
    return TableMove(pin, pin.moved_to(pin.version + 1))


_Key = tuple[str, str | None, str]
"""An idempotency key belongs to an actor and an operation."""


@dataclass(slots=True)
class _Member:
    """One write of a group. Its outcome holds when the group is published."""

    write: QueuedWrite
    draft: CommitDraft
    moves: tuple[TableMove, ...] = ()
    outcome: WriteReceipt | BaseException | None = None
    same_as: str | None = None
    """The commit of the member that has used the same idempotency key."""

    @property
    def request(self) -> WriteRequest:
        return self.write.request

    @property
    def key(self) -> _Key | None:
        request = self.request
        if request.idempotency_key is None:
            return None
        return request.idempotency_key, request.actor_id, request.operation


@dataclass(slots=True)
class _GroupWork:
    """The work of one armed group: from the one look at the head to the one publication."""

    parts: GroupCommit
    hold: IntentHold
    members: list[_Member]
    done: list[_Member] = field(default_factory=list)
    """Members whose writes were tried; the others wait for the next group."""
    tables: dict[TableKey, TablePin] = field(default_factory=dict)
    """The pins as the members so far have left them."""
    head: str = ""
    keys: dict[_Key | None, str] = field(default_factory=dict)
    """Idempotency key -> the commit of this group that carries it."""
    publishing: Publication | None = None
    """The publication, from the moment on in which it may have become visible."""

    def run(self, admitted: BranchState) -> Published | None:
        parts = self.parts
        state = parts.reader.state(self.hold.intent.branch)
        self._require_same_places(admitted, state)
        self.tables, self.head = dict(state.tables), state.head_commit_id
        with GroupAdvances(parts.store, self.hold, state.tables) as advances:
            try:
                self._carry_all(state, advances)
                advances.finish()
            except NotAdvanced as stopped:
                advances.stop()
                self._undo(state, stopped)
                raise _Dissolved(str(stopped)) from stopped
        published = self._publish(state) if self._moved(state) else None
        self._settle(published)
        return published

    def _carry_all(self, state: BranchState, advances: GroupAdvances) -> None:
        clock, lease = self.parts.clock, self.hold.intent.lease_seconds
        until = clock.monotonic() + min(_LONGEST_SECONDS, lease / _LEASE_PART)
        for member in self.members:
            if self.done and clock.monotonic() > until:
                return
            self.done.append(member)
            self._carry(member, state, advances)
            failpoints.hit("group.after_member")

    def settle_unanswered(self) -> None:
        """The publication was tried and not answered: the writes find out whether it landed."""
        if self.publishing is None:
            return
        for member in self.done:
            member.write.settle(
                GoAlone(
                    MaybePublished(
                        member.draft.commit_id, self.publishing.based_on, self.hold.intent
                    )
                )
            )

    def _require_same_places(self, admitted: BranchState, state: BranchState) -> None:
        """The one revalidation. Versions may have moved, because nothing was built yet."""
        assert self.hold.intent.publication is not None
        if state.deleted or state.schema_id != admitted.schema_id:
            raise _Dissolved("the schema changed or the branch was deleted")
        for move in self.hold.intent.publication.moves:
            pin, expected = state.tables.get(move.expected.key), move.expected
            same = pin is not None and (pin.location, pin.branch, pin.owner) == (
                expected.location,
                expected.branch,
                expected.owner,
            )
            if not same:
                raise _Dissolved(f"{expected.key} is in another place")

    def _carry(self, member: _Member, state: BranchState, advances: GroupAdvances) -> None:
        """Build one write, and have its files written and its tables advanced, or note why not."""
        try:
            edits = self._prepare(member, state)
        except Exception as error:  # noqa: BLE001 - the caller of that write gets it
            # The fault of this write alone: nothing of it has moved.
            advances.check()
            member.outcome = error
            return
        if not edits:
            return
        parts, commit_id = self.parts, member.draft.commit_id
        history, clock = parts.settings.history, parts.clock
        changed = (record_changes(e, parts.store, history, clock) for e in edits)
        member.draft = replace(member.draft, changes=tuple(c for c in changed if c is not None))
        failpoints.hit("group.after_stage")
        self.hold.check()
        self.hold.leave_posted()
        advances.begin(edits)
        member.moves = tuple(TableMove(e.pin, e.after(commit_id)) for e in edits)
        for table, move in zip(edits, member.moves, strict=True):
            parts.known_ids.committed(table.pin, move.after, table.changed.inserted)
        self.tables = {**self.tables, **{move.after.key: move.after for move in member.moves}}
        self.head = commit_id
        if member.key is not None:
            self.keys[member.key] = commit_id

    def _prepare(self, member: _Member, state: BranchState) -> tuple[FoundEdit, ...]:
        """The edits of tables; none when the outcome of the member is known without a commit."""
        parts, request, ref = self.parts, member.request, self.hold.intent.branch
        bare = Publication(self.hold.intent.intent_id, state.version, commit=member.draft)
        earlier = parts.publisher.published_before(state, bare)
        if earlier is not None:
            member.outcome = receipt_from(request, earlier)
            return ()
        if member.key in self.keys:
            member.same_as = self.keys[member.key]
            return ()
        if request.if_commit not in (None, self.head):
            raise wrong_head(ref.name, request.if_commit, self.head)
        before = parts.reader.snapshot(ref, state)
        snapshot = replace(before, graph_commit_id=self.head, tables=self.tables)
        changes = judged(request, snapshot, member.write.changes_on(snapshot))
        require_declared(request, changes)
        for effect in changes.effects:
            require_columns(parts.store, before, state.tables[effect.key])
        if not changes.is_small(parts.settings.history.inline_ids):
            raise GoAlone
        may_exist = parts.known_ids.among(parts.store, state.commits)
        found = (
            find_edit(parts.store, self.tables[e.key], e, may_exist)
            for e in changes.effects
            if isinstance(e, EditRows)
        )
        edits = tuple(edit for edit in found if edit is not None)
        if not edits:
            member.outcome = receipt_of(request.branch, None)
        return edits

    def _undo(self, state: BranchState, stopped: NotAdvanced | None = None) -> None:
        """Write the rows from before the group back, of every table that it may have moved."""
        parts, intent = self.parts, self.hold.intent
        self.hold.renew()
        self.hold.check()
        if stopped is not None and stopped.orphan is not None:
            tag_orphan(parts.store, stopped.orphan, intent)
        moved = {key for key, pin in self.tables.items() if pin != state.tables[key]}
        pins = [state.tables[key] for key in sorted(moved)]
        undo_to_pins(parts.reader, parts.publisher, intent, pins)
        self.hold.may_go()

    def _moved(self, state: BranchState) -> bool:
        return self.head != state.head_commit_id

    def _publish(self, state: BranchState) -> Published:
        parts, intent = self.parts, self.hold.intent
        assert intent.publication is not None
        made = [member for member in self.done if member.moves]
        conditional = any(member.request.if_commit is not None for member in made)
        relied = {key for member in made for key in member.request.reads}
        taken = {move.expected.key for move in intent.publication.moves}
        publication = replace(
            intent.publication,
            based_on=state.version,
            moves=tuple(TableMove(state.tables[k], self.tables[k]) for k in sorted(taken)),
            group=tuple(GroupedCommit(member.draft, member.moves) for member in made),
            on_schema_id=state.schema_id,
            reads=tuple((k, state.tables[k].content_epoch) for k in sorted(relied - taken)),
            if_commit=state.head_commit_id if conditional else None,
        )
        failpoints.hit("group.before_publish")
        self.publishing = publication
        try:
            published = publish_until_known(
                parts.publisher, intent.branch, publication, parts.clock
            )
        except WriterFenced:
            self.publishing = None  # refused, so nothing was published
            raise
        except OutcomeUnknown as error:
            for member in made:
                commit_id = member.draft.commit_id
                member.write.settle(outcome_unknown(intent.intent_id, commit_id, error.__cause__))
            raise
        except OmnigraphError as error:
            self.publishing = None
            self._undo(state)
            raise _Dissolved(str(error)) from error
        if isinstance(published, Repeated):
            self.publishing = None
            self._undo(state)
            raise _Dissolved("an idempotency key was used by another process")
        self.hold.may_go()
        return published

    def _settle(self, published: Published | None) -> None:
        """Give every member that was tried its outcome: the group is visible, or moved nothing."""
        commits = published.group if published is not None else ()
        by_id = {commit.graph_commit_id: commit for commit in commits}
        for member in self.done:
            member.write.settle(self._outcome(member, by_id))

    def _outcome(
        self, member: _Member, commits: Mapping[str, Commit]
    ) -> WriteReceipt | BaseException:
        if member.outcome is not None:
            return member.outcome
        if member.same_as is None:
            return receipt_of(member.request.branch, commits[member.draft.commit_id])
        try:
            return receipt_from(member.request, Repeated(commits[member.same_as]))
        except OmnigraphError as conflict:
            return conflict
