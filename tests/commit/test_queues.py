from __future__ import annotations

import threading

import pytest

from omnigraph.commit.group import QueuedWrite
from omnigraph.commit.intents import Resources
from omnigraph.commit.queues import ThreadQueue, Ticket
from omnigraph.commit.request import WriteRequest
from omnigraph.writes.changeset import ChangeSet

A = Resources(frozenset("a"))


class Visitor(threading.Thread):
    """Enters the queue, says so, and stays until told to go."""

    def __init__(self, queue: ThreadQueue, exclusive: str = "", shared: str = "") -> None:
        super().__init__(daemon=True)
        self._queue = queue
        self._wants = Resources(frozenset(exclusive.split()), frozenset(shared.split()))
        self.inside, self.go = threading.Event(), threading.Event()
        self.start()

    def run(self) -> None:
        with self._queue.turn(self._wants):
            self.inside.set()
            self.go.wait(10)

    def leave(self) -> None:
        self.go.set()
        self.join(10)


def waiting(visitor: Visitor) -> bool:
    return not visitor.inside.wait(0.03)


def inside(visitor: Visitor) -> bool:
    return visitor.inside.wait(5)


def test_disjoint_visitors_run_side_by_side() -> None:
    queue = ThreadQueue()
    visitors = [Visitor(queue, exclusive=name) for name in "abc"]
    assert all(inside(v) for v in visitors)
    for visitor in visitors:
        visitor.leave()


@pytest.mark.parametrize(
    ("first", "second", "excludes"),
    [
        ({"exclusive": "a"}, {"exclusive": "a"}, True),
        ({"exclusive": "a"}, {"shared": "a"}, True),
        ({"shared": "a"}, {"exclusive": "a"}, True),
        ({"shared": "a"}, {"shared": "a"}, False),
        ({"exclusive": "a b"}, {"exclusive": "b c"}, True),
        ({"exclusive": "a", "shared": "s"}, {"exclusive": "b", "shared": "s"}, False),
    ],
)
def test_who_excludes_whom(first: dict, second: dict, excludes: bool) -> None:
    queue = ThreadQueue()
    one = Visitor(queue, **first)
    assert inside(one)
    other = Visitor(queue, **second)
    assert waiting(other) if excludes else inside(other)
    one.leave()
    assert inside(other)
    other.leave()


def test_first_come_first_served() -> None:
    """A late sharer does not overtake a waiting exclusive visitor: nobody starves."""
    queue = ThreadQueue()
    reader = Visitor(queue, shared="a")
    assert inside(reader)
    writer = Visitor(queue, exclusive="a")
    assert waiting(writer)
    late = Visitor(queue, shared="a")
    assert waiting(late)
    bystander = Visitor(queue, exclusive="b")
    assert inside(bystander)
    reader.leave()
    assert inside(writer)
    assert waiting(late)
    writer.leave()
    assert inside(late)
    late.leave()
    bystander.leave()


def test_an_error_inside_lets_the_next_one_in() -> None:
    queue = ThreadQueue()
    with pytest.raises(RuntimeError), queue.turn(A):
        raise RuntimeError
    with queue.turn(A):
        pass


def test_an_interrupted_wait_leaves_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C behind a slow writer: the ticket goes, or nobody gets in any more."""
    queue = ThreadQueue()
    slow = Visitor(queue, exclusive="a")
    assert inside(slow)

    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Event, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt), queue.turn(A):
            pytest.fail("it was not our turn")
    slow.leave()
    after = Visitor(queue, exclusive="a")
    assert inside(after)
    after.leave()


class Rider(threading.Thread):
    """Queues with a write that others may carry; says how the wait ended."""

    def __init__(self, queue: ThreadQueue, exclusive: str) -> None:
        super().__init__(daemon=True)
        write = QueuedWrite(WriteRequest("main", "apply", ()), lambda _: ChangeSet(()), "id")
        self.ticket = Ticket(Resources(frozenset(exclusive.split())), write)
        self.had_its_turn: bool | None = None
        self._queue, before = queue, queue.waiting()
        self.start()
        while queue.waiting() == before:
            assert self.is_alive()

    def run(self) -> None:
        with self._queue.turn_or_ride(self.ticket) as inside:
            self.had_its_turn = inside


def test_a_turn_carries_the_writes_that_wait_for_it() -> None:
    queue = ThreadQueue()
    with queue.turn(A):
        riders = [Rider(queue, "a"), Rider(queue, "a b"), Rider(queue, "b c")]
        leader = queue._line[0]
        taken = queue.take_along(leader, 9)
        assert taken == [rider.ticket for rider in riders], "the third waits for the second"
        assert queue.waiting() == 0
        queue.put_down(taken, taken[:2])
        riders[0].join(5)
        riders[1].join(5)
        assert [r.had_its_turn for r in riders[:2]] == [False, False]
        riders[2].join(5)
        assert riders[2].had_its_turn, "it was put down without a result, and no one is before it"


def test_no_write_is_carried_past_another_that_came_first() -> None:
    """A large load in the line is not starved by small writes that came after it."""
    queue = ThreadQueue()
    with queue.turn(A):
        leader = queue._line[0]
        first = Rider(queue, "a")
        load = Visitor(queue, exclusive="a b")
        while queue.waiting() < 2:
            pass
        late = [Rider(queue, "a"), Rider(queue, "a c")]
        assert queue.take_along(leader, 9) == [first.ticket]
        queue.put_down([first.ticket], [first.ticket])
    assert inside(load)
    assert queue.waiting() == 2
    load.leave()
    for rider in late:
        rider.join(5)
        assert rider.had_its_turn


def test_a_turn_carries_no_more_than_it_may() -> None:
    queue = ThreadQueue()
    with queue.turn(A):
        leader = queue._line[0]
        riders = [Rider(queue, "a") for _ in range(3)]
        taken = queue.take_along(leader, 2)
        assert taken == [rider.ticket for rider in riders[:2]]
        queue.put_down(taken, taken)
        assert queue.waiting() == 1
    riders[2].join(5)
    assert riders[2].had_its_turn


def test_an_interrupted_rider_is_put_down_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = ThreadQueue()
    with queue.turn(A):
        leader = queue._line[0]
        write = QueuedWrite(WriteRequest("main", "apply", ()), lambda _: ChangeSet(()), "id")
        ticket = Ticket(A, write)

        def taken_and_interrupted(*_: object) -> bool:
            assert queue.take_along(leader, 9) == [ticket]
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(ticket.woken, "wait", taken_and_interrupted)
            with pytest.raises(KeyboardInterrupt), queue.turn_or_ride(ticket):
                pytest.fail("it had no turn")
        queue.put_down([ticket], [])
    with queue.turn(A):
        pass


def test_an_interrupted_rider_wakes_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Riders wake each other, so the one after an interrupted rider must not sleep for ever."""
    queue = ThreadQueue()
    with queue.turn(A):
        leader = queue._line[0]
        riders = [Rider(queue, "a")]
        write = QueuedWrite(WriteRequest("main", "apply", ()), lambda _: ChangeSet(()), "id")
        ticket = Ticket(A, write)

        def put_down_and_interrupted(*_: object) -> bool:
            riders.append(Rider(queue, "a"))
            taken = queue.take_along(leader, 9)
            assert taken == [riders[0].ticket, ticket, riders[1].ticket]
            queue.put_down(taken, taken)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(ticket.woken, "wait", put_down_and_interrupted)
            with pytest.raises(KeyboardInterrupt), queue.turn_or_ride(ticket):
                pytest.fail("it had no turn")
        for rider in riders:
            rider.join(5)
            assert rider.had_its_turn is False
