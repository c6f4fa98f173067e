"""The ten traversal queries of the query engine, side by side with kuzu and ladybug."""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph
from bench import social
from bench.harness import Figure, milliseconds, p50, report
from bench.peak_memory import peak_of_this_process
from bench.peers import peer_python
from omnigraph import Edit
from omnigraph.execute.topology import kernels

_PEER = "the better of kuzu and ladybug"

PERSONS = {"small": 50_000, "full": 1_000_000}
REPEATS = 7
TARGETS = {"b": "<= 2", "d": "<= 0.2", "g": "<= 0.2", "i": "<= 0.2"}
"""The largest ratio to the better peer; 1 for the others."""
WARM_MILLISECONDS = 300

# name: (what it asks, our text, Cypher)
QUERIES: dict[str, tuple[str, str, str]] = {
    "a": (
        "1 hop, names",
        "query q($id: I64) { match { $p: Person { pid: $id } $p knows $f } return { $f.name } }",
        "MATCH (p:Person {pid: $id})-[:Knows]->(f:Person) RETURN f.name",
    ),
    "b": (
        "filter, 1 hop, top 10",
        "query q() { match { $p: Person $p.age > 85 $p knows $f } return { $f.age } "
        "order { $f.age desc } limit 10 }",
        "MATCH (p:Person)-[:Knows]->(f:Person) WHERE p.age > 85 "
        "RETURN f.age ORDER BY f.age DESC LIMIT 10",
    ),
    "c": (
        "2 hops, distinct",
        "query q($id: I64) { match { $p: Person { pid: $id } $p knows $m $m knows $f } "
        "return { count(distinct $f) as n } }",
        "MATCH (p:Person {pid: $id})-[:Knows]->(:Person)-[:Knows]->(f:Person) "
        "RETURN count(DISTINCT f.pid)",
    ),
    "d": (
        "2 hops of 1000, distinct",
        "query q() { match { $p: Person $p.pid < 1000 $p knows $m $m knows $f } "
        "return { count(distinct $f) as n } }",
        "MATCH (p:Person)-[:Knows]->(:Person)-[:Knows]->(f:Person) WHERE p.pid < 1000 "
        "RETURN count(DISTINCT f.pid)",
    ),
    "e": (
        "reach {1,3}",
        "query q($id: I64) { match { $p: Person { pid: $id } $p knows{1,3} $f $f.pid != $id } "
        "return { count($f) as n } }",
        "MATCH (p:Person {pid: $id})-[:Knows*1..3]->(f:Person) WHERE f.pid <> $id "
        "RETURN count(DISTINCT f.pid)",
    ),
    "f": (
        "count 2-hop paths",
        "query q() { match { $p: Person $p knows $m $m knows $f } return { count($f) as n } }",
        "MATCH (:Person)-[:Knows]->(:Person)-[:Knows]->(:Person) RETURN count(*)",
    ),
    "g": (
        "same company",
        "query q() { match { $p: Person $p knows $f $p worksAt $c $f worksAt $c } "
        "return { count($c) as n } }",
        "MATCH (p:Person)-[:Knows]->(f:Person), (p)-[:WorksAt]->(c:Company)<-[:WorksAt]-(f) "
        "RETURN count(*)",
    ),
    "h": (
        "anti-join",
        "query q() { match { $p: Person not { $p worksAt $_ } } return { count($p) as n } }",
        "MATCH (p:Person) WHERE NOT (p)-[:WorksAt]->(:Company) RETURN count(*)",
    ),
    "i": (
        "group by",
        "query q() { match { $p: Person } return { $p.city, count($p) as n, avg($p.age) as a } }",
        "MATCH (p:Person) RETURN p.city, count(*), avg(p.age)",
    ),
    "j": (
        "top 10 of all edges, with names",
        "query q() { match { $p: Person $p $k:knows $f } "
        "return { $k.since, $p.name, $f.name } order { $k.since desc } limit 10 }",
        "MATCH (p:Person)-[k:Knows]->(f:Person) RETURN k.since, p.name, f.name "
        "ORDER BY k.since DESC LIMIT 10",
    ),
}


def run(scale: str) -> None:
    persons = PERSONS[scale]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        root = Path(folder)
        data = social.make(persons)
        data.save(root)
        params = {"id": persons // 3}
        (root / "queries.json").write_text(
            json.dumps(
                {
                    name: {"cypher": cypher, "params": params if "$id" in cypher else {}}
                    for name, (_, _, cypher) in QUERIES.items()
                }
            )
        )
        ours, cold = measure(load(root / "graph", data), params)
        peers = {name: run_peer(name, root) for name in ("kuzu", "ladybug")}
    figures = []
    for name, (what, _, _) in QUERIES.items():
        times = {peer: answers["queries"][name] for peer, answers in peers.items()}
        for peer, answer in times.items():
            check_equal(name, ours[name][1], answer["rows"], peer)
        target = TARGETS.get(name, "<= 1")
        engines = {peer: answer["milliseconds"] for peer, answer in times.items()}
        figures.append(
            Figure(
                f"{name} {what}",
                ours[name][0],
                min(engines.values()),
                "ms",
                target,
                against=_PEER,
                engines=engines,
            )
        )
    ratios = [figure.ratio for figure in figures[2:]]
    geometric = math.exp(sum(map(math.log, ratios)) / len(ratios))
    figures.append(
        Figure(
            "c-j, geometric mean of the ratios", geometric, 1.0, "ratio", "<= 0.1", against=_PEER
        )
    )
    peak = peak_of_this_process() / 1e9
    notes = [
        f"{persons:,} persons, {data.knows.num_rows:,} knows; reference = the better peer, warm",
        "first query of the process (views and adjacency not built): "
        + ", ".join(f"{n} {t:.0f} ms" for n, t in cold.items()),
        f"peak memory of the bench process {peak:.1f} GB; peer load seconds: "
        + ", ".join(f"{p} {a['load_seconds']:.0f}" for p, a in peers.items()),
    ]
    report("query", figures, notes)


def load(path: Path, data: social.SocialGraph) -> omnigraph.Graph:
    graph = omnigraph.init(str(path), social.SCHEMA)
    graph.apply(
        {"Person": Edit(insert=data.person), "Company": Edit(insert=data.company)}, message="nodes"
    )
    graph.apply(
        {
            "Knows": Edit(insert=with_ids("k", data.knows)),
            "WorksAt": Edit(insert=with_ids("w", data.works_at)),
        },
        message="edges",
    )
    return omnigraph.open(str(path), read_only=True)


def with_ids(prefix: str, edges: pa.Table) -> pa.Table:
    ids = pa.array([f"{prefix}{number:08d}" for number in range(edges.num_rows)])
    ends = {name: edges.column(name).cast(pa.string()) for name in ("from", "to")}
    others = {n: edges.column(n) for n in edges.column_names if n not in ends}
    return pa.table({"id": ids, **ends, **others})


def measure(
    graph: omnigraph.Graph, params: dict[str, Any]
) -> tuple[dict[str, tuple[float, list[list[Any]]]], dict[str, float]]:
    answers, cold = {}, {}
    for name, (_, text, _) in QUERIES.items():
        given = params if "$id" in text else {}
        cold[name] = milliseconds(lambda t=text, g=given: graph.query(t, params=g))
    kernels.warm_up()
    for name, (_, text, _) in QUERIES.items():
        given = params if "$id" in text else {}
        graph.query(text, params=given)
        times: list[float] = []
        # Quick ones often enough to be warm, as in `peer_runner`.
        while len(times) < REPEATS or (sum(times) < WARM_MILLISECONDS and len(times) < 1000):
            times.append(milliseconds(lambda t=text, g=given: graph.query(t, params=g).to_pylist()))
        rows = [list(row.values()) for row in graph.query(text, params=given).to_pylist()]
        answers[name] = (p50(times), rows)
    return answers, cold


def check_equal(name: str, ours: list[list[Any]], theirs: list[list[Any]], peer: str) -> None:
    if name in "bj":
        # Ties at the cut may be broken otherwise: the sorted keys must agree.
        same = [r[0] for r in ours] == [r[0] for r in theirs]
    else:
        same = sorted(map(_rounded, ours)) == sorted(map(_rounded, theirs))
    assert same, f"query {name}: {peer} answers {theirs[:3]}, we answer {ours[:3]}"


def _rounded(row: list[Any]) -> tuple[Any, ...]:
    return tuple(round(v, 6) if isinstance(v, float) else v for v in row)


def run_peer(name: str, folder: Path) -> dict[str, Any]:
    python = peer_python()
    script = Path(__file__).parent / "peer_runner.py"
    out = subprocess.run(
        [python, str(script), name, str(folder), str(REPEATS), str(WARM_MILLISECONDS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 0, f"{name} failed: {out.stderr[-2000:]}"
    answers: dict[str, Any] = json.loads(out.stdout.splitlines()[-1])
    return answers
