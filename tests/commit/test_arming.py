"""Two overlapping intents never both proceed; no writer waits for ever; a hold leaves nothing."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from intents_for_tests import LEASE, intent, ulid

from omnigraph.commit.arming import Arming, IntentHold
from omnigraph.commit.intents import Intent, IntentBoard, SeenIntent
from omnigraph.errors import Contention, StorageFailure
from omnigraph.values.clock import SystemClock
from omnigraph_testing.fakes import FakeClock, FakeFiles


class Bench:
    """An arming on fakes whose recovery removes the dead."""

    def __init__(self, wait_limit: float = 60) -> None:
        self.files, self.clock = FakeFiles(), FakeClock()
        self.board = IntentBoard(self.files, self.clock)
        self.recovered: list[Intent] = []
        self.arming = Arming(self.board, self.clock, self._recover, wait_limit)

    def _recover(self, seen: SeenIntent) -> bool:
        self.recovered.append(seen.intent)
        self.board.remove(seen.intent)
        return True


def test_alone_it_proceeds_under_its_own_id() -> None:
    bench = Bench()
    posted = bench.arming.arm(intent(5))
    assert posted.intent == intent(5)
    assert bench.clock.seconds == 0, "nobody to wait for"
    bench.arming.withdraw(posted)
    assert bench.files.objects == {}


def test_others_that_do_not_overlap_are_no_obstacle() -> None:
    bench = Bench()
    bench.board.post(intent(1, exclusive="b", shared="s"))
    mine = intent(5, exclusive="a", shared="s")
    assert bench.arming.arm(mine).intent == mine


def test_the_younger_steps_back_and_comes_again_with_the_same_age() -> None:
    bench = Bench()
    other = bench.board.post(intent(1))
    seen_own: list[bool] = []
    real_sleep = bench.clock.sleep

    def sleep(seconds: float) -> None:
        seen_own.append(f"__recovery/{ulid(5)}.json" in bench.files.objects)
        real_sleep(seconds)
        if len(seen_own) == 3:
            bench.board.remove(other.intent)

    bench.clock.sleep = sleep  # type: ignore[method-assign]
    posted = bench.arming.arm(intent(5))
    assert not any(seen_own), "it waits off the board"
    assert posted.intent.intent_id != ulid(5)
    assert posted.intent.operation_id == ulid(5), "it gets older, not starved"
    assert posted.intent.publication is not None
    assert posted.intent.publication.intent_id == posted.intent.intent_id


def test_the_older_keeps_its_place_until_the_younger_is_gone() -> None:
    bench = Bench()
    other = bench.board.post(intent(9))
    waits: list[bool] = []

    def sleep(seconds: float) -> None:
        bench.clock.seconds += seconds
        waits.append(f"__recovery/{ulid(5)}.json" in bench.files.objects)
        if len(waits) == 3:
            bench.board.remove(other.intent)

    bench.clock.sleep = sleep  # type: ignore[method-assign]
    assert bench.arming.arm(intent(5)).intent == intent(5)
    assert waits == [True] * 3


def test_patience_ends_before_the_lease() -> None:
    """Waiting on the board for longer than its lease would make it look dead itself."""
    bench = Bench(wait_limit=3 * LEASE)
    bench.board.post(intent(9))
    stood: list[float] = []

    def sleep(seconds: float) -> None:
        bench.clock.seconds += seconds
        if f"__recovery/{ulid(5)}.json" in bench.files.objects:
            stood.append(bench.clock.seconds)

    bench.clock.sleep = sleep  # type: ignore[method-assign]
    bench.arming.arm(intent(5))
    assert max(stood) <= LEASE / 3 + 0.2
    assert bench.recovered == [intent(9)], "silent for a lease: recovered"


def test_the_dead_are_recovered_not_waited_for() -> None:
    bench = Bench()
    bench.board.post(intent(1)).release()
    bench.arming.arm(intent(5))
    assert bench.recovered == [intent(1)]
    assert bench.clock.seconds < 1


def test_the_living_are_outwaited_up_to_the_limit() -> None:
    bench = Bench(wait_limit=5)
    bench.board.post(intent(1))
    real = bench.board.is_dead
    bench.board.is_dead = lambda seen: False  # type: ignore[method-assign]
    with pytest.raises(Contention) as caught:
        bench.arming.arm(intent(5))
    assert caught.value.intents == [ulid(1)]
    assert caught.value.retryable
    assert 5 <= bench.clock.seconds < 6
    bench.board.is_dead = real  # type: ignore[method-assign]
    assert [s.intent for s in bench.board.others()] == [intent(1)], "nothing of ours is left"


def test_a_listing_that_fails_withdraws(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()

    def fail(prefix: str) -> list[str]:
        raise StorageFailure("listing failed")

    monkeypatch.setattr(bench.files, "list", fail)
    with pytest.raises(StorageFailure, match="listing failed"):
        bench.arming.arm(intent(5))
    assert bench.files.objects == {}


def test_threads_on_one_resource_never_hold_it_together() -> None:
    files = FakeFiles()
    clock = SystemClock()
    holding, worst = [0], [0]
    lock = threading.Lock()

    def writer(number: int) -> None:
        board = IntentBoard(files, clock)  # a process of its own
        arming = Arming(board, clock, lambda seen: True, 60)
        for _ in range(5):
            made = intent(number + 1)
            name = clock.new_ulid()
            posted = arming.arm(
                Intent(
                    name,
                    name,
                    made.kind,
                    made.branch,
                    made.resources,
                    made.lease_seconds,
                    None,
                    None,
                )
            )
            with lock:
                holding[0] += 1
                worst[0] = max(worst[0], holding[0])
            clock.sleep(0.001)
            with lock:
                holding[0] -= 1
            arming.withdraw(posted)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(writer, range(6)))
    assert worst == [1]
    assert files.objects == {}


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("step", ["start", "join"])
def test_an_interrupt_on_the_way_in_or_out_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    files = FakeFiles()
    hold = IntentHold(IntentBoard(files, FakeClock()), intent(5))
    monkeypatch.setattr(hold._renewer, step, interrupted)
    with pytest.raises(KeyboardInterrupt), hold:
        assert (step, len(files.objects)) == ("join", 1)
    assert files.objects == {}
    assert hold._stop.is_set()
