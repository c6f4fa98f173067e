from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from omnigraph.commit import queues
from omnigraph.commit.queues import FileQueue
from omnigraph.values.clock import SYSTEM_CLOCK


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "_locks" / "main.lock"


def test_two_queues_on_one_file_exclude_each_other(path: Path) -> None:
    """Two objects stand for two processes: the lock belongs to the open file."""
    one, other = FileQueue(path, SYSTEM_CLOCK), FileQueue(path, SYSTEM_CLOCK)
    assert one.enter(1)
    assert not other.enter(0.02), "who gets no turn goes on without one"
    one.leave()
    assert other.enter(1)
    other.leave()


def test_threads_of_one_process_share_a_turn(path: Path) -> None:
    queue = FileQueue(path, SYSTEM_CLOCK)
    assert queue.enter(1)
    assert queue.enter(1)
    queue.leave()
    other = FileQueue(path, SYSTEM_CLOCK)
    assert not other.enter(0.01), "somebody is still in"
    queue.leave()
    assert other.enter(1)
    other.leave()


def test_a_long_turn_ends_for_newcomers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that keep joining must not starve the other processes."""
    monkeypatch.setattr(queues, "_LONGEST_TURN_SECONDS", 0.0)
    queue = FileQueue(path, SYSTEM_CLOCK)
    assert queue.enter(1)
    SYSTEM_CLOCK.sleep(0.001)
    assert not queue.enter(0.02)
    queue.leave()
    assert queue.enter(1)
    queue.leave()


def test_a_waiter_gets_in_when_the_turn_ends(path: Path) -> None:
    one, other = FileQueue(path, SYSTEM_CLOCK), FileQueue(path, SYSTEM_CLOCK)
    assert one.enter(1)
    entered: list[bool] = []
    thread = threading.Thread(target=lambda: entered.append(other.enter(10)))
    thread.start()
    one.leave()
    thread.join(5)
    assert entered == [True]
    other.leave()


def test_a_dead_holder_frees_the_queue(path: Path) -> None:
    path.parent.mkdir()
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    queue = FileQueue(path, SYSTEM_CLOCK)
    assert not queue.enter(0.01)
    os.close(fd)  # what the kernel does for a killed process
    assert queue.enter(1)
    queue.leave()


def test_no_place_for_a_lock_file_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    queue = FileQueue(tmp_path / "file" / "locks" / "x.lock", SYSTEM_CLOCK)
    assert not queue.enter(0.01)
    assert not queue.enter(0.01), "the failed try is not remembered as one in progress"


def test_descriptors_do_not_leak(path: Path) -> None:
    queue, other = FileQueue(path, SYSTEM_CLOCK), FileQueue(path, SYSTEM_CLOCK)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        assert queue.enter(1)
        assert not other.enter(0.002)
        queue.leave()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_interrupted_wait_is_forgotten(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while another process has its turn: later writes must not wait for that wait."""
    holder, queue = FileQueue(path, SYSTEM_CLOCK), FileQueue(path, SYSTEM_CLOCK)
    assert holder.enter(1)
    before = len(list(Path("/proc/self/fd").iterdir()))

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(SYSTEM_CLOCK), "sleep", staticmethod(interrupted))
        with pytest.raises(KeyboardInterrupt):
            queue.enter(1)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    holder.leave()
    assert queue.enter(0.02)
    queue.leave()
