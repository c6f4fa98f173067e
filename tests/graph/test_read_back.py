"""A read costs the same, and the process is as large, after any number of commits and branches.

Times are CPU, and a bound is a ratio of two medians of one run. Memory is counted in objects, which
is exact, and in bytes. Every bound on what a process remembers is small here, so that it is reached
before the first count: what still grows after that has no bound. Each test counts in a process of
its own, because graphs that other tests left open have threads which make objects too.
"""

from __future__ import annotations

import gc
import multiprocessing
import statistics
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pytest

from omnigraph.commit import queues, staging
from omnigraph.execute.topology import builds, table_states
from omnigraph.lance_store import store
from omnigraph.maintain import reconciler
from omnigraph.manifest import publisher, reader
from omnigraph.settings.models import ReadSettings, Settings
from omnigraph_testing.read_back import ReadBack
from omnigraph_testing.workloads import anonymous_bytes

_MIB = 1024**2
# Equal work differs by 1.3 on a busy machine. Before states were dropped, it was 3 at 300 commits.
_MOST = 1.7
_FEW = 8
_COUNT = "query all() { match { $t: Thing } return { count($t) as n } }"


def _small_bounds() -> None:
    store._SESSION = lance.Session(
        index_cache_size_bytes=2 * _MIB, metadata_cache_size_bytes=2 * _MIB
    )
    store._HANDLES = 32
    queues._MOST_BRANCHES = _FEW
    publisher._MOST_BRANCHES = _FEW
    reader._BRANCHES = _FEW
    staging._MOST_TABLES = _FEW
    reconciler._MOST_TABLES = _FEW
    table_states._STEPS = 64
    builds._PIECES = _FEW


def alone(check: Callable[..., None], *arguments: Any) -> None:
    """Call a check in a new process with small bounds; its failure is the failure of the test."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=_small_bounds) as process:
        process.submit(check, *arguments).result()


def alive() -> Counter[str]:
    """How many objects of each class of ours, and of Lance, this process holds."""
    gc.collect()
    kinds = Counter(type(held) for held in gc.get_objects())
    ours = ("omnigraph.", "lance.")
    return Counter(
        {
            f"{kind.__module__}.{kind.__qualname__}": count
            for kind, count in kinds.items()
            if str(kind.__module__).startswith(ours)
        }
    )


def check_growth(before: Counter[str], most: int) -> None:
    after = alive()
    grown = {name: count - before[name] for name, count in after.items()}
    assert {name: count for name, count in grown.items() if count > most} == {}


@pytest.mark.parametrize(("things", "handles"), [(64, 1), (64, 2), (6_000, 1)])
def test_a_read_after_a_write_costs_the_same_after_many_commits(
    tmp_path: Path, things: int, handles: int
) -> None:
    # The head has 32 to 64 commits, and each parsed commit has three keys of tables.
    alone(check_commits, tmp_path, things, handles, 100, 300, 150)


def test_a_deleted_branch_leaves_nothing_behind(tmp_path: Path) -> None:
    alone(check_branches, tmp_path, 300)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("handles", [1, 2])
def test_three_thousand_commits(tmp_path: Path, handles: int) -> None:
    alone(check_commits, tmp_path, 64, handles, 300, 3000, 300)


def check_commits(place: Path, things: int, handles: int, warm: int, until: int, most: int) -> None:
    """Write and read back; compare the state after `warm` commits with that at the end."""
    work = ReadBack(place / "graph", things, handles)
    work.run(warm)
    first, before, size = work.p50(warm // 2), alive(), anonymous_bytes()
    work.run(until)
    assert work.p50(warm // 2) <= _MOST * first
    check_growth(before, most)
    assert anonymous_bytes() - size <= 16 * _MIB


def check_branches(place: Path, count: int) -> None:
    """Make, read, write, read back and delete a branch, `count` times."""
    work = ReadBack(place / "graph", 64, settings=Settings(read=ReadSettings(cache_bytes=100_000)))
    (graph,) = work.handles
    cpu = []
    before, size = alive(), anonymous_bytes()
    for number in range(count):
        branch = f"b{number}"
        graph.branches.create(branch)
        began = time.process_time()
        graph.query(_COUNT, branch=branch)
        cpu.append((time.process_time() - began) * 1000)
        work.cycle(branch)
        cpu[-1] += work.reads[-1]
        graph.branches.delete(branch)
        if number == count // 2:
            before, size = alive(), anonymous_bytes()
    check_growth(before, _FEW)
    assert anonymous_bytes() - size <= 16 * _MIB
    share = count // 4
    assert statistics.median(cpu[-share:]) <= _MOST * statistics.median(cpu[:share])
