"""Every figure of OmniGraph: each a ratio against a peer or a floor measured in the same run.

`small` of all families ends in under five minutes on two idle cores and is kept in
bench/results/small; `full` is kept in bench/results, from which `--tables` makes the tables, lists
and plots of docs/performance.md.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import time
from pathlib import Path

from bench.harness import RESULTS, begin
from bench.tables import known, write_tables

FAMILIES = {
    "foundation": "commits, writers side by side, branches",
    "compiler": "query text to plan",
    "commands": "whole processes of short commands",
    "query": "ten traversals, beside kuzu and ladybug",
    "points": "one hop and one key",
    "topology": "cold, mapped and patched adjacency",
    "search": "vectors and text, beside lancedb",
    "mutation": "one statement against a bare commit",
    "group_commit": "64 small writers against one",
    "server": "HTTP against embedded calls and an empty handler",
    "agents": "tools of agents against the HTTP routes",
    "policy": "decisions, and rules about rows against filters written by hand",
    "cluster": "plan, apply and start of 100 graphs in which nothing changed",
    "console": "pages of a large graph in a browser",
    "load": "files against a raw write",
    "merge": "diffs, merges, round trips",
    "evolve": "schema changes: steps, checks, rewrites",
    "maintenance": "what upkeep takes",
    "aged": "stores after many small commits and deletions against fresh ones",
    "pipeline": "loads on Spark",
    "pipelines": "declared pipelines",
    "spark_query": "queries on Spark",
    "spark": "the Spark format: scans, writes, micro-batches",
}
LONG = {
    "scaling": "costs of graphs up to ten times as large; only when named",
    "huge": "10M nodes and 50M edges on Spark in little memory; only when named",
    "soak": "20,000 commits with kills; only when named",
    "crossovers": "what sets the thresholds of the executor; only when named",
}


def main() -> None:
    known = {**FAMILIES, **LONG}
    listed = "\n".join(f"  {name:12} {words}" for name, words in known.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog=f"families:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="all without one")
    parser.add_argument("--scale", choices=["small", "full"], default="small")
    parser.add_argument("--keep", action="store_true", help="keep small results as the known ones")
    parser.add_argument(
        "--tables", type=Path, metavar="PAGE", help="only write its tables and plots again"
    )
    chosen = parser.parse_args()
    if chosen.tables:
        write_tables(chosen.tables)
        return
    wrong = [name for name in chosen.families if name not in known]
    if wrong:
        parser.error(f"no family {wrong[0]!r}; there are: {', '.join(known)}")
    folder = RESULTS if chosen.keep or chosen.scale == "full" else RESULTS / "small"
    if len(chosen.families) == 1:
        begin(chosen.scale, folder)
        importlib.import_module(f"bench.{chosen.families[0]}").run(chosen.scale)
        return
    sys.exit(_each_by_itself(chosen.families or list(FAMILIES), sys.argv[1:], folder))


def _each_by_itself(families: list[str], arguments: list[str], folder: Path) -> int:
    """A process per family, so that families share no memory and no caches, and survive a crash."""
    options = [word for word in arguments if word not in families]
    failed, began = [], time.monotonic()
    for name in families:
        done = subprocess.run([sys.executable, "-m", "bench", name, *options], check=False)
        if done.returncode:
            failed.append(name)
    print(f"\n{len(families)} families in {time.monotonic() - began:.0f} s, kept in {folder}")
    print(judged([name for name in families if name not in failed], folder))
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def judged(families: list[str], folder: Path) -> str:
    """How many targets of kept results are met, and the names of those that are not."""
    found = [(name, figure) for name in families for figure in known(name, folder)["figures"]]
    met = [figure["met"] for _, figure in found if figure["met"] is not None]
    missed = [f"{name}: {figure['name']}" for name, figure in found if figure["met"] is False]
    text = f"{sum(met)} of {len(met)} targets met"
    return f"{text}; missed: {', '.join(missed)}" if missed else text


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
