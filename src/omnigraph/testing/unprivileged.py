"""A workload that gives up root first: root ignores the permissions of a directory."""

from __future__ import annotations

import os

from omnigraph.errors import OmnigraphError
from omnigraph.graph.open import open_graph
from omnigraph.testing.crash import Report
from omnigraph.testing.invariants import content

_NOBODY = 65534


def open_as_nobody(report: Report, uri: str) -> None:
    """Report what a read-only open reads and what a read-write open raises."""
    if os.geteuid() == 0:
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    report(content(open_graph(uri, read_only=True)))
    try:
        open_graph(uri)
    except OmnigraphError as error:
        report(error.to_dict())
    else:
        report("opened for writing")
