"""Leases: names that one process at a time may hold for long work, such as a run of a pipeline.

A lease is an intent that takes a resource and publishes nothing. A thread renews it. After kill -9
it ends at once for processes of the same host, and after the lease time for others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from omnigraph.commit.arming import Arming, IntentHold
from omnigraph.commit.intents import Intent, IntentKind, Resources, guard_intent
from omnigraph.manifest.records import MAIN_REF
from omnigraph.settings.models import WriteSettings


@dataclass(frozen=True, slots=True)
class Leases:
    """The leases of one graph."""

    arming: Arming
    settings: WriteSettings

    @contextmanager
    def hold(
        self, name: str, actor_id: str | None, wait_seconds: float | None = None
    ) -> Iterator[IntentHold]:
        """Hold the name, or raise `Contention` if another process holds it for too long.

        By default this waits a little longer than a lease, because a dead holder of another host
        is known to be dead only then.
        """
        intent = guard_intent(
            IntentKind.HOLD,
            MAIN_REF,
            Resources(frozenset({_resource(name)})),
            intent_id=self.arming.clock.new_ulid(),
            lease_seconds=self.settings.lease_seconds,
            actor_id=actor_id,
        )
        wait = self.settings.lease_seconds * 1.5 if wait_seconds is None else wait_seconds
        patient = replace(self.arming, wait_limit_seconds=wait)
        with IntentHold(self.arming.board, intent, patient.arm) as hold:
            yield hold

    def holder(self, name: str) -> Intent | None:
        """The intent of the process that holds the name."""
        for seen in self.arming.board.others():
            if _resource(name) in seen.intent.resources.exclusive:
                return None if self.arming.board.is_dead(seen) else seen.intent
        return None


def _resource(name: str) -> str:
    return f"lease/{name}"
