"""How costs grow with the graph: a load, the first queries and the ten queries at three sizes.

Each size is loaded by one process and queried by another one, so each has a peak of memory of its
own. Edges are made and committed in parts, so the data of the bench stay small. Times are CPU time
of all threads, because the machine may be busy.

The run is bounded: a size that would not end in time, by the time of the size before, or does not,
is left out and noted. So is a query that needs more memory than it may take, with its error.
"""

from __future__ import annotations

import json
import os
import shutil
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
from omnigraph import Edit, OmnigraphError

PERSONS = {"small": (20_000, 60_000, 200_000), "full": (1_000_000, 3_000_000, 10_000_000)}
DEGREE = 10
PART = 5_000_000
REPEATS = 3
SLOW_MILLISECONDS = 2_000
"""A query that takes longer is asked once, because noise is small against it."""
MOST_SECONDS = 720.0
CONSTANT = "ace"
"""Queries from one person: their cost should not grow at all."""
_LINEAR = "our own, in proportion to the rows"
_SAME = "our own, fewer rows"


def run(scale: str) -> None:
    found: dict[int, dict[str, Any]] = {}
    left_out = []
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        before, seconds = 0, 0.0
        for persons in PERSONS[scale]:
            left = MOST_SECONDS - (time.perf_counter() - began)
            expected = seconds * persons / max(before, 1)
            if expected > left:
                left_out.append(
                    f"{persons:,} persons: not run, because {expected:.0f} s were expected by the "
                    f"size before and {left:.0f} s were left"
                )
                continue
            path = Path(folder, str(persons))
            start = time.perf_counter()
            try:
                found[persons] = worker("load", path, persons, left)
                found[persons] |= worker("ask", path, persons, left)
            except subprocess.TimeoutExpired:
                found.pop(persons, None)
                left_out.append(f"{persons:,} persons: stopped after {left:.0f} s")
            shutil.rmtree(path)
            before, seconds = persons, time.perf_counter() - start
    small, large = min(found), max(found)
    growth = large / small

    def figure(what: str, key: str, unit: str, *, grows: bool = True) -> list[Figure]:
        if not all(key in found[size] for size in (small, large)):
            return []
        reference = found[small][key] * (growth if grows else 1)
        against = _LINEAR if grows else _SAME
        return [Figure(what, found[large][key], reference, unit, "stated", against=against)]

    figures = [
        *figure("load, CPU", "load", "s"),
        *figure("load, peak memory", "load_peak", "GiB"),
        *figure("first hop, CPU", "hop", "ms"),
        *figure("first count of all 2-hop paths, CPU", "count", "ms"),
        *(
            one
            for name, (what, _, _) in QUERIES.items()
            for one in figure(f"{name} {what}, CPU", name, "ms", grows=name not in CONSTANT)
        ),
        *figure("queries, peak memory", "ask_peak", "GiB"),
    ]
    notes = [
        f"{large:,} persons and {large * DEGREE:,} friendships, against {small:,} and "
        f"{small * DEGREE:,}; the reference of a figure is the small graph, times {growth:g} where "
        "the work is in proportion to the rows",
        "the first hop scans the ends of the edges, because no index covers them after a load",
        *(noted(persons, one) for persons, one in found.items()),
        *left_out,
    ]
    report("scaling", figures, notes)


def noted(persons: int, one: dict[str, Any]) -> str:
    times = {"first hop": "hop", "first count": "count"} | {name: name for name in QUERIES}
    asked = ", ".join(f"{what} {one[key]:.0f}" for what, key in times.items() if key in one)
    refused = "".join(f"; {name} not answered: {why}" for name, why in one["refused"].items())
    return (
        f"{persons:,} persons: load {one['load_wall']:.0f} s, CPU {one['load']:.0f} s, "
        f"peak {one['load_peak']:.1f} GiB; queries peak {one['ask_peak']:.1f} GiB; "
        f"{one['disk']:.2f} GiB on disk; CPU ms of queries: {asked}{refused}"
    )


def worker(task: str, path: Path, persons: int, most_seconds: float) -> dict[str, Any]:
    out = subprocess.run(
        [sys.executable, "-m", "bench.scaling", task, str(path), str(persons)],
        env={**os.environ, "OMNIGRAPH_CACHE_DIR": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=most_seconds,
    )
    assert out.returncode == 0, out.stderr[-2000:]
    found: dict[str, Any] = json.loads(out.stdout.splitlines()[-1])
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


def ask(path: Path, persons: int) -> dict[str, Any]:
    graph = omnigraph.open(str(path), read_only=True)
    for _, text, _ in QUERIES.values():
        graph.explain(text)

    def asked(name: str) -> float:
        text = QUERIES[name][1]
        params = {"id": persons // 3} if "$id" in text else {}
        return cpu_milliseconds(lambda: graph.query(text, params=params).to_pylist())

    found: dict[str, Any] = {"refused": {}}
    for key, name in {"hop": "a", "count": "f", **{name: name for name in QUERIES}}.items():
        try:
            times = [asked(name)]
            if key == name:
                graph.engine.queries.settle()
                times = [asked(name)]
                while len(times) < REPEATS and max(times) < SLOW_MILLISECONDS:
                    times.append(asked(name))
        except OmnigraphError as error:
            found["refused"][key] = str(error)
        else:
            found[key] = p50(times)
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
