"""A long staging on the board: an intent that moves nothing, renewed until the write is settled.

It holds `gc` shared, so cleanup leaves the files of a load alone that nothing visible names yet.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType

from omnigraph.commit.intent_board import IntentBoard
from omnigraph.commit.intents import GC, Intent, IntentKind, PostedIntent
from omnigraph.commit.request import Build
from omnigraph.errors import StorageFailure, WriterFenced
from omnigraph.manifest.records import BranchRef
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.settings.models import WriteSettings
from omnigraph.writes.changeset import ChangeSet

logger = logging.getLogger(__name__)

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
