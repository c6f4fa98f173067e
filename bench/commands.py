"""Whole processes of short commands, against the import of the libraries below them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import omnigraph
from bench.harness import Figure, p50, report

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
ROWS = (
    '{"type": "Person", "data": {"name": "Ada", "age": 36}}\n'
    '{"type": "Person", "data": {"name": "Bob"}}\n'
    '{"edge": "Knows", "from": "Ada", "to": "Bob"}\n'
)
QUERY = 'match { $p: Person { name: "Ada" } $p knows{1,2} $f } return { $f.name as friend }'
CLI = [sys.executable, "-m", "omnigraph.cli"]
FLOOR = [sys.executable, "-c", "import pyarrow, lance"]
AGAINST = 'python -c "import pyarrow, lance"'


def run(scale: str) -> None:
    """Print and keep the figures; `full` only repeats more."""
    with tempfile.TemporaryDirectory() as folder:
        uri = str(Path(folder) / "small.omni")
        data = Path(folder) / "rows.ndjson"
        data.write_text(ROWS, encoding="utf-8")
        omnigraph.init(uri, SCHEMA).load(data)
        commands = {
            "floor": FLOOR,
            "query": [*CLI, "query", "-e", QUERY, "--store", uri, "--json"],
            "branch list": [*CLI, "branch", "list", "--store", uri, "--json"],
        }
        for command in commands.values():
            _cpu(command)  # writes the byte code
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(15 if scale == "full" else 5):
            for name, command in commands.items():
                taken[name].append(_cpu(command))
    floor = p50(taken["floor"])
    report(
        "commands",
        [
            Figure(f"omnigraph {name}, CPU", p50(taken[name]), floor, "ms", target, against=AGAINST)
            for name, target in (("query", "<= 2.5"), ("branch list", "<= 1.5"))
        ],
        ["a graph of two nodes and one edge; the processes take turns; byte code is there"],
    )


def _cpu(command: Sequence[str]) -> float:
    """The milliseconds of CPU of one process, with byte code as after an ordinary install."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"a side of the bench failed: {command!r}")
    return (used.ru_utime + used.ru_stime) * 1000
