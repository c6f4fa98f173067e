"""Many writer processes on one graph, some of them killed or stopped."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.invariants import assert_at_rest, content

pytestmark = pytest.mark.crash

W = "omnigraph_testing.workloads:"
PROCESSES, COMMITS, KILLED = 8, 50, 3
ORDINARY_QUEUE = 5.0


def rows_of(graph: Graph, tables: list[str]) -> dict[str, str]:
    """marker -> table it is in."""
    return {i: t for t in tables for i in graph.read(t, columns=["id"]).column("id").to_pylist()}


def test_eight_processes_three_killed(uri: str) -> None:
    workloads.create_small_graph(uri, extra_types=PROCESSES)
    children = [
        start(
            W + "racing_writer",
            {"uri": uri, "name": f"w{n}", "own_table": f"Extra{n}", "commits": COMMITS},
        )
        for n in range(PROCESSES)
    ]
    for child in children:
        assert child.wait_for_report() == "open"
    chance = random.Random(7)
    for child in chance.sample(children, KILLED):
        time.sleep(chance.uniform(0.05, 0.3))
        child.kill()
    results = [child.finish() for child in children]
    killed = [code for code, *_ in results if code == -signal.SIGKILL]
    assert [code for code, *_ in results if code not in (0, -signal.SIGKILL)] == []
    assert len(killed) == KILLED

    done = [r for _, reports, _ in results for r in reports if isinstance(r, dict) and "done" in r]
    failed = [
        r for _, reports, _ in results for r in reports if isinstance(r, dict) and "failed" in r
    ]
    assert failed == []
    assert len(done) >= (PROCESSES - KILLED) * COMMITS

    fresh = open_graph(uri, settings=workloads.settings())
    tables = ["Note", *(f"Extra{n}" for n in range(PROCESSES))]
    present = rows_of(fresh, tables)
    for report in done:
        assert present[report["done"]] == report["table"], "an acknowledged write is lost"
    commits = [c for c in fresh.commits.list(limit=None) if c.operation == "apply"][:-1]
    assert sorted(c.message for c in commits) == sorted(m for m in present if m != "n0")
    by_id = {c.graph_commit_id: c.message for c in commits}
    for report in done:
        assert by_id[report["commit"]] == report["done"]
    assert_at_rest(fresh)
    # A kill costs the others at most a lease and a recovery; here death is even seen at once.
    longest = max(report["seconds"] for report in done)
    assert longest < KILLED * (workloads.LEASE + 1) + ORDINARY_QUEUE, f"waited {longest:.1f} s"


def test_a_stopped_writer_is_fenced(graph: Graph, uri: str) -> None:
    """SIGSTOP past the lease, then SIGCONT: it fails or has succeeded, and nothing is corrupt."""
    before = content(graph)
    for point in ("commit.after_arm", "commit.after_advance_first", "commit.before_publish"):
        child = start(W + "write_three_tables", {"uri": uri}, failpoints=f"{point}=sleep:1.5")
        assert child.wait_for_report() == "open"
        wait_for_intent(uri)
        child.stop()
        began = time.monotonic()
        graph.apply({"Note": {"insert": [{"id": f"after-{point}", "text": "x"}]}})
        waited = time.monotonic() - began
        assert waited < workloads.LEASE + 5, "the stopped writer wedged another one"
        child.resume()
        code, reports, stderr = child.finish()
        after = content(graph)
        assert f"after-{point}" in after["Note"]
        if code == 0:
            commit_id = reports[0]
            assert commit_id in {c.graph_commit_id for c in graph.commits.list()}
            assert "n1" in after["Note"]
        else:
            assert "WriterFenced" in stderr, stderr
            assert after["Person"] == before["Person"]
            assert "n1" not in after["Note"]
        assert graph.apply({"Note": {"insert": [{"text": "x"}]}}).commit is not None
        undo_three_tables(graph, before)
        assert_at_rest(graph)


def wait_for_intent(uri: str) -> None:
    deadline = time.monotonic() + 20
    while not list(Path(uri, "__recovery").glob("*.json")):
        assert time.monotonic() < deadline, "the writer never armed"
        time.sleep(0.005)


def undo_three_tables(graph: Graph, before: dict) -> None:
    people = content(graph).get("Person", {})
    graph.apply(
        {
            "Person": {
                "upsert": list(before["Person"].values()),
                "delete": sorted(set(people) - set(before["Person"])),
            },
            "Note": {"delete": ["n1"]},
            "Knows": {"upsert": list(before["Knows"].values())},
        }
    )


def random_kills(uri: str, rounds: int, seed: int) -> None:
    graph = workloads.create_small_graph(uri)
    chance = random.Random(seed)
    acknowledged: dict[str, tuple[list[str], str]] = {}
    for number in range(rounds):
        name = f"r{number}"
        child = start(W + "endless_writer", {"uri": uri, "name": name, "seed": number})
        assert child.wait_for_report() == "open"
        time.sleep(chance.uniform(0, 0.25))
        child.kill()
        code, reports, stderr = child.finish()
        assert code == -signal.SIGKILL, stderr
        for marker, tables, commit_id in reports:
            acknowledged[marker] = (tables, commit_id)

        graph.refresh()
        assert_at_rest(graph)
        check_markers(graph, acknowledged)
        assert graph.apply({"Note": {"insert": [{"text": "next"}]}}).commit is not None


def check_markers(graph: Graph, acknowledged: dict[str, tuple[list[str], str]]) -> None:
    """Acknowledged markers are in all their tables, and no commit is torn."""
    present = {
        t: set(graph.read(t, columns=["id"]).column("id").to_pylist())
        for t in ("Note", "Person", "Knows")
    }
    committed = {c.message: c for c in graph.commits.list(limit=None) if c.operation == "apply"}
    for marker, (tables, commit_id) in acknowledged.items():
        assert committed[marker].graph_commit_id == commit_id
        assert all(marker in present[t] for t in tables), f"{marker} is lost"
    for marker in present["Note"] | present["Person"] | present["Knows"]:
        if not marker.startswith("r"):
            continue
        touched = {c.key.type_name for c in committed[marker].changes}
        assert {t for t in present if marker in present[t]} == touched, f"{marker} is torn"


def test_random_kills(uri: str) -> None:
    random_kills(uri, rounds=20, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_random_kills(uri: str) -> None:
    random_kills(uri, rounds=200, seed=2)
