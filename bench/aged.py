"""A store after many small commits, deletions and rows no index covers, against a fresh one.

Both hold the same rows. The aged one got them by small commits with upkeep switched off, the fresh
one by one write and `optimize`. Every question is asked of both in turns and must have one answer;
then the aged one is optimized and asked again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph
from bench.harness import Figure, milliseconds, p50, report
from omnigraph.settings.models import MaintenanceSettings, ReadSettings, Settings

SIZES = {"small": (5_000, 150), "full": (200_000, 2_000)}
ROUNDS = 12
SCHEMA = """
node Doc { name: String @key  text: String @index  n: I64 @index }
edge Cites: Doc -> Doc
"""
WORDS = ("river", "stone", "cloud", "engine", "paper", "window", "garden", "signal", "bridge")
ALONE = Settings(
    maintenance=MaintenanceSettings(automatic=False), read=ReadSettings(cache_directory="")
)
TEXT = """
query one($name: String) { match { $d: Doc { name: $name } } return { $d.n } }
query hop($name: String) { match { $d: Doc { name: $name } $d cites $c } return { $c.name } }
query range($n: I64) { match { $d: Doc $d.n > $n } return { count($d) as found } }
query words($q: String) { match { $d: Doc search($d.text, $q) } return { count($d) as found } }
query totals() { match { $d: Doc } return { count($d) as docs, sum($d.n) as total } }
"""
ASKED: dict[str, tuple[str, dict[str, Any], str]] = {
    "one by its key": ("one", {"name": "d00007"}, "<= 2"),
    "1 hop": ("hop", {"name": "d00007"}, "<= 2"),
    "range of an index": ("range", {"n": 10}, "<= 2"),
    "text search": ("words", {"q": "engine garden x5"}, "<= 3"),
    "whole table": ("totals", {}, "<= 2"),
}


def run(scale: str) -> None:
    rows, commits = SIZES[scale]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        aged = grown(Path(folder, "aged"), rows, commits)
        fresh = copied(Path(folder, "fresh"), aged)
        figures = [
            # A store without upkeep has a target for what is in memory only.
            replace(figure, target="<= 3" if "warm" in figure.name else "stated")
            for figure in compared(aged, fresh, f"{commits:,} commits")
        ]
        optimizing = milliseconds(lambda: opened(aged).optimize())
        figures += compared(aged, fresh, "then optimized")
    notes = [
        f"{rows:,} indexed rows, then {commits:,} commits: a row, an update or a delete each",
        "every question in a new handle that has nothing in memory, unless it says warm; "
        f"optimize took {optimizing:.0f} ms",
    ]
    report("aged", figures, notes)


def doc(number: int) -> dict[str, Any]:
    words = (WORDS[number % 9], WORDS[number // 9 % 9], f"x{number % 50}")
    return {"name": f"d{number:05}", "text": " ".join(words), "n": number % 1000}


def grown(path: Path, rows: int, commits: int) -> str:
    graph = omnigraph.init(str(path), SCHEMA, settings=ALONE)
    first = [doc(number) for number in range(rows)]
    ends = [{"from": f"d{n:05}", "to": f"d{n * 7 % rows:05}"} for n in range(rows)]
    graph.apply({"Doc": {"insert": pa.Table.from_pylist(first)}, "Cites": {"insert": ends}})
    graph.optimize()
    for number in range(commits):
        graph.apply(small_change(number, rows))
    return str(path)


def small_change(number: int, rows: int) -> dict[str, Any]:
    match number % 3:
        case 0:
            new = doc(rows + number)
            cites = {"from": new["name"], "to": f"d{number % 97 * 3:05}"}
            return {"Doc": {"insert": [new]}, "Cites": {"insert": [cites]}}
        case 1:
            old = {**doc(number % 200 + 300), "n": number}
            return {"Doc": {"upsert": [old]}}
        case _:
            gone = [f"d{1000 + (number // 3 * 5 + i) % (rows - 1000):05}" for i in range(5)]
            return {"Doc": {"delete": gone}}


def copied(path: Path, aged: str) -> str:
    """The same rows, written once."""
    source = opened(aged)
    fresh = omnigraph.init(str(path), SCHEMA, settings=ALONE)
    edits = {name: {"insert": source.read(name)} for name in ("Doc", "Cites")}
    fresh.apply(edits)
    fresh.optimize()
    return str(path)


def opened(uri: str) -> omnigraph.Graph:
    return omnigraph.open(uri, settings=ALONE)


def compared(aged: str, fresh: str, how: str) -> list[Figure]:
    figures = []
    for words, (name, params, target) in ASKED.items():

        def cold(uri: str, name: str = name, params: dict[str, Any] = params) -> object:
            return opened(uri).query(TEXT, name, params).to_pylist()

        assert cold(aged) == cold(fresh), words
        figures.append(in_turns(f"{words}, {how}", cold, (aged, fresh), target))
    for words, action in (("open and snapshot", snapshot), ("one-row commit", commit)):
        figures.append(in_turns(f"{words}, {how}", action, (aged, fresh), "<= 2"))
    warm = {uri: opened(uri) for uri in (aged, fresh)}
    for graph in warm.values():
        for name in ("d00008", "d00009"):
            graph.query(TEXT, "hop", {"name": name})
        graph.engine.queries.settle()

    def hop(uri: str) -> object:
        return warm[uri].query(TEXT, "hop", {"name": "d00007"}).to_pylist()

    figures.append(in_turns(f"1 hop, warm, {how}", hop, (aged, fresh), "<= 2"))
    return figures


def snapshot(uri: str) -> object:
    return opened(uri).snapshot().graph_commit_id


def commit(uri: str) -> object:
    """One row replaced; both stores get the same, so that they stay equal."""
    graph = opened(uri)
    seen = graph.read("Doc", ids=["d00001"]).to_pylist()[0]
    return graph.apply({"Doc": {"upsert": [{**seen, "n": seen["n"] + 1}]}})


def in_turns(
    name: str, action: Callable[[str], object], stores: tuple[str, str], target: str
) -> Figure:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for uri, into in zip(stores, times, strict=True):
            into.append(milliseconds(lambda u=uri: action(u)))
    return Figure(
        name, p50(times[0]), p50(times[1]), "ms", target, against="our own, a fresh store"
    )
