"""A publication: what one swap of the manifest changes, and what it relies on.

`unmet_requirement` and `apply_publication` are pure; `manifest.publisher` does the swap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from omnigraph.errors import (
    ExpectedVersionMismatch,
    IdempotencyConflict,
    NotFound,
    PreconditionFailed,
    WriterFenced,
)
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.records import (
    BranchRef,
    Commit,
    PinChange,
    RecoveryAudit,
    StoredCommit,
    StreamBatch,
    StreamMark,
    TableChanges,
    TablePin,
    lists_from_json,
    lists_to_json,
)
from omnigraph.values.identifiers import TableKey

Json = dict[str, Any]

_KEPT_CANCELLATIONS = 64
_KEPT_STREAMS = 256
"""Number of streams with a mark; the stream without a batch for longest is forgotten first."""


REQUEST = "request"
"""The subject of `Commit.details` that has the fingerprint of a request with a key."""
FINGERPRINT = "fingerprint"


def fingerprint_of(details: Mapping[str, Any]) -> str | None:
    """The fingerprint of the request in the details of a commit."""
    request = details.get(REQUEST)
    return request.get(FINGERPRINT) if isinstance(request, Mapping) else None


def require_same_request(commit: Commit, key: str, fingerprint: str | None) -> None:
    """Refuse a key whose first request asked for something else."""
    first = fingerprint_of(commit.details)
    if fingerprint is not None and first is not None and first != fingerprint:
        raise IdempotencyConflict(
            f"the idempotency key {key!r} was used for another request, which made commit "
            f"{commit.graph_commit_id}: use a new key",
            key=key,
        )


@dataclass(frozen=True, slots=True)
class TableMove:
    """The pin of one table: where it must be now, and where it will be."""

    expected: TablePin
    after: TablePin
    transaction_uuid: str | None = None

    @property
    def renames(self) -> bool:
        return self.expected.key != self.after.key

    @property
    def only_renames(self) -> bool:
        """The type gets another name, and its dataset does not change."""
        return self.expected.at == self.after.at

    def to_json(self) -> Json:
        return {
            "expected": self.expected.to_json(),
            "after": self.after.to_json(),
            "transaction_uuid": self.transaction_uuid,
        }

    @staticmethod
    def from_json(data: Json) -> TableMove:
        return TableMove(
            TablePin.from_json(data["expected"]),
            TablePin.from_json(data["after"]),
            data["transaction_uuid"],
        )


@dataclass(frozen=True, slots=True)
class CommitDraft:
    """A commit before its parent and time are known. Its id is fixed before the first try."""

    commit_id: str
    operation: str
    actor_id: str | None = None
    message: str | None = None
    merged_parent_commit_id: str | None = None
    changes: tuple[TableChanges, ...] = ()
    idempotency_key: str | None = None
    recovery: RecoveryAudit | None = None
    merged_history: str | None = None
    equals_merged: bool = False
    differs_from_merged: tuple[TableChanges, ...] | None = None
    not_before: int = 0
    """The commit gets a later time than this, so that a merge is younger than both parents."""
    stream_batch: StreamBatch | None = None
    """The mark of the stream moves to this batch in the same swap."""
    carried: tuple[StreamBatch, ...] = ()
    """Batches that a merge brings: the marks of their streams move, but never back."""
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """`Commit.details`."""

    def to_json(self) -> Json:
        return {
            "commit_id": self.commit_id,
            "operation": self.operation,
            "actor_id": self.actor_id,
            "message": self.message,
            "merged_parent_commit_id": self.merged_parent_commit_id,
            "changes": [c.to_json() for c in self.changes],
            "idempotency_key": self.idempotency_key,
            "recovery": self.recovery.to_json() if self.recovery else None,
            "merged_history": self.merged_history,
            "equals_merged": self.equals_merged,
            "differs_from_merged": lists_to_json(self.differs_from_merged),
            "not_before": self.not_before,
            "stream_batch": asdict(self.stream_batch) if self.stream_batch else None,
            "carried": [asdict(batch) for batch in self.carried],
            "details": dict(self.details),
        }

    @staticmethod
    def from_json(data: Json) -> CommitDraft:
        audit, stream = data["recovery"], data.get("stream_batch")
        return CommitDraft(
            **{
                **data,
                "changes": tuple(TableChanges.from_json(c) for c in data["changes"]),
                "recovery": RecoveryAudit.from_json(audit) if audit else None,
                "differs_from_merged": lists_from_json(data.get("differs_from_merged")),
                "stream_batch": StreamBatch(**stream) if stream else None,
                "carried": tuple(StreamBatch(**batch) for batch in data.get("carried", ())),
            }
        )


@dataclass(frozen=True, slots=True)
class GroupedCommit:
    """One commit of a group: its draft, and where it moves tables from and to."""

    draft: CommitDraft
    moves: tuple[TableMove, ...] = ()

    def to_json(self) -> Json:
        return {"draft": self.draft.to_json(), "moves": [m.to_json() for m in self.moves]}

    @staticmethod
    def from_json(data: Json) -> GroupedCommit:
        moves = tuple(TableMove.from_json(m) for m in data["moves"])
        return GroupedCommit(CommitDraft.from_json(data["draft"]), moves)


@dataclass(frozen=True, slots=True)
class Publication:
    """Updates and requirements of one swap. Without a commit it changes no row."""

    intent_id: str
    based_on: int
    """The manifest version that the write was prepared on."""
    commit: CommitDraft | None = None
    moves: tuple[TableMove, ...] = ()
    created: tuple[TablePin, ...] = ()
    dropped: tuple[TableKey, ...] = ()
    schema_id: str | None = None
    on_schema_id: str | None = None
    """The accepted schema that the write was prepared for."""
    reads: tuple[tuple[TableKey, str], ...] = ()
    """Tables that the write relied on, with the content epoch that it saw."""
    if_commit: str | None = None
    cancels: str | None = None
    marks_deleted: bool = False
    renames_to: str | None = None
    group: tuple[GroupedCommit, ...] = ()
    """The commits of a group, in order, in place of `commit`.

    Their moves are the effect. `moves` names every table that the group takes, from the pin before
    the group on; only the pins there are required.
    """

    @property
    def commit_ids(self) -> tuple[str, ...]:
        """The commits that this publication makes, or may make."""
        grouped = tuple(one.draft.commit_id for one in self.group)
        return grouped if self.commit is None else (self.commit.commit_id, *grouped)

    def to_json(self) -> Json:
        return {
            "intent_id": self.intent_id,
            "based_on": self.based_on,
            "commit": self.commit.to_json() if self.commit else None,
            "moves": [m.to_json() for m in self.moves],
            "created": [p.to_json() for p in self.created],
            "dropped": [str(k) for k in self.dropped],
            "schema_id": self.schema_id,
            "on_schema_id": self.on_schema_id,
            "reads": [[str(k), epoch] for k, epoch in self.reads],
            "if_commit": self.if_commit,
            "cancels": self.cancels,
            "marks_deleted": self.marks_deleted,
            "renames_to": self.renames_to,
            "group": [g.to_json() for g in self.group],
        }

    @staticmethod
    def from_json(data: Json) -> Publication:
        return Publication(
            **{
                **data,
                "commit": CommitDraft.from_json(data["commit"]) if data["commit"] else None,
                "moves": tuple(TableMove.from_json(m) for m in data["moves"]),
                "created": tuple(TablePin.from_json(p) for p in data["created"]),
                "dropped": tuple(TableKey.parse(k) for k in data["dropped"]),
                "reads": tuple((TableKey.parse(k), epoch) for k, epoch in data["reads"]),
                "group": tuple(GroupedCommit.from_json(g) for g in data.get("group", ())),
            }
        )


@dataclass(frozen=True, slots=True)
class Requirement:
    """Why a publication does not fit a state.

    `physical`: a table has the same rows at another version, so staging again is enough.
    """

    error: ExpectedVersionMismatch | PreconditionFailed | WriterFenced | NotFound
    physical: bool = field(default=False)


def unmet_requirement(
    state: BranchState, publication: Publication, branch: str
) -> Requirement | None:
    """The first requirement of the publication that the state does not meet."""
    if state.deleted:
        return Requirement(NotFound(f"branch {branch!r} was deleted", branch=branch))
    if publication.intent_id in state.cancelled:
        return Requirement(
            WriterFenced(
                "this write outlived its lease and another process rolled it back; repeat it",
                operation_id=publication.intent_id,
            )
        )
    if publication.if_commit not in (None, state.head_commit_id):
        return Requirement(wrong_head(branch, publication.if_commit, state.head_commit_id))
    if publication.on_schema_id not in (None, state.schema_id):
        return Requirement(
            ExpectedVersionMismatch(
                f"the schema of branch {branch!r} changed while this write was prepared; repeat it",
                table="schema",
                expected=publication.on_schema_id,
                actual=state.schema_id,
            )
        )
    return _moved_table(state, publication)


def wrong_head(branch: str, expected: str | None, actual: str) -> PreconditionFailed:
    """The error of a write whose `if_commit` is not the head that it would be made on."""
    return PreconditionFailed(
        f"branch {branch!r} is at {actual}, not at {expected}",
        branch=branch,
        expected=expected,
        actual=actual,
    )


def _moved_table(state: BranchState, publication: Publication) -> Requirement | None:
    for key, epoch in publication.reads:
        pin = state.tables.get(key)
        if pin is None or pin.content_epoch != epoch:
            return Requirement(_mismatch(key, epoch, pin.content_epoch if pin else None))
    for move in publication.moves:
        pin = state.tables.get(move.expected.key)
        if pin is None or pin.at != move.expected.at:
            actual = pin.version if pin else None
            error = _mismatch(move.expected.key, move.expected.version, actual)
            same_rows = pin is not None and pin.content_epoch == move.expected.content_epoch
            return Requirement(error, physical=same_rows)
    freed = {*publication.dropped, *(m.expected.key for m in publication.moves if m.renames)}
    for created in publication.created:
        pin = state.tables.get(created.key)
        if pin is not None and created.key not in freed:
            return Requirement(_mismatch(created.key, None, pin.version))
    return None


def _mismatch(
    key: TableKey, expected: int | str | None, actual: int | str | None
) -> ExpectedVersionMismatch:
    return ExpectedVersionMismatch(
        f"{key} moved while this write was prepared: expected {expected}, found {actual}; "
        "read again and repeat",
        table=str(key),
        expected=expected,
        actual=actual,
    )


def has_effect(state: BranchState, publication: Publication) -> bool:
    """Whether a state has everything that a publication without a commit sets."""
    pins = (*(move.after for move in publication.moves), *publication.created)
    return (
        all(state.tables.get(pin.key) == pin for pin in pins)
        and publication.cancels in (None, *state.cancelled)
        and publication.renames_to in (None, state.name)
        and (state.deleted or not publication.marks_deleted)
    )


def apply_publication(
    state: BranchState, publication: Publication, ref: BranchRef, now_micros: int
) -> tuple[BranchState, Commit | None]:
    """The next state and its commit. Call `unmet_requirement` first."""
    tables = dict(state.tables)
    dropped = dict(state.dropped)
    changed = [PinChange(state.tables[m.expected.key], m.after) for m in publication.moves]
    changed += [PinChange(None, pin) for pin in publication.created]
    changed += [PinChange(tables[key], None) for key in publication.dropped]
    for change in changed:
        if change.before is not None:
            del tables[change.before.key]
            if change.after is None:
                dropped[change.before.key] = change.before
    # Remove first and add second: a rename may free the name that another type takes.
    tables.update({c.after.key: c.after for c in changed if c.after is not None})
    cancelled = state.cancelled
    if publication.cancels is not None and publication.cancels not in cancelled:
        cancelled = (*cancelled, publication.cancels)[-_KEPT_CANCELLATIONS:]
    next_state = replace(
        state,
        version=state.version + 1,
        tables=dict(sorted(tables.items())),
        dropped=dropped,
        schema_id=publication.schema_id or state.schema_id,
        cancelled=cancelled,
        deleted=state.deleted or publication.marks_deleted,
        name=publication.renames_to or state.name,
    )
    if publication.commit is None:
        return next_state, None
    commit = _finish(publication.commit, next_state, ref, tuple(changed), now_micros)
    streams = _marked(state.streams, publication.commit)
    commits = (*state.commits, StoredCommit.of(commit))
    return replace(next_state, commits=commits, streams=streams), commit


def apply_group(
    state: BranchState, publication: Publication, ref: BranchRef, now_micros: int
) -> tuple[BranchState, tuple[Commit, ...]]:
    """The next state and the commits of a group, each made on the one before it.

    All of them get the manifest version of the one swap. Call `unmet_requirement` first.
    """
    state = replace(state, version=state.version + 1)
    tables = dict(state.tables)
    commits = []
    for grouped in publication.group:
        pins = tuple(PinChange(tables[m.expected.key], m.after) for m in grouped.moves)
        tables.update({m.after.key: m.after for m in grouped.moves})
        commit = _finish(grouped.draft, state, ref, pins, now_micros)
        state = replace(state, commits=(*state.commits, StoredCommit.of(commit)))
        commits.append(commit)
    return replace(state, tables=tables), tuple(commits)


def _marked(streams: Mapping[str, StreamMark], draft: CommitDraft) -> Mapping[str, StreamMark]:
    done = [] if draft.stream_batch is None else [draft.stream_batch]
    for batch in draft.carried:
        mark = streams.get(batch.stream)
        if mark is None or mark.batch < batch.batch:
            done.append(batch)
    if not done:
        return streams
    moved = {batch.stream: StreamMark(batch.batch, draft.commit_id) for batch in done}
    kept = [(name, mark) for name, mark in streams.items() if name not in moved]
    return dict([*kept, *moved.items()][-_KEPT_STREAMS:])


def undo_commits(
    tables: Iterable[TablePin], newest_first: Iterable[StoredCommit]
) -> dict[TableKey, TablePin]:
    """The pins before these commits. Tables that no commit changed keep their current version."""
    pins = {pin.key: pin for pin in tables}
    for stored in newest_first:
        for change in stored.commit.pins:
            if change.after is not None:
                pins.pop(change.after.key, None)
        pins.update({c.before.key: c.before for c in stored.commit.pins if c.before is not None})
    return pins


def _finish(
    draft: CommitDraft,
    state: BranchState,
    ref: BranchRef,
    pins: tuple[PinChange, ...],
    now_micros: int,
) -> Commit:
    parent = state.commits[-1].commit if state.commits else None
    return Commit(
        graph_commit_id=draft.commit_id,
        graph_branch=ref.name,
        graph_manifest_version=state.version,
        parent_commit_id=parent.graph_commit_id if parent else None,
        merged_parent_commit_id=draft.merged_parent_commit_id,
        actor_id=draft.actor_id,
        message=draft.message,
        operation=draft.operation,
        created_at=max(now_micros, draft.not_before + 1, parent.created_at + 1 if parent else 0),
        schema_id=state.schema_id,
        pins=pins,
        changes=draft.changes,
        idempotency_key=draft.idempotency_key,
        recovery=draft.recovery,
        merged_history=draft.merged_history,
        equals_merged=draft.equals_merged,
        differs_from_merged=draft.differs_from_merged,
        details=draft.details,
    )
