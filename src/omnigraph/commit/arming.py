"""Put an intent on the board: armed for one write, or held and renewed for long work."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType

from omnigraph import failpoints
from omnigraph.commit.intents import (
    GC,
    Intent,
    IntentBoard,
    IntentKind,
    PostedIntent,
    Resources,
    SeenIntent,
    guard_intent,
)
from omnigraph.errors import Contention, StorageFailure, WriterFenced
from omnigraph.manifest.records import BranchRef
from omnigraph.settings.models import WriteSettings
from omnigraph.values.clock import Clock

logger = logging.getLogger(__name__)

_SHORTEST_PAUSE = 0.002
_LONGEST_PAUSE = 0.1
_RENEWALS_PER_LEASE = 4

RecoverDead = Callable[[SeenIntent], bool]


@dataclass(frozen=True, slots=True)
class Arming:
    """Posts an intent, then goes on only when no other live intent overlaps it.

    Each writer posts before it lists the board, so of two racing writers at least one sees the
    other.
    """

    board: IntentBoard
    clock: Clock
    recover_dead: RecoverDead
    wait_limit_seconds: float

    def arm(self, intent: Intent) -> PostedIntent:
        """Post `intent` and wait until no other intent overlaps it.

        Of two writers the older operation keeps its place and waits for the younger one, which
        withdraws and posts again under a new id. An intent waits on the board for at most a third
        of its lease, because other processes would take it for dead after that.
        """
        deadline = self.clock.monotonic() + self.wait_limit_seconds
        failpoints.hit("commit.before_arm")
        while True:
            posted = self.board.post(intent)
            try:
                blocking = self._wait_on_board(intent)
                if not blocking:
                    failpoints.hit("commit.after_arm")
                    return posted
            except BaseException:
                self.withdraw(posted)
                raise
            self.withdraw(posted)
            self._wait_until_clear(intent, deadline)
            intent = _renamed(intent, self.clock.new_ulid())

    def living_rivals(self, intent: Intent) -> list[SeenIntent]:
        """Other intents that overlap this one; dead ones are recovered first."""
        return self._recover_dead(self._overlapping(intent))

    def withdraw(self, posted: PostedIntent) -> None:
        """Remove an intent that moves nothing any more."""
        try:
            self.board.remove(posted.intent)
        except StorageFailure as error:
            # The work is done or was refused, and the caller must learn which. The next recovery
            # finds a dead intent and removes it.
            logger.warning("intent %s could not be removed: %s", posted.intent.intent_id, error)
        finally:
            posted.release()

    def outwait(self, intent: Intent) -> None:
        """Wait until an intent is off the board, and recover it when it is dead."""
        deadline = self.clock.monotonic() + self.wait_limit_seconds
        pause = _SHORTEST_PAUSE
        while True:
            posted = [s for s in self.board.others() if s.intent.intent_id == intent.intent_id]
            living = self._recover_dead(posted)
            if not posted:
                return
            self._give_up_after(deadline, living)
            pause = self._sleep(pause)

    def _wait_until_clear(self, intent: Intent, deadline: float) -> None:
        """Wait off the board: recover dead intents, and wait for the live ones to go."""
        pause = _SHORTEST_PAUSE
        while blocking := self.living_rivals(intent):
            self._give_up_after(deadline, blocking)
            pause = self._sleep(pause)

    def _give_up_after(self, deadline: float, blocking: list[SeenIntent]) -> None:
        if self.clock.monotonic() > deadline:
            names = [seen.intent.intent_id for seen in blocking]
            raise Contention(
                f"other writers hold what this write needs for too long: {', '.join(names)}",
                intents=names,
            )

    def _wait_on_board(self, intent: Intent) -> list[SeenIntent]:
        """Wait for younger intents to withdraw; the intents that still overlap after that."""
        patience = self.clock.monotonic() + intent.lease_seconds / 3
        pause = _SHORTEST_PAUSE
        while True:
            blocking = self._overlapping(intent)
            older = any(s.intent.operation_id < intent.operation_id for s in blocking)
            dead = any(self.board.is_dead(s) for s in blocking)
            if not blocking or older or dead or self.clock.monotonic() > patience:
                return blocking
            pause = self._sleep(pause)

    def _overlapping(self, intent: Intent) -> list[SeenIntent]:
        return [s for s in self.board.others(intent.intent_id) if s.intent.overlaps(intent)]

    def _recover_dead(self, blocking: list[SeenIntent]) -> list[SeenIntent]:
        """The live ones."""
        living = []
        for seen in blocking:
            if self.board.is_dead(seen):
                self.recover_dead(seen)
            else:
                living.append(seen)
        return living

    def _sleep(self, pause: float) -> float:
        """Sleep for about `pause`; the next pause."""
        self.clock.sleep(pause * random.uniform(0.5, 1.5))
        return min(pause * 1.5, _LONGEST_PAUSE)


def _renamed(intent: Intent, intent_id: str) -> Intent:
    """The same attempt under another id; its publication carries the id, too."""
    publication = intent.publication
    if publication is not None:
        publication = replace(publication, intent_id=intent_id)
    return replace(intent, intent_id=intent_id, publication=publication)


def hold_intent(
    ref: BranchRef, actor_id: str | None, operation_id: str, settings: WriteSettings
) -> Intent:
    """An intent that keeps cleanup away from files that no manifest names yet.

    It has the id of its operation. The attempts of the operation are posted under other ids.
    """
    return guard_intent(
        IntentKind.HOLD,
        ref,
        Resources(shared=frozenset({GC})),
        intent_id=operation_id,
        lease_seconds=settings.lease_seconds,
        actor_id=actor_id,
    )


class IntentHold:
    """An intent for long work: posted on entry, renewed by a thread, removed on exit."""

    def __init__(
        self,
        board: IntentBoard,
        intent: Intent,
        post: Callable[[Intent], PostedIntent] | None = None,
    ) -> None:
        """`post` puts the intent on the board; `Arming.arm` waits for other writers first."""
        self._board = board
        self._intent = intent
        self._post = post or board.post
        self._posted: PostedIntent | None = None
        self._epoch = 0
        self._lost = False
        self._stays = False
        self._renewing = threading.Lock()
        self._stop = threading.Event()
        self._renewer = threading.Thread(target=self._renew, name="intent-hold", daemon=True)

    def __enter__(self) -> IntentHold:
        self._posted = self._post(self._intent)
        self._intent = self._posted.intent
        try:
            self._renewer.start()
        except BaseException:
            # Python does not call `__exit__` when `__enter__` fails.
            self._stop.set()
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
            # Also after an interrupted join: an intent that stays would make a cleanup wait until
            # the lease ends.
            self._withdraw()

    @property
    def intent(self) -> Intent:
        """The intent as it was posted: arming may have given it another id."""
        return self._intent

    def leave_posted(self) -> None:
        """From here on the exit leaves the intent on the board, and recovery looks after it."""
        self._stays = True

    def may_go(self) -> None:
        """What the intent describes is settled, so the exit removes it."""
        self._stays = False

    def check(self) -> None:
        """Raise when another process took this one for dead."""
        if self._lost:
            raise WriterFenced(
                "this write outlived its lease, so its files may have been cleaned up; repeat it",
                operation_id=self._intent.intent_id,
            )

    def _withdraw(self) -> None:
        try:
            # The process that took a lost intent over removes it when it has recovered it.
            if not (self._stays or self._lost):
                self._board.remove(self._intent, self._epoch)
        except StorageFailure as failure:
            # The work is settled either way; the next recovery drops the dead intent.
            logger.warning("hold %s could not be removed: %s", self._intent.intent_id, failure)
        finally:
            if self._posted is not None:
                self._posted.release()

    def renew(self) -> None:
        """Begin a new lease now; `check` says whether another process was faster."""
        with self._renewing:
            if self._lost:
                return
            renewed = self._board.renew(self._intent, self._epoch + 1)
            if renewed is None:
                self._lost = True
                return
            self._epoch += 1
            earlier, self._posted = self._posted, renewed
            if earlier is not None:
                earlier.release()

    def _renew(self) -> None:
        pause = self._intent.lease_seconds / _RENEWALS_PER_LEASE
        while not (self._stop.wait(pause) or self._lost):
            try:
                self.renew()
            except StorageFailure as failure:
                # One failure does no harm: a lease has room for several renewals.
                logger.warning("hold %s not renewed: %s", self._intent.intent_id, failure)
