"""Arm an intent: post it, then go on only when no other live intent overlaps."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from omnigraph import failpoints
from omnigraph.commit.intent_board import IntentBoard, SeenIntent
from omnigraph.commit.intents import Intent, PostedIntent
from omnigraph.errors import Contention, StorageFailure
from omnigraph.values.clock import Clock

logger = logging.getLogger(__name__)

_SHORTEST_PAUSE = 0.002
_LONGEST_PAUSE = 0.1

RecoverDead = Callable[[SeenIntent], bool]


@dataclass(frozen=True, slots=True)
class Arming:
    """How intents get on the board. Of two racers at least the later lister sees the other."""

    board: IntentBoard
    clock: Clock
    recover_dead: RecoverDead
    wait_limit_seconds: float

    def arm(self, intent: Intent) -> PostedIntent:
        """Post `intent` (under a fresh id when it had to step back) and wait until it stands alone.

        The older operation keeps its place and waits for younger ones to vanish; the younger one
        withdraws. Waiting never outlasts a third of the lease on the board, so that nobody takes a
        patient writer for a dead one.
        """
        deadline = self.clock.monotonic() + self.wait_limit_seconds
        failpoints.hit("commit.before_arm")
        while True:
            posted = self.board.post(intent)
            try:
                blocking = self._stand(intent)
                if not blocking:
                    failpoints.hit("commit.after_arm")
                    return posted
            except BaseException:
                self.withdraw(posted)
                raise
            self.withdraw(posted)
            self.wait_until_clear(intent, deadline)
            intent = _renamed(intent, self.clock.new_ulid())

    def withdraw(self, posted: PostedIntent) -> None:
        """Take an intent off the board that moves nothing any more."""
        try:
            self.board.remove(posted.intent)
        except StorageFailure as error:
            # What it guarded is done or was refused, and the caller must learn which; the next
            # heal finds a dead intent and removes it.
            logger.warning("intent %s could not be removed: %s", posted.intent.intent_id, error)
        finally:
            posted.release()

    def wait_until_clear(self, intent: Intent, deadline: float) -> None:
        """Off the board: recover the dead, outwait the living."""
        pause = _SHORTEST_PAUSE
        while blocking := self._blocking(intent):
            if self.clock.monotonic() > deadline:
                names = ", ".join(s.intent.intent_id for s in blocking)
                raise Contention(
                    f"other writers hold what this write needs for too long: {names}",
                    intents=[s.intent.intent_id for s in blocking],
                )
            self.clock.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _stand(self, intent: Intent) -> list[SeenIntent]:
        """Who still blocks us after the younger ones had their chance to vanish."""
        patience = self.clock.monotonic() + intent.lease_seconds / 3
        pause = _SHORTEST_PAUSE
        while True:
            blocking = [s for s in self.board.others(intent.intent_id) if s.intent.overlaps(intent)]
            older = any(s.intent.operation_id < intent.operation_id for s in blocking)
            dead = any(self.board.is_dead(s) for s in blocking)
            if not blocking or older or dead or self.clock.monotonic() > patience:
                return blocking
            self.clock.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _blocking(self, intent: Intent) -> list[SeenIntent]:
        blocking = [s for s in self.board.others(intent.intent_id) if s.intent.overlaps(intent)]
        living = []
        for seen in blocking:
            if self.board.is_dead(seen):
                self.recover_dead(seen)
            else:
                living.append(seen)
        return living


def _renamed(intent: Intent, intent_id: str) -> Intent:
    """The same attempt under another id, inside and out."""
    publication = intent.publication
    if publication is not None:
        publication = replace(publication, intent_id=intent_id)
    return replace(intent, intent_id=intent_id, publication=publication)
