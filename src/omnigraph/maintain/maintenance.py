"""Physical upkeep of single tables through the one write path; no answer changes."""

from __future__ import annotations

from omnigraph.catalog.index_plan import wanted_indexes
from omnigraph.changes.changeset import ChangeSet
from omnigraph.changes.effects import Compact, ExtendIndexes
from omnigraph.commit.intents import IntentKind
from omnigraph.commit.request import Build, WriteRequest
from omnigraph.commit.transaction import Transaction
from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import TableKey


def optimize_table(
    transaction: Transaction, branch: str, key: TableKey, actor_id: str | None
) -> bool:
    """Extend the indexes, then compact; False when a writer got in between and won.

    Indexes first: Lance does not compact fragments of different index coverage together. And once
    more afterwards: on a branch the first compaction leaves the inherited ones behind.
    """
    request = _request("optimize", branch, key, actor_id)
    return (
        index_table(transaction, branch, key, actor_id)
        and _run(transaction, request, lambda _: ChangeSet((Compact(key),)))
        and index_table(transaction, branch, key, actor_id)
    )


def index_table(transaction: Transaction, branch: str, key: TableKey, actor_id: str | None) -> bool:
    """Build what the schema declares and is not there yet; False as above."""

    def build(snapshot: Snapshot) -> ChangeSet:
        entity = snapshot.catalog.entity_type(key)
        return ChangeSet((ExtendIndexes(key, wanted_indexes(entity)),))

    return _run(transaction, _request("index", branch, key, actor_id), build)


def _request(operation: str, branch: str, key: TableKey, actor_id: str | None) -> WriteRequest:
    return WriteRequest(
        branch=branch,
        operation=operation,
        tables=(key,),
        kind=IntentKind.MAINTENANCE,
        actor_id=actor_id,
        repreparable=False,
        long_build=True,
    )


def _run(transaction: Transaction, request: WriteRequest, build: Build) -> bool:
    try:
        transaction.run(request, build)
    except ExpectedVersionMismatch:
        return False
    return True
