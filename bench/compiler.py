"""The compiler: grammar load, compile of a 10-line query, compiled-query cache."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from bench.harness import Figure, p50, report
from omnigraph.query.compiler import clear_cache, compile_query
from omnigraph.query.parser import parse_queries
from omnigraph.schema.build import catalog_from_text
from omnigraph.syntax.grammar_tables import build, load_or_build
from omnigraph.syntax.source_text import SourceText

SCHEMA = """
node Person { name: String @key  age: I32?  bio: String? @index  status: enum(active, left) }
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company { title: String? }
edge Blocks: Person -> Person
"""
QUERY = """query friends_of($name: String, $min: I32) {
  match {
    $p: Person { name: $name, status: "active" }
    $p knows{1,3} $f
    $f $w:worksAt $c
    $f.age > $min and not $f.bio is null
    not { $p blocks $f }
  }
  return { $f.name, $c.name as company, count($w) as jobs } order { jobs desc, $f.name } limit 20
}"""
SAME_IN_SQL = """EXPLAIN WITH RECURSIVE reach AS (
  SELECT k.dst, 1 AS depth FROM person p JOIN knows k ON k.src = p.name
  WHERE p.name = 'ada' AND p.status = 'active'
  UNION
  SELECT k.dst, depth + 1 FROM reach JOIN knows k ON k.src = reach.dst WHERE depth < 3)
SELECT f.name, c.name AS company, count(*) AS jobs FROM reach JOIN person f ON f.name = reach.dst
JOIN works_at w ON w.src = f.name JOIN company c ON c.name = w.dst
WHERE f.age > 30 AND f.bio IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM blocks b WHERE b.src = 'ada' AND b.dst = f.name)
GROUP BY ALL ORDER BY jobs DESC, f.name LIMIT 20"""
SQL_TABLES = """
CREATE TABLE person (name TEXT, age INT, bio TEXT, status TEXT); CREATE TABLE company (name TEXT);
CREATE TABLE knows (src TEXT, dst TEXT); CREATE TABLE works_at (src TEXT, dst TEXT);
CREATE TABLE blocks (src TEXT, dst TEXT)"""
GRAMMAR = Path(sys.modules[parse_queries.__module__].__file__ or "").with_name("query.lark")


def run(scale: str) -> None:
    """Print and keep the figures; `full` only repeats more."""
    rounds = 300 if scale == "full" else 100
    catalog = catalog_from_text(SCHEMA)
    compile_query(QUERY, catalog)
    text = GRAMMAR.read_text(encoding="utf-8")

    def cold() -> None:
        clear_cache()
        compile_query(QUERY, catalog)

    compiled = _milliseconds(cold, rounds)
    parsed = _milliseconds(lambda: parse_queries(SourceText(QUERY, "q")), rounds)
    compile_query(QUERY, catalog)
    hit = _milliseconds(lambda: compile_query(QUERY, catalog), rounds, inner=200)
    built = _milliseconds(lambda: build(text), 5)
    loaded = _milliseconds(lambda: load_or_build(GRAMMAR), 15)
    peer = duckdb.connect()
    peer.execute(SQL_TABLES)
    explained = _milliseconds(lambda: peer.execute(SAME_IN_SQL).fetchall(), rounds)
    start = _milliseconds(lambda: _python("omnigraph.query.compiler"), 5)
    empty = _milliseconds(lambda: _python("sys"), 5)
    report(
        "compiler",
        [
            Figure(
                "compile 10 lines vs DuckDB's EXPLAIN",
                compiled,
                explained,
                "ms",
                "stated",
                against="DuckDB's EXPLAIN",
            ),
            Figure(
                "compile 10 lines vs a bound of 5 ms",
                compiled,
                5.0,
                "ms",
                "< 1",
                against="a bound of 5 ms",
            ),
            Figure(
                "cache hit vs a bound of 20 µs",
                hit * 1000,
                20.0,
                "µs",
                "< 1",
                against="a bound of 20 µs",
            ),
            Figure(
                "cache hit vs compile",
                hit * 1000,
                compiled * 1000,
                "µs",
                "< 0.01",
                against="our own, compiled anew",
            ),
            Figure(
                "parse vs whole compile",
                parsed,
                compiled,
                "ms",
                "stated",
                against="our own, the whole compile",
            ),
            Figure(
                "grammar from tables vs built",
                loaded,
                built,
                "ms",
                "< 0.5",
                against="our own, the grammar built",
            ),
            Figure(
                "import compiler vs python start",
                start,
                empty,
                "ms",
                "stated",
                against="an empty Python process",
            ),
        ],
        [f"grammar load {loaded:.1f} ms from the stored tables, {built:.1f} ms when built"],
    )


def _milliseconds(action: Callable[[], object], rounds: int, inner: int = 1) -> float:
    samples = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(inner):
            action()
        samples.append((time.perf_counter() - began) * 1000 / inner)
    return p50(samples)


def _python(module: str) -> None:
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)


if __name__ == "__main__":
    run("small")
