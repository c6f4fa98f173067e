"""Views and adjacency: built, mapped from files, derived after a commit, or not needed at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import omnigraph
from bench import social
from bench.harness import Figure, milliseconds, p50, report
from bench.query import PERSONS, QUERIES, load
from omnigraph import Edit
from omnigraph.execute.evaluation import storage_reads
from omnigraph.execute.traversal import expand

_READ = "our own, tables read and sorted"

HOP, WHOLE = QUERIES["a"][1], QUERIES["f"][1]
COMMITS = 5


def run(scale: str) -> None:
    persons = PERSONS[scale]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        root = Path(folder)
        load(root / "graph", social.make(persons))
        indexed(root / "graph")
        read = worker(root, "read", files=False)
        cold = worker(root, "first", files=False)
        worker(root, "first", files=True, whole=True)
        mapped = worker(root, "first", files=True, whole=True)
        after = worker(root, "commits", files=True, whole=True)
        derived = worker(root, "first", files=True, whole=True)
        size = sum(f.stat().st_size for f in (root / "cache").rglob("*.topology"))
    figures = [
        Figure(
            "first hop from a point, by indexes",
            cold["hop"],
            read["hop"],
            "ms",
            "< 1",
            against=_READ,
        ),
        Figure(
            "first hop from a point, files",
            mapped["hop"],
            read["hop"],
            "ms",
            "< 500 ms",
            against=_READ,
        ),
        Figure(
            "first count of all 2-hop paths, files",
            mapped["whole"],
            read["whole"],
            "ms",
            "< 1",
            against=_READ,
        ),
        Figure("hop after a one-row commit", after["hop"], read["hop"], "ms", "< 1", against=_READ),
        Figure(
            "count after a one-row commit",
            after["whole"],
            read["whole"],
            "ms",
            "< 1",
            against=_READ,
        ),
        Figure(
            "new process after the commits, hop",
            derived["hop"],
            read["hop"],
            "ms",
            "< 1",
            against=_READ,
        ),
    ]
    notes = [
        f"{persons:,} persons, 10 friendships each; reference: views and adjacency read from the "
        "tables and sorted; grammar loaded before; wall time, processor time in brackets: "
        + ", ".join(
            f"{name} {found['hop_cpu']:.0f} ms"
            for name, found in (("read", read), ("indexes", cold), ("files", mapped))
        ),
        f"files {size / 1e6:.0f} MB; in memory: {mapped['memory']}",
        f"the commits themselves {after['commit']:.0f} ms",
    ]
    report("topology", figures, notes)


def indexed(path: Path) -> None:
    omnigraph.open(str(path)).ensure_indices()


def worker(root: Path, task: str, *, files: bool, whole: bool = False) -> dict[str, Any]:
    """A process of its own: nothing is in memory."""
    cache = str(root / "cache") if files else ""
    out = subprocess.run(
        [sys.executable, "-m", "bench.topology", str(root / "graph"), task, str(int(whole))],
        env={**os.environ, "OMNIGRAPH_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 0, out.stderr[-2000:]
    found: dict[str, Any] = json.loads(out.stdout.splitlines()[-1])
    return found


def main(path: str, task: str, whole: str) -> None:
    if task == "read":
        storage_reads._SMALL = 10**12
        expand._FEW_SOURCES = -1
    graph = omnigraph.open(path, read_only=task != "commits")
    params = {"id": graph.snapshot().to_dict()["datasets"][-1]["entity_count"] // 3}
    graph.explain(HOP)
    began = time.process_time()
    found: dict[str, Any] = {"hop": milliseconds(lambda: graph.query(HOP, params=params))}
    found["hop_cpu"] = (time.process_time() - began) * 1000
    if task == "read" or int(whole):
        found["whole"] = milliseconds(lambda: graph.query(WHOLE))
    if task == "commits":
        times: dict[str, list[float]] = {"commit": [], "hop": [], "whole": []}
        for number in range(COMMITS):
            pid = 10**9 + number
            person = {"pid": pid, "name": "new", "age": 1, "city": "here"}
            edge = {"from": str(params["id"]), "to": str(pid), "since": 1}
            edits = {"Person": Edit(insert=[person]), "Knows": Edit(insert=[edge])}
            times["commit"].append(milliseconds(lambda e=edits: graph.apply(e)))
            times["hop"].append(milliseconds(lambda: graph.query(HOP, params=params)))
            times["whole"].append(milliseconds(lambda: graph.query(WHOLE)))
        found |= {name: p50(values) for name, values in times.items()}
    found["memory"] = f"{graph.engine.queries.memory_bytes / 1e6:.0f} MB"
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
