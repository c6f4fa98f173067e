"""Workloads that give up root first: root ignores the permissions of files and folders."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from omnigraph.errors import OmnigraphError
from omnigraph.graph.open import init, open_graph
from omnigraph_testing.crash import Report
from omnigraph_testing.invariants import content

_NOBODY = 65534


def open_as_nobody(report: Report, uri: str) -> None:
    """Report what a read-only open reads and what a read-write open raises."""
    _give_up_root()
    report(content(open_graph(uri, read_only=True)))
    try:
        open_graph(uri)
    except OmnigraphError as error:
        report(error.to_dict())
    else:
        report("opened for writing")


def load_as_nobody(report: Report, uri: str, schema: str, data: str) -> None:
    """Report what loading a file raises in a graph of one's own, and what is in it then."""
    _give_up_root()
    graph = init(uri, schema)
    try:
        graph.load(data)
    except OmnigraphError as error:
        report(error.to_dict())
    else:
        report("loaded")
    report(content(graph))


def _use_everything_once() -> None:
    """Modules are imported on first use, and nobody may not even read some interpreters' files."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "in.ndjson"
        data.write_text('{"type": "Any", "data": {"name": "a"}}\n')
        graph = init(Path(folder) / "g.omni", "node Any { name: String @key }")
        graph.load(data)
        content(open_graph(graph.uri))


def _give_up_root() -> None:
    _use_everything_once()
    if os.geteuid() == 0:
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
