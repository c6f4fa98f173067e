"""The compiler: grammar load, compile of a 10-line query, compiled-query cache."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.harness import Figure, p50, report
from omnigraph.query.compiler import clear_cache, compile_query
from omnigraph.query.parser import parse_queries
from omnigraph.schema.build import catalog_from_text
from omnigraph.syntax.grammar_tables import build, load_or_build
from omnigraph.syntax.span import SourceText

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
    start = _milliseconds(lambda: _python("omnigraph.query.compiler"), 5)
    empty = _milliseconds(lambda: _python("sys"), 5)
    report(
        "compiler",
        [
            Figure("compile 10 lines vs 5 ms", compiled, 5.0, "ms", "< 1"),
            Figure("cache hit vs 20 µs", hit * 1000, 20.0, "µs", "< 1"),
            Figure("cache hit vs compile", hit * 1000, compiled * 1000, "µs", "< 0.01"),
            Figure("parse vs whole compile", parsed, compiled, "ms", "stated"),
            Figure("grammar from tables vs built", loaded, built, "ms", "< 0.5"),
            Figure("import compiler vs python start", start, empty, "ms", "stated"),
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
