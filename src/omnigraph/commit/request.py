"""What a caller asks the one write path for, and what it gets back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.commit.intents import (
    IntentKind,
    branch_resource,
    schema_resource,
    table_resource,
)
from omnigraph.manifest.records import BranchRef, Commit, StreamBatch
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import MAIN, EntityKind, TableKey
from omnigraph.writes.changeset import ChangeSet

Build = Callable[[Snapshot], ChangeSet]
"""Called again from scratch with a newer snapshot when a write has to be re-prepared."""


@dataclass(frozen=True, slots=True)
class Claims:
    """Tables a write may change, and those its checks read."""

    tables: tuple[TableKey, ...]
    reads: tuple[TableKey, ...] = ()


ClaimsBy = Callable[[Catalog], Claims]


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One write. `tables` are those it may change, `reads` those its checks rely on."""

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
    """Inserts, upserts and loads may be prepared again; updates and deletes surface a conflict."""
    changes_schema: bool = False
    on_exact_head: bool = False
    """The result depends on the whole branch: it is taken exclusively from capture to publish."""
    tables_of: Callable[[Snapshot], tuple[TableKey, ...]] | None = None
    """With `on_exact_head`: which tables it may change, known only once the head is."""
    claims_by: ClaimsBy | None = None
    """What it claims by a given schema: `tables` and `reads` were told from the one seen last, and
    another process may have changed it since."""
    long_build: bool = False
    """Building takes long: cleanup is held off, and others need not wait meanwhile."""
    in_turn: bool = False
    """With `long_build`: others wait all the same, because one of them got in between before."""
    staged_since: int | None = None
    """With `long_build`: since when there are files of this write, if others wrote them before."""
    stream_batch: StreamBatch | None = None
    """A batch that its stream's mark has reached already is repeated, not written again."""


@dataclass(frozen=True, slots=True)
class CommitTerms:
    """How the write of a caller lands: where, as whom, and on what condition."""

    branch: str = MAIN
    actor: str | None = None
    message: str | None = None
    if_commit: str | None = None
    idempotency_key: str | None = None

    def request(
        self,
        operation: str,
        claimed: Claims,
        *,
        repreparable: bool,
        claims_by: ClaimsBy | None = None,
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
            repreparable=repreparable,
        )


@dataclass(frozen=True, slots=True)
class WriteReceipt:
    """What a write did. `commit` is None when it changed nothing."""

    branch: str
    commit: Commit | None
    affected_nodes: int = 0
    affected_edges: int = 0
    repeated: bool = False
    """The idempotency key was used before; this is the first receipt."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "branch": self.branch,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "actor_id": self.commit.actor_id if self.commit else None,
            "commit": self.commit.to_dict() if self.commit else None,
            "repeated": self.repeated,
        }


class OtherClaims(Exception):
    """By the schema in force the write needs other tables: queue up again, for those."""

    def __init__(self, needed: Claims) -> None:
        self.needed = needed


def require_claims(request: WriteRequest, catalog: Catalog) -> None:
    needed = request.claims_by(catalog) if request.claims_by is not None else None
    if needed is not None and needed != Claims(request.tables, request.reads):
        raise OtherClaims(needed)


def resources_of(request: WriteRequest, ref: BranchRef) -> tuple[frozenset[str], frozenset[str]]:
    """(taken exclusively, held shared)."""
    exclusive = {table_resource(ref, key) for key in request.tables}
    shared = {table_resource(ref, key) for key in request.reads} - exclusive
    (exclusive if request.changes_schema else shared).add(schema_resource(ref))
    whole_branch = request.on_exact_head or request.if_commit is not None
    (exclusive if whole_branch else shared).add(branch_resource(ref))
    return frozenset(exclusive), frozenset(shared)


def receipt_of(branch: str, commit: Commit | None, *, repeated: bool = False) -> WriteReceipt:
    """Counts come from the commit itself, so that a repeated key gives the same receipt."""
    counts = {EntityKind.NODE: 0, EntityKind.EDGE: 0}
    for change in commit.changes if commit else ():
        counts[change.key.kind] += change.inserted + change.updated + change.deleted
    return WriteReceipt(branch, commit, counts[EntityKind.NODE], counts[EntityKind.EDGE], repeated)
