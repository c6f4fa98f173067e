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
from bench.query import PERSONS, QUERIES, load, with_ids
from omnigraph import Edit
from omnigraph.execute.evaluation import storage_reads
from omnigraph.execute.traversal import expand

_READ = "our own, tables read and sorted"

HOP, WHOLE, REACH = QUERIES["a"][1], QUERIES["f"][1], QUERIES["e"][1]
COMMITS = 5
LOADED = 200_000


def run(scale: str) -> None:
    persons = PERSONS[scale]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        root = Path(folder)
        load(root / "graph", social.make(persons))
        loaded = worker(root, "load", files=False)
        indexed(root / "graph")
        read = worker(root, "read", files=False)
        cold = worker(root, "first", files=False)
        worker(root, "files", files=True, whole=True)
        counted = worker(root, "count", files=False)
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
            "<= 50 ms",
            against=_READ,
        ),
        Figure(
            "first hop from a point, files",
            mapped["hop"],
            read["hop"],
            "ms",
            "<= 50 ms",
            against=_READ,
        ),
        Figure(
            f"first hop right after a load of {LOADED:,}",
            loaded["hop"],
            loaded["build"],
            "ms",
            "<= 100 ms",
            against="our own, the build alone",
        ),
        Figure(
            f"until hops are warm after a load of {LOADED:,}",
            loaded["warm_after"],
            loaded["build"],
            "ms",
            "<= 2",
            against="our own, the build alone",
        ),
        Figure(
            "first count of all 2-hop paths, nothing kept",
            counted["whole"],
            read["hop"] + read["whole"],
            "ms",
            "< 1000 ms",
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
            "<= 60 ms",
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


def after_load(path: Path) -> dict[str, float]:
    """Hops in the process that has just loaded the graph, until one of them is warm."""
    graph = omnigraph.init(str(path), social.SCHEMA)
    data = social.make(LOADED)
    graph.apply({"Person": Edit(insert=data.person)})
    graph.apply({"Knows": Edit(insert=with_ids("k", data.knows))})
    graph.explain(HOP)
    began = time.perf_counter()
    times: list[float] = []
    while not times or (min(times) > times[0] / 20 and time.perf_counter() - began < 120):
        params = {"id": len(times) * 7919 % LOADED}
        times.append(milliseconds(lambda p=params: graph.query(HOP, params=p).to_pylist()))
        time.sleep(0.02)
    warm_after = (time.perf_counter() - began) * 1000
    graph.engine.reconciler.settle()  # else its index shares the processors with the reference
    alone = omnigraph.open(str(path), read_only=True)
    build = milliseconds(lambda: alone.query(REACH, params={"id": 0}))
    return {"hop": times[0], "warm_after": warm_after, "build": build}


def main(path: str, task: str, whole: str) -> None:
    if task == "load":
        print(json.dumps(after_load(Path(path).with_name("loaded"))))
        return
    if task == "read":
        storage_reads._SMALL = 10**12
        expand._FEW_SOURCES = -1
    graph = omnigraph.open(path, read_only=task != "commits")
    params = {"id": graph.snapshot().to_dict()["datasets"][-1]["entity_count"] // 3}
    graph.explain(HOP)
    if task == "count":
        graph.explain(WHOLE)
        print(json.dumps({"whole": milliseconds(lambda: graph.query(WHOLE))}))
        return
    began = time.process_time()
    found: dict[str, Any] = {"hop": milliseconds(lambda: graph.query(HOP, params=params))}
    found["hop_cpu"] = (time.process_time() - began) * 1000
    if task == "read" or int(whole):
        found["whole"] = milliseconds(lambda: graph.query(WHOLE))
    if task in ("files", "commits"):
        graph.query(HOP, params=params)
        graph.engine.queries.settle()
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
