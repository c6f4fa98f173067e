from __future__ import annotations

import threading

import pytest

from omnigraph.commit.intents import Resources
from omnigraph.commit.queues import ThreadQueue

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
        patch.setattr(queue._condition, "wait_for", interrupted)
        with pytest.raises(KeyboardInterrupt), queue.turn(A):
            pytest.fail("it was not our turn")
    slow.leave()
    after = Visitor(queue, exclusive="a")
    assert inside(after)
    after.leave()
