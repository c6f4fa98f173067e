"""Workloads that give up root first: root ignores the permissions of files and folders."""

from __future__ import annotations

import os

from omnigraph.errors import OmnigraphError
from omnigraph.graph import loading, writes
from omnigraph.graph.open import init, open_graph
from omnigraph.testing.crash import Report
from omnigraph.testing.invariants import content

_NOBODY = 65534
# Imported before root is gone: nobody may not even read the files of some interpreters.
_USED_LATER = (loading, writes)


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


def _give_up_root() -> None:
    if os.geteuid() == 0:
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
