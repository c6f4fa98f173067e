"""An export and the removal of its graph exclude each other.

Both post an intent that moves nothing: exports share a resource, and the removal takes it
exclusively. Each posts before it looks at the board, so of two that begin at once at least one sees
the other, and gives way. The intent of a killed process does not count. On a local disk its lock
proves that at once. Elsewhere its age shows it, by the clock of the store, because a live process
renews its intent several times in a lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from omnigraph.commit.arming import IntentHold
from omnigraph.commit.intents import Intent, IntentBoard, IntentKind, Resources, guard_intent
from omnigraph.errors import Contention, StorageFailure
from omnigraph.manifest.records import MAIN_REF
from omnigraph.settings.models import WriteSettings
from omnigraph.values.clock import Clock

_EXPORT = "export"
_DEAD_AFTER_LEASES = 2.0


@contextmanager
def export_mark(
    board: IntentBoard, clock: Clock, settings: WriteSettings, actor_id: str | None
) -> Iterator[None]:
    """Keeps the graph from being removed; raises `Contention` if that has begun.

    An export also works on storage that it must not write to. Then it has no mark.
    """
    shared = Resources(shared=frozenset({_EXPORT}))
    mark = IntentHold(board, _intent(shared, clock, settings, actor_id))
    with ExitStack() as held:
        with suppress(StorageFailure):
            held.enter_context(mark)
            removals = _living(board, mark.intent)
            if removals:
                raise Contention(
                    "this graph is being deleted, so it cannot be exported",
                    intents=[each.intent_id for each in removals],
                )
        yield


@contextmanager
def removal_mark(
    board: IntentBoard, clock: Clock, settings: WriteSettings, actor_id: str | None
) -> Iterator[list[Intent]]:
    """Keeps exports from beginning; gives those that run, and then nothing may be removed."""
    exclusive = Resources(exclusive=frozenset({_EXPORT}))
    intent = _intent(exclusive, clock, settings, actor_id)
    with IntentHold(board, intent) as mark:
        yield _living(board, mark.intent)


def _intent(
    resources: Resources, clock: Clock, settings: WriteSettings, actor_id: str | None
) -> Intent:
    return guard_intent(
        IntentKind.HOLD,
        MAIN_REF,
        resources,
        intent_id=clock.new_ulid(),
        lease_seconds=settings.lease_seconds,
        actor_id=actor_id,
    )


def _living(board: IntentBoard, mark: Intent) -> list[Intent]:
    """The other intents that the mark excludes, without those of dead processes."""
    others = [each for each in board.others(mark.intent_id) if each.intent.overlaps(mark)]
    found = []
    for seen in others:
        age = board.age_seconds(seen, mark)
        dead_after = seen.intent.lease_seconds * _DEAD_AFTER_LEASES
        if not board.is_dead(seen) and (age is None or age < dead_after):
            found.append(seen.intent)
    return found
