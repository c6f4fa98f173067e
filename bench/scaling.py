"""How costs grow with the graph: a load, the first queries and the ten queries at two sizes.

Each size is loaded by one process and queried by another one, so each has a peak of memory of its
own. Edges are made and committed in parts, so the data of the bench stay small. Times are CPU time
of all threads, because the machine may be busy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import omnigraph
from bench import social
from bench.harness import Figure, p50, report
from bench.peak_memory import peak_of_this_process
from bench.query import QUERIES
from omnigraph import Edit

PERSONS = {"small": (20_000, 60_000), "full": (1_000_000, 4_000_000)}
DEGREE = 10
PART = 5_000_000
REPEATS = 3
CONSTANT = "ace"
"""Queries from one person: their cost should not grow at all."""
_LINEAR = "our own, in proportion to the rows"
_SAME = "our own, fewer rows"


def run(scale: str) -> None:
    small, large = PERSONS[scale]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        found = {}
        for persons in (small, large):
            path = Path(folder, str(persons))
            found[persons] = worker("load", path, persons) | worker("ask", path, persons)
    before, after = found[small], found[large]
    growth = large / small

    def figure(what: str, key: str, unit: str, *, grows: bool = True) -> Figure:
        reference = before[key] * (growth if grows else 1)
        against = _LINEAR if grows else _SAME
        return Figure(what, after[key], reference, unit, "stated", against=against)

    figures = [
        figure("load, CPU", "load", "s"),
        figure("load, peak memory", "load_peak", "GiB"),
        figure("first hop, CPU", "hop", "ms"),
        figure("first count of all 2-hop paths, CPU", "count", "ms"),
        *(
            figure(f"{name} {what}, CPU", name, "ms", grows=name not in CONSTANT)
            for name, (what, _, _) in QUERIES.items()
        ),
        figure("queries, peak memory", "ask_peak", "GiB"),
    ]
    notes = [
        f"{large:,} persons and {large * DEGREE:,} friendships, against {small:,} and "
        f"{small * DEGREE:,}; the reference of a figure is the small graph, times {growth:g} where "
        "the work is in proportion to the rows",
        "the first hop scans the ends of the edges, because no index covers them after a load",
        *(
            f"{persons:,} persons: load {one['load_wall']:.0f} s, CPU {one['load']:.0f} s, "
            f"peak {one['load_peak']:.1f} GiB; queries peak {one['ask_peak']:.1f} GiB; "
            f"{one['disk']:.2f} GiB on disk"
            for persons, one in found.items()
        ),
    ]
    report("scaling", figures, notes)


def worker(task: str, path: Path, persons: int) -> dict[str, float]:
    out = subprocess.run(
        [sys.executable, "-m", "bench.scaling", task, str(path), str(persons)],
        env={**os.environ, "OMNIGRAPH_CACHE_DIR": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 0, out.stderr[-2000:]
    found: dict[str, float] = json.loads(out.stdout.splitlines()[-1])
    return found


def load(path: Path, persons: int) -> dict[str, float]:
    spent = {"load": 0.0, "load_wall": 0.0}
    graph = omnigraph.init(str(path), social.SCHEMA)

    def commit(edits: dict[str, Any]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        graph.apply(edits)
        spent["load"] += time.process_time() - cpu
        spent["load_wall"] += time.perf_counter() - wall

    companies = max(persons // 10, 1)
    commit({"Person": Edit(insert=people(persons)), "Company": Edit(insert=firms(companies))})
    chance = np.random.default_rng(7)
    for first in range(0, persons * DEGREE, PART):
        size = min(PART, persons * DEGREE - first)
        commit({"Knows": Edit(insert=friendships(chance, persons, first, size))})
    working = np.sort(chance.choice(persons, int(persons * 0.95), replace=False))
    jobs = {
        "id": numbered("w", 0, len(working)),
        "from": pa.array(working).cast(pa.string()),
        "to": pa.array(chance.integers(0, companies, len(working))).cast(pa.string()),
    }
    commit({"WorksAt": Edit(insert=pa.table(jobs))})
    files = (f.stat().st_size for f in path.rglob("*") if f.is_file())
    return {**spent, "load_peak": peak(), "disk": sum(files) / 2**30}


def people(count: int) -> pa.Table:
    chance = np.random.default_rng(5)
    pid = pa.array(np.arange(count))
    cities = pa.array(chance.integers(0, 1000, count)).cast(pa.string())
    return pa.table(
        {
            "pid": pid,
            "name": pc.binary_join_element_wise("person", pid.cast(pa.string()), " "),
            "age": chance.integers(18, 90, count).astype(np.int32),
            "city": pc.binary_join_element_wise("city", cities, " "),
        }
    )


def firms(count: int) -> pa.Table:
    cid = pa.array(np.arange(count))
    names = pc.binary_join_element_wise("company", cid.cast(pa.string()), " ")
    return pa.table({"cid": cid, "name": names})


def friendships(chance: np.random.Generator, persons: int, first: int, size: int) -> pa.Table:
    # The number of friends falls with the rank as in `social`; a prime scatters the ranks.
    ranks = (chance.random(size) ** 2.5 * persons).astype(np.int64)
    sources = ranks * 7919 % persons
    ends = {"from": sources, "to": chance.integers(0, persons, size)}
    return pa.table(
        {
            "id": numbered("k", first, size),
            **{name: pa.array(values).cast(pa.string()) for name, values in ends.items()},
            "since": chance.integers(0, 1_000_000, size).astype(np.int32),
        }
    )


def numbered(prefix: str, first: int, size: int) -> pa.Array:
    numbers = pa.array(np.arange(first, first + size) + 10**9).cast(pa.string())
    return pc.binary_join_element_wise(prefix, numbers, "")


def ask(path: Path, persons: int) -> dict[str, float]:
    graph = omnigraph.open(str(path), read_only=True)
    for _, text, _ in QUERIES.values():
        graph.explain(text)

    def asked(name: str) -> float:
        text = QUERIES[name][1]
        params = {"id": persons // 3} if "$id" in text else {}
        return cpu_milliseconds(lambda: graph.query(text, params=params).to_pylist())

    found = {"hop": asked("a"), "count": asked("f")}
    for name in QUERIES:
        asked(name)
        graph.engine.queries.settle()
        found[name] = p50([asked(name) for _ in range(REPEATS)])
    return {**found, "ask_peak": peak()}


def cpu_milliseconds(action: Callable[[], object]) -> float:
    began = time.process_time()
    action()
    return (time.process_time() - began) * 1000


def peak() -> float:
    return peak_of_this_process() / 2**30


def main(task: str, path: str, persons: str) -> None:
    print(json.dumps({"load": load, "ask": ask}[task](Path(path), int(persons))))


if __name__ == "__main__":
    main(*sys.argv[1:])
