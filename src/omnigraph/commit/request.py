"""The request of a write, the tables that it claims, and the receipt that it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.commit.intents import (
    IntentKind,
    Resources,
    branch_resource,
    schema_resource,
    table_resource,
)
from omnigraph.errors import CommitRejected, InvalidArgument
from omnigraph.manifest.publication import CommitDraft
from omnigraph.manifest.records import BranchRef, Commit, StreamBatch
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import MAIN, EntityKind, TableKey
from omnigraph.writes.changeset import ChangeSet

Build = Callable[[Snapshot], ChangeSet]
"""Makes the changes of a write from a snapshot. Called again when the write is prepared again."""


Judge = Callable[[Snapshot, ChangeSet], None]
"""Raises when the changes of a write leave what its actor may change.

Asked about every change set before it is staged.
"""


@dataclass(frozen=True, slots=True)
class Claims:
    """The tables that a write may change, and those that its checks read."""

    tables: tuple[TableKey, ...]
    reads: tuple[TableKey, ...] = ()


ClaimsBy = Callable[[Catalog], Claims]
"""The claims of a write under a given schema."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One write. It may change `tables`; its checks rely on `reads`."""

    branch: str
    operation: str
    tables: tuple[TableKey, ...]
    reads: tuple[TableKey, ...] = ()
    kind: IntentKind = IntentKind.WRITE
    actor_id: str | None = None
    message: str | None = None
    if_commit: str | None = None
    idempotency_key: str | None = None
    repreparable: bool = True
    """After a conflict: True prepares the write again, False raises the conflict.

    Inserts, upserts and loads are prepared again. Updates and deletes are not, because they were
    decided on rows that have changed since.
    """
    changes_schema: bool = False
    on_exact_head: bool = False
    """The result depends on the whole branch, which is taken exclusively until the publish."""
    tables_of: Callable[[Snapshot], tuple[TableKey, ...]] | None = None
    """With `on_exact_head`: computes `tables` from the head that the write is made on."""
    claims_by: ClaimsBy | None = None
    """Computes the claims again when the write is prepared.

    `tables` and `reads` were computed from the schema that this process saw last, and another
    process may have changed the schema since.
    """
    long_build: bool = False
    """Building takes long: it holds cleanup off, and other writers do not wait for it."""
    in_turn: bool = False
    """With `long_build`: other writers wait, because one of them won against an earlier attempt."""
    staged_since: int | None = None
    """With `long_build`: when the oldest file was written, if tasks wrote files beforehand."""
    stream_batch: StreamBatch | None = None
    """A batch at or below the mark of its stream is not written again: the receipt is repeated."""
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """`Commit.details` of the commit that this write makes."""
    small: bool = False
    """Few rows, built fast from rows found by id or scan: a group may carry it."""
    judge: Judge | None = None
    """None: the actor may change everything."""

    def __post_init__(self) -> None:
        """A commit holds these texts as UTF-8. A queued write must not fail for them."""
        for name in ("actor_id", "message", "idempotency_key"):
            text = getattr(self, name)
            if text is not None and not _is_utf8(text):
                raise InvalidArgument(
                    f"{name} has half of a surrogate pair, which UTF-8 cannot write", option=name
                )


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class CommitTerms:
    """The terms that a user sets for a write: branch, actor, message and conditions."""

    branch: str = MAIN
    actor: str | None = None
    message: str | None = None
    if_commit: str | None = None
    idempotency_key: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """`Commit.details` of the commit."""
    judge: Judge | None = field(default=None, compare=False, repr=False)
    """None: the actor may change everything."""

    def request(
        self,
        operation: str,
        claimed: Claims,
        *,
        repreparable: bool,
        claims_by: ClaimsBy | None = None,
        small: bool = False,
    ) -> WriteRequest:
        return WriteRequest(
            branch=self.branch,
            operation=operation,
            tables=claimed.tables,
            reads=claimed.reads,
            claims_by=claims_by,
            actor_id=self.actor,
            message=self.message,
            if_commit=self.if_commit,
            idempotency_key=self.idempotency_key,
            details=self.details,
            repreparable=repreparable,
            small=small,
            judge=self.judge,
        )


@dataclass(frozen=True, slots=True)
class WriteReceipt:
    """The result of a write. `commit` is None when it changed nothing."""

    branch: str
    commit: Commit | None
    affected_nodes: int = 0
    affected_edges: int = 0
    repeated: bool = False
    """The idempotency key or the batch was committed before; this is the receipt of then."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "branch": self.branch,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "actor_id": self.commit.actor_id if self.commit else None,
            "commit": self.commit.to_dict() if self.commit else None,
            "repeated": self.repeated,
        }


class ClaimsOutdated(Exception):
    """Under the current schema the write needs other tables, so it queues again for those."""

    def __init__(self, needed: Claims) -> None:
        self.needed = needed


def require_claims(request: WriteRequest, catalog: Catalog) -> None:
    needed = request.claims_by(catalog) if request.claims_by is not None else None
    if needed is not None and needed != Claims(request.tables, request.reads):
        raise ClaimsOutdated(needed)


def judged(request: WriteRequest, snapshot: Snapshot, changes: ChangeSet) -> ChangeSet:
    """The changes, which the actor of the write may make."""
    if request.judge is not None:
        request.judge(snapshot, changes)
    return changes


def require_declared(request: WriteRequest, changes: ChangeSet) -> None:
    """Refuse effects on tables that no queue kept other writers off: they may have changed."""
    undeclared = [str(e.key) for e in changes.effects if e.key not in request.tables]
    if undeclared:
        raise CommitRejected(
            f"this {request.operation} did not claim {', '.join(undeclared)}; nothing changed",
            tables=undeclared,
        )


def resources_of(request: WriteRequest, ref: BranchRef) -> Resources:
    """The resources that the intent of a write takes."""
    exclusive = {table_resource(ref, key) for key in request.tables}
    shared = {table_resource(ref, key) for key in request.reads} - exclusive
    (exclusive if request.changes_schema else shared).add(schema_resource(ref))
    whole_branch = request.on_exact_head or request.if_commit is not None
    (exclusive if whole_branch else shared).add(branch_resource(ref))
    return Resources(frozenset(exclusive), frozenset(shared))


def draft_of(request: WriteRequest, commit_id: str) -> CommitDraft:
    """The commit of a write, before its changes are known."""
    return CommitDraft(
        commit_id=commit_id,
        operation=request.operation,
        actor_id=request.actor_id,
        message=request.message,
        idempotency_key=request.idempotency_key,
        stream_batch=request.stream_batch,
        details=request.details,
    )


def receipt_of(branch: str, commit: Commit | None, *, repeated: bool = False) -> WriteReceipt:
    """The counts come from the commit, so that a repeated write gives the same receipt."""
    counts = {EntityKind.NODE: 0, EntityKind.EDGE: 0}
    for change in commit.changes if commit else ():
        counts[change.key.kind] += change.inserted + change.updated + change.deleted
    return WriteReceipt(branch, commit, counts[EntityKind.NODE], counts[EntityKind.EDGE], repeated)
