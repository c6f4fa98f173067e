"""Arm an intent: post it, then go on only when no other live intent overlaps."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType

from omnigraph import failpoints
from omnigraph.commit.intents import GC, Intent, IntentBoard, IntentKind, PostedIntent, SeenIntent
from omnigraph.commit.request import Build
from omnigraph.errors import Contention, StorageFailure, WriterFenced
from omnigraph.manifest.records import BranchRef
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.settings.models import WriteSettings
from omnigraph.values.clock import Clock
from omnigraph.writes.changeset import ChangeSet

_RENEWALS_PER_LEASE = 4


def staging_intent(
    ref: BranchRef, actor_id: str | None, operation_id: str, settings: WriteSettings
) -> Intent:
    """One per operation, under the operation's own id: no attempt of it is posted under that."""
    return Intent(
        intent_id=operation_id,
        operation_id=operation_id,
        kind=IntentKind.HOLD,
        branch=ref,
        exclusive=frozenset(),
        shared=frozenset({GC}),
        lease_seconds=settings.lease_seconds,
        actor_id=actor_id,
        publication=None,
    )


class StagingHold:
    """Posted on entry, renewed by a thread, removed on exit."""

    def __init__(
        self,
        board: IntentBoard,
        intent: Intent,
        post: Callable[[Intent], PostedIntent] | None = None,
    ) -> None:
        """`post` puts the intent on the board; given, it may wait for others first."""
        self._board = board
        self._intent = intent
        self._post = post or board.post
        self._posted: PostedIntent | None = None
        self._epoch = 0
        self._lost = False
        self._stop = threading.Event()
        self._renewer = threading.Thread(target=self._renew, name="staging-hold", daemon=True)

    def __enter__(self) -> StagingHold:
        self._posted = self._post(self._intent)
        self._intent = self._posted.intent
        try:
            self._renewer.start()
        except BaseException:
            self._stop.set()  # nobody calls `__exit__` for what was not entered
            self._withdraw()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        try:
            self._renewer.join()
        finally:
            # An interrupted join too: what nobody renews would keep a cleanup waiting for a lease.
            self._withdraw()

    def _withdraw(self) -> None:
        try:
            self._board.remove(self._intent, self._epoch)
        except StorageFailure as failure:
            # The write is settled either way; the next sweep finds a dead hold and drops it.
            logger.warning("hold %s could not be removed: %s", self._intent.intent_id, failure)
        finally:
            if self._posted is not None:
                self._posted.release()

    def guarding(self, build: Build) -> Build:
        """The same build, refused at its end when somebody took this process for dead meanwhile."""

        def guarded(snapshot: Snapshot) -> ChangeSet:
            changes = build(snapshot)
            self.check()
            return changes

        return guarded

    def check(self) -> None:
        """Raise when somebody took this process for dead."""
        if self._lost:
            raise WriterFenced(
                "this write outlived its lease, so its files may have been cleaned up; repeat it",
                operation_id=self._intent.intent_id,
            )

    def _renew(self) -> None:
        pause = self._intent.lease_seconds / _RENEWALS_PER_LEASE
        while not self._stop.wait(pause):
            try:
                renewed = self._board.renew(self._intent, self._epoch + 1)
            except StorageFailure as failure:
                # A lease has room for several tries.
                logger.warning("hold %s not renewed: %s", self._intent.intent_id, failure)
                continue
            if renewed is None:
                self._lost = True
                return
            self._epoch += 1
            earlier, self._posted = self._posted, renewed
            if earlier is not None:
                earlier.release()


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
