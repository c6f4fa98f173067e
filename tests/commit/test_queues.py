from __future__ import annotations

import threading

import pytest

from omnigraph.commit.queues import Gates

NONE: frozenset[str] = frozenset()


class Visitor(threading.Thread):
    """Enters the gates, says so, and stays until told to go."""

    def __init__(self, gates: Gates, exclusive: str = "", shared: str = "") -> None:
        super().__init__(daemon=True)
        self._gates = gates
        self._wants = frozenset(exclusive.split()), frozenset(shared.split())
        self.inside, self.go = threading.Event(), threading.Event()
        self.start()

    def run(self) -> None:
        with self._gates.enter(*self._wants):
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
    gates = Gates()
    visitors = [Visitor(gates, exclusive=name) for name in "abc"]
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
    gates = Gates()
    one = Visitor(gates, **first)
    assert inside(one)
    other = Visitor(gates, **second)
    assert waiting(other) if excludes else inside(other)
    one.leave()
    assert inside(other)
    other.leave()


def test_first_come_first_served() -> None:
    """A late sharer does not overtake a waiting exclusive visitor: nobody starves."""
    gates = Gates()
    reader = Visitor(gates, shared="a")
    assert inside(reader)
    writer = Visitor(gates, exclusive="a")
    assert waiting(writer)
    late = Visitor(gates, shared="a")
    assert waiting(late)
    bystander = Visitor(gates, exclusive="b")
    assert inside(bystander)
    reader.leave()
    assert inside(writer)
    assert waiting(late)
    writer.leave()
    assert inside(late)
    late.leave()
    bystander.leave()


def test_an_error_inside_lets_the_next_one_in() -> None:
    gates = Gates()
    with pytest.raises(RuntimeError), gates.enter(frozenset("a"), NONE):
        raise RuntimeError
    with gates.enter(frozenset("a"), NONE):
        pass


def test_an_interrupted_wait_leaves_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C behind a slow writer: the ticket goes, or nobody gets in any more."""
    gates = Gates()
    slow = Visitor(gates, exclusive="a")
    assert inside(slow)

    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gates._condition, "wait_for", interrupted)
        with pytest.raises(KeyboardInterrupt), gates.enter(frozenset("a"), NONE):
            pytest.fail("it was not our turn")
    slow.leave()
    after = Visitor(gates, exclusive="a")
    assert inside(after)
    after.leave()
