"""The soak: 20,000 commits on five branches with merges, readers, upkeep, cleanup and kills."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.harness import Figure, p50, report
from omnigraph_testing.soak import Soak, SoakPlan, SoakReport

COMMITS = {"small": 2000, "full": 20_000}


def run(scale: str) -> None:
    with tempfile.TemporaryDirectory(prefix="omnigraph-soak-") as folder:
        plan = SoakPlan(commits=COMMITS[scale])
        done = Soak(str(Path(folder) / "graph"), plan, print).run()
    happened = ", ".join(f"{count} {what}" for what, count in sorted(done.done.items()))
    report(
        "soak",
        [*_ages(done), *_reads(done), *_disk(done)],
        [
            f"{done.commits} commits, {done.kills} kill -9, {done.seconds:.0f} s; {happened}",
            "reference of the medians: the same operation at the start, on the same machine; both",
            "are divided by what a new graph with the same rows takes at that moment",
        ],
    )


def _ages(done: SoakReport) -> list[Figure]:
    start, end = done.measurements
    figures = []
    for name in start:
        (old_start, new_start), (old_end, new_end) = start[name], end[name]
        figures += [
            Figure(
                f"{name} at the end",
                old_end,
                old_start,
                "ms",
                "<= 1.5",
                against="our own, at the start",
            ),
            Figure(
                f"{name}, machine set aside",
                old_end / new_end,
                old_start / new_start,
                "x",
                "<= 1.5",
                against="our own, at the start",
            ),
        ]
    return figures


def _reads(done: SoakReport) -> list[Figure]:
    """A query in a process that has seen many commits, against one that has seen few."""
    # Branches are full of people after some 600 operations; before that a read has less to do.
    full = [(seen, spent) for number, seen, spent in done.reads_back if number > 600]
    many = [spent for seen, spent in full if seen >= 800]
    few = [spent for seen, spent in full if 20 <= seen < 120]
    fifth = done.commits / 5
    last = [spent for at, spent in done.head_reads if at >= 4 * fifth]
    second = [spent for at, spent in done.head_reads if fifth <= at < 2 * fifth]
    writers, reader = (
        "read back after 800 commits of a process",
        "1-hop of a head that moved, last fifth against second",
    )
    young, earlier = "our own, after 20 to 120 commits", "our own, the second fifth"
    return [
        Figure(writers, _p50(many), _p50(few), "cpu ms", "<= 1.3", against=young),
        Figure(reader, _p50(last), _p50(second), "cpu ms", "<= 1.3", against=earlier),
    ]


def _p50(values: list[float]) -> float:
    return p50(values) if values else float("nan")


def _disk(done: SoakReport) -> list[Figure]:
    """Data is bounded; the commit log grows by some bytes a commit, as it must."""
    quarter = done.commits / 4
    early = max(total - log for at, total, log in done.disk if quarter <= at <= 2 * quarter)
    late = max(total - log for at, total, log in done.disk if at >= 3 * quarter)
    _, total, log = done.disk[-1]
    return [
        Figure(
            "disk, last quarter against second",
            late / 1e6,
            early / 1e6,
            "MB",
            "<= 1.5",
            against="our own, the second quarter",
        ),
        Figure("disk at the end", total / 1e6, float("nan"), "MB", "stated", against=""),
        Figure(
            "commit log",
            log / done.commits,
            float("nan"),
            "B/commit",
            "<= 2000 B/commit",
            against="",
        ),
    ]
