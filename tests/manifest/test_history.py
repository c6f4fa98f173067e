from __future__ import annotations

import json

import pytest
from states import after, chain, first_state, write

from omnigraph.errors import SnapshotReclaimed
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.history import HistoryReader, pack
from omnigraph.manifest.publication import undo_commits
from omnigraph.settings.models import HistorySettings
from omnigraph_testing.fakes import FakeClock, FakeFiles

SMALL = HistorySettings(window_low=2, window_high=4, fan_out=3)


def grow(files: FakeFiles, clock: FakeClock, commits: int, settings=SMALL) -> list[BranchState]:
    """Publish and pack as the publisher does; every state on the way."""
    states = [first_state()]
    for number in range(1, commits + 1):
        state = after(states[-1], write(states[-1], f"c{number}", "AB"[number % 2]), 1_000 + number)
        packed = pack(state, settings, clock)
        for key, data in packed.objects:
            assert files.put(key, data)
        states.append(packed.state)
    return states


def ids(files: FakeFiles, state: BranchState) -> list[str]:
    reader = HistoryReader(files)
    older = [c.commit_id for page in reader.pages(state.history) for c in reversed(page.commits)]
    return [c.commit_id for c in reversed(state.commits)] + older


def test_a_small_window_is_left_alone(clock: FakeClock) -> None:
    state = chain(3)
    packed = pack(state, SMALL, clock)
    assert (packed.state, packed.objects) == (state, ())


@pytest.mark.parametrize("count", [1, 5, 30, 100])
def test_no_commit_is_lost_doubled_or_out_of_order(
    files: FakeFiles, clock: FakeClock, count: int
) -> None:
    state = grow(files, clock, count)[-1]
    assert ids(files, state) == [f"c{n}" for n in range(count, -1, -1)]


def test_the_head_stays_small_however_long_history_is(files: FakeFiles, clock: FakeClock) -> None:
    states = grow(files, clock, 300)
    assert max(len(s.commits) for s in states) <= SMALL.window_high
    # at most fan_out - 1 segments of each level, and levels grow with the logarithm
    assert max(len(s.history) for s in states) <= (SMALL.fan_out - 1) * 6
    levels = [s.level for s in states[-1].history]
    assert levels == sorted(levels, reverse=True)
    assert sum(s.count for s in states[-1].history) + len(states[-1].commits) == 301


def test_every_page_knows_the_pins_after_its_last_commit(
    files: FakeFiles, clock: FakeClock
) -> None:
    states = grow(files, clock, 40)
    by_commit = {s.head_commit_id: dict(s.tables) for s in states}
    for page in HistoryReader(files).pages(states[-1].history):
        for position, stored in enumerate(page.commits):
            undone = undo_commits(page.tables, reversed(page.commits[position + 1 :]))
            assert undone == by_commit[stored.commit_id]


def test_segments_are_written_once_and_read_once(files: FakeFiles, clock: FakeClock) -> None:
    states = grow(files, clock, 60)
    reader = HistoryReader(files)
    list(reader.pages(states[-1].history))
    first = len(files.reads)
    list(reader.pages(states[-1].history))
    assert len(files.reads) == first, "segments never change, so they are kept"
    assert all(json.loads(data) for data in files.objects.values())


def test_large_commits_leave_earlier(clock: FakeClock) -> None:
    state = chain(6)
    size = sum(len(c.text) for c in state.commits)
    settings = HistorySettings(window_low=100, window_high=200, window_bytes=size - 1)
    packed = pack(state, settings, clock)
    assert packed.objects
    assert 0 < len(packed.state.commits) < len(state.commits)
    assert sum(len(c.text) for c in packed.state.commits) <= size // 2


def test_one_huge_commit_stays_in_the_head(clock: FakeClock) -> None:
    settings = HistorySettings(window_bytes=1)
    packed = pack(chain(3), settings, clock)
    assert [c.commit_id for c in packed.state.commits] == ["c3"], "a head has its own commit"
    assert pack(packed.state, settings, clock).objects == ()


def test_unwanted_segments_are_not_read(files: FakeFiles, clock: FakeClock) -> None:
    state = grow(files, clock, 60)[-1]
    files.reads.clear()
    assert list(HistoryReader(files).pages(state.history, lambda s: s.keyed)) == []
    assert files.reads == []


def test_a_missing_segment_is_named(files: FakeFiles, clock: FakeClock) -> None:
    state = grow(files, clock, 20)[-1]
    files.objects.clear()
    with pytest.raises(SnapshotReclaimed) as caught:
        list(HistoryReader(files).pages(state.history))
    assert caught.value.segment == state.history[-1].segment_id
