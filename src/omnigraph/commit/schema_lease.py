"""One schema change of a branch at a time: a lease that a second one is refused by.

The lease is an intent like those of writers. Its process renews it, and a dead process is found out
by its lock or by the end of the lease, so a killed schema change refuses no other. The lease only
spares the second caller a long wait: two writes exclude each other when they arm.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime

from omnigraph.commit.arming import Arming, IntentHold
from omnigraph.commit.intents import (
    Intent,
    IntentKind,
    PostedIntent,
    Resources,
    SeenIntent,
    guard_intent,
)
from omnigraph.errors import SchemaChangeInProgress
from omnigraph.manifest.records import BranchRef
from omnigraph.values.clock import ulid_micros

_PATIENCE_SECONDS = 0.5
_PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class SchemaLease:
    """Gives the lease of a branch, or raises `SchemaChangeInProgress`."""

    arming: Arming
    lease_seconds: float

    def hold(self, ref: BranchRef, actor_id: str | None) -> IntentHold:
        """The lease as a context manager: posted on entry, removed on exit."""
        intent = guard_intent(
            IntentKind.HOLD,
            ref,
            Resources(exclusive=frozenset({f"{ref.incarnation}/schema_apply"})),
            intent_id=self.arming.clock.new_ulid(),
            lease_seconds=self.lease_seconds,
            actor_id=actor_id,
            owner=f"{socket.gethostname()}:{os.getpid()}",
        )
        return IntentHold(self.arming.board, intent, self._post)

    def _post(self, intent: Intent) -> PostedIntent:
        """Each process posts before it looks, so of two at least one sees the other.

        Of two that see each other the younger one withdraws. One that looked earlier than the
        other posted does not withdraw, and then the other one gives up.
        """
        board, clock = self.arming.board, self.arming.clock
        posted = board.post(intent)
        try:
            deadline = clock.monotonic() + _PATIENCE_SECONDS
            while holders := self.arming.living_rivals(intent):
                older = [seen for seen in holders if seen.intent.intent_id < intent.intent_id]
                if older or clock.monotonic() > deadline:
                    raise _in_progress(intent.branch, (older or holders)[0])
                clock.sleep(_PAUSE_SECONDS)
        except BaseException:
            self.arming.withdraw(posted)
            raise
        return posted


def _in_progress(branch: BranchRef, seen: SeenIntent) -> SchemaChangeInProgress:
    intent = seen.intent
    since = _moment(ulid_micros(intent.intent_id) or 0)
    holder = " on ".join(part for part in (intent.actor_id, intent.owner) if part) or "unknown"
    return SchemaChangeInProgress(
        f"{holder} has been changing the schema of branch {branch.name!r} since {since}; repeat "
        "this change when that one has ended",
        branch=branch.name,
        holder=holder,
        since=since,
        operation_id=intent.intent_id,
    )


def _moment(micros: int) -> str:
    found = datetime.fromtimestamp(micros / 1_000_000, UTC)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
