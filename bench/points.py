"""The smallest questions: one hop on a tiny graph, and one entity of a large type by its key."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import omnigraph
from bench import social
from bench.harness import Figure, milliseconds, p50, report
from bench.point_stages import stages
from bench.query import PERSONS, QUERIES, load, run_peer
from omnigraph.settings.models import ReadSettings, Settings
from omnigraph.values.identifiers import EntityKind, TableKey

_SCAN = "a Lance scan by the BTREE"

TINY = 1_000
LOOKUPS = 40
BY_KEY = "query q($id: I64) { match { $p: Person { pid: $id } } return { $p.name } }"


def run(scale: str) -> None:
    tiny, steps = tiny_hop()
    figures = [tiny, *key_lookup(PERSONS[scale])]
    notes = [
        "where the microseconds of the tiny hop go (first quartile of the steps run one by one): "
        + ", ".join(f"{what} {spent:.1f}" for what, spent in steps.items()),
        f"tiny: {TINY:,} persons, warm, p50, against ladybug's prepared statement",
        f"by key: {PERSONS[scale]:,} persons, {LOOKUPS} different ids in a new handle that holds "
        "nothing of the type in memory, against a Lance scan by the same BTREE",
    ]
    report("points", figures, notes)


def tiny_hop() -> tuple[Figure, dict[str, float]]:
    _, text, cypher = QUERIES["a"]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        root = Path(folder)
        data = social.make(TINY)
        data.save(root)
        params = {"id": TINY // 3}
        (root / "queries.json").write_text(json.dumps({"a": {"cypher": cypher, "params": params}}))
        graph = load(root / "graph", data)
        times = [
            milliseconds(lambda: graph.query(text, params=params).to_pylist())
            for _ in range(20_000)
        ]
        steps = stages(graph, params)
        peer = run_peer("ladybug", root)["queries"]["a"]
    ours = p50(times[-5_000:])
    return Figure(
        "tiny graph, 1 hop",
        ours,
        peer["milliseconds"],
        "ms",
        "<= 1",
        against="ladybug, a prepared statement",
    ), steps


def key_lookup(persons: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        path = Path(folder, "graph")
        data = social.make(persons)
        graph = omnigraph.init(str(path), social.SCHEMA)
        graph.apply({"Person": {"insert": data.person}})
        graph.ensure_indices()
        ids = [persons // LOOKUPS * number for number in range(LOOKUPS)]
        pin = graph.snapshot().pin(TableKey(EntityKind.NODE, "Person"))
        raw = graph.engine.store.open_private(pin.at)
        floor = [
            milliseconds(lambda i=i: raw.scanner(columns=["name"], filter=f"id = '{i}'").to_table())
            for i in ids
        ]
        settings = Settings(read=ReadSettings(cache_directory=""))
        fresh = omnigraph.open(str(path), read_only=True, settings=settings)
        cold = [milliseconds(lambda i=i: fresh.query(BY_KEY, params={"id": i})) for i in ids]
        fresh.query("query q() { match { $p: Person } return { max($p.name) as n } }")
        warm = [milliseconds(lambda i=i: fresh.query(BY_KEY, params={"id": i})) for i in ids * 20]
    return [
        Figure("by key, nothing in memory", p50(cold), p50(floor), "ms", "<= 2", against=_SCAN),
        Figure("by key, the first ever", cold[0], floor[0], "ms", "stated", against=_SCAN),
        Figure("by key, in memory", p50(warm), p50(floor), "ms", "<= 2", against=_SCAN),
    ]
