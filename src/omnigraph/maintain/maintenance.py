"""Physical upkeep of single tables through the one write path; no answer changes."""

from __future__ import annotations

from omnigraph.catalog.arrow_schema import ID, SOURCE, TARGET
from omnigraph.changes.changeset import ChangeSet
from omnigraph.changes.effects import Compact, ExtendIndexes, PhysicalEffect
from omnigraph.commit.intents import IntentKind
from omnigraph.commit.request import Build, WriteRequest
from omnigraph.commit.transaction import Transaction
from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.values.identifiers import EntityKind, TableKey


def optimize_table(
    transaction: Transaction, branch: str, key: TableKey, actor_id: str | None
) -> bool:
    """Extend the indexes, then compact; False when a writer got in between and won.

    Indexes first: Lance does not compact fragments of different index coverage together.
    """
    columns = (ID, SOURCE, TARGET) if key.kind is EntityKind.EDGE else (ID,)
    steps: tuple[PhysicalEffect, ...] = (ExtendIndexes(key, columns), Compact(key))
    for effect in steps:
        request = WriteRequest(
            branch=branch,
            operation="optimize",
            tables=(key,),
            kind=IntentKind.MAINTENANCE,
            actor_id=actor_id,
            repreparable=False,
            long_build=True,
        )
        try:
            transaction.run(request, _always(ChangeSet((effect,))))
        except ExpectedVersionMismatch:
            return False
    return True


def _always(changes: ChangeSet) -> Build:
    return lambda _: changes
