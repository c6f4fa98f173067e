"""The lock: one command at a time, a lease that ends, and two applies at once."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.cluster import commands
from omnigraph.cluster.lock import ClusterLock, read_lock
from omnigraph.cluster.root import LOCK, open_root
from omnigraph.errors import ClusterRefused
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.processes import has_ended, this_process
from omnigraph_testing.cluster_kit import (
    PEOPLE,
    LaterClock,
    apply,
    call,
    codes,
    declare,
    write,
)
from omnigraph_testing.crash import start


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, people_pg=PEOPLE)
    declare(tmp_path, "graphs:\n  people: {schema: people.pg}")
    return tmp_path


def held(folder: Path, operation: str = "apply") -> ClusterLock:
    return ClusterLock(open_root(str(folder)).files, operation, SYSTEM_CLOCK)


def test_a_held_lock_is_named_and_expires(folder: Path) -> None:
    lock = held(folder)
    with lock:
        report = apply(folder)
        assert codes(report) == ["state_lock_held"]
        assert lock.lock_id in report.diagnostics[0].message
        assert commands.plan(call(folder), commands.ApplyTerms()).ok, "a plan takes no lock"
        seen = commands.status(call(folder)).body["state_observations"]
        assert (seen["locked"], seen["lock_operation"]) == (True, "apply")
        late = apply(folder, clock=LaterClock())
        assert "state_lock_expired" in codes(late)
        assert late.body["converged"]
        lock.renew()
        with pytest.raises(ClusterRefused, match="took the lock over"):
            lock.require()
    assert read_lock(open_root(str(folder)).files) is None


def test_a_renewed_lock_is_not_taken_over(folder: Path) -> None:
    files = open_root(str(folder)).files
    clock = LaterClock(0)
    with ClusterLock(files, "apply", clock) as lock:
        before = files.get(LOCK)
        clock._ahead = 50_000_000
        lock.renew()
        assert files.get(LOCK) != before
        assert codes(apply(folder, clock=LaterClock(70))) == ["state_lock_held"]


def test_waiting_for_the_lock(folder: Path) -> None:
    lock = held(folder)
    lock.__enter__()
    threading.Timer(0.3, lock.__exit__, (None, None, None)).start()
    assert apply(folder, lock_timeout=30).body["converged"]


def test_force_unlock_needs_the_exact_id(folder: Path) -> None:
    assert codes(commands.force_unlock(call(folder), "x")) == ["state_lock_missing"]
    files = open_root(str(folder)).files
    with held(folder) as lock:
        assert codes(commands.force_unlock(call(folder), "x")) == ["state_lock_id_mismatch"]
        assert files.get(LOCK) is not None
        done = commands.force_unlock(call(folder), str(lock.lock_id))
        assert done.body["lock_removed"]
    for bad in (b"{", b'{"version": 2, "lock_id": "a", "operation": "b", "created_at": "c"}'):
        files.put(LOCK, bad)
        assert codes(commands.force_unlock(call(folder), "a")) == ["invalid_lock_json"]
        assert files.get(LOCK) == bad
        files.delete(LOCK)


def leave_lock(folder: Path, process: str) -> None:
    """A lock whose lease runs, held by this process."""
    lock = held(folder)
    with lock:
        assert lock.held is not None
        left = replace(lock.held, process=process).to_bytes()
    open_root(str(folder)).files.put(LOCK, left)


def test_the_lock_of_an_ended_process_is_taken_over_at_once(folder: Path) -> None:
    child = start("omnigraph_testing.cluster_kit:tell_process", {})
    (told,) = child.finish()[1]
    assert has_ended(told["process"])
    leave_lock(folder, told["process"])
    report = apply(folder)
    assert codes(report) == ["state_lock_abandoned"]
    assert report.body["converged"]


def test_a_process_out_of_sight_may_live(folder: Path) -> None:
    """A wrong guess is impossible: another boot, other namespaces, no identity, a live process."""
    boot, numbers, times, number, begun = this_process().split("/")
    unseen = ("9999999", begun)
    for process in (
        "",
        this_process(),
        "/".join((f"0{boot[1:]}x", numbers, times, *unseen)),
        "/".join((boot, "pid:[1]", times, *unseen)),
        "/".join((boot, numbers, "time:[1]", *unseen)),
        "/".join((boot, numbers, times, "x", begun)),
    ):
        leave_lock(folder, process)
        assert codes(apply(folder)) == ["state_lock_held"], process
        open_root(str(folder)).files.delete(LOCK)
    assert has_ended("/".join((boot, numbers, times, number, f"1{begun}"))), "a number used again"
    assert has_ended("/".join((boot, numbers, times, *unseen)))


def test_two_applies_at_once(folder: Path) -> None:
    reports = []
    barrier = threading.Barrier(2)

    def run(name: str) -> None:
        barrier.wait()
        reports.append(apply(folder, actor=name))

    threads = [threading.Thread(target=run, args=(name,)) for name in ("ada", "bob")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won = [each for each in reports if each.ok]
    lost = [each for each in reports if not each.ok]
    assert won
    assert all(codes(each) == ["state_lock_held"] for each in lost)
    assert sum(each.body["state_written"] for each in won) == 1


def test_two_processes_at_once(folder: Path) -> None:
    workload = ("omnigraph_testing.cluster_kit:apply_in_child", {"directory": str(folder)})
    children = [start(*workload) for _ in range(2)]
    reports = [child.finish()[1][0] for child in children]
    assert any(each["converged"] for each in reports)
    assert all(each["ok"] or each["codes"] == ["state_lock_held"] for each in reports)
    assert apply(folder).body["state_written"] is False
    assert open_root(str(folder)).read_ledger().ledger.revision == 1, "one of them wrote"


def test_without_a_lock_the_swap_protects_the_ledger(folder: Path) -> None:
    declare(folder, "state: {lock: false}", "graphs:\n  people: {schema: people.pg}")
    with held(folder):
        report = apply(folder)
    assert codes(report) == ["state_lock_disabled"]
    assert report.body["authority"] == "unlocked"
    assert report.body["converged"]
