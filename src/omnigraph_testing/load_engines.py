"""Runs one load on an engine and returns all that can be compared between the two engines."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omnigraph import init
from omnigraph.errors import OmnigraphError
from omnigraph.graph.handle import Graph
from omnigraph.settings.models import PipelineSettings, Settings
from omnigraph_testing.graph_helpers import exported
from omnigraph_testing.invariants import assert_at_rest

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  mail: String? @unique
  photo: Blob?
  @range(age, 0..150)
}
node Note { text: String }
edge Knows: Person -> Person @card(0..2) { since: Date? }
edge Wrote: Person -> Note { @unique(src, dst) }
"""
SMALL_PIECES = Settings(pipeline=PipelineSettings(task_bytes=300))
_ULID = re.compile(r"01[0-9A-HJKMNP-TV-Z]{24}")


def new_graph(path: Path) -> Graph:
    return init(path, SCHEMA, settings=SMALL_PIECES)


def masked(graph: Graph, branch: str = "main") -> list[str]:
    """Sorted lines. Ids that a load made are masked, because they differ from load to load."""
    return sorted(_ULID.sub("<id>", line) for line in exported(graph, branch).splitlines())


def outcome(graph: Graph, engine: str, data: Any, mode: str, **options: Any) -> dict[str, Any]:
    """Counts and content after a load, or the error and the proof that nothing changed."""
    before = masked(graph), graph.snapshot().graph_commit_id
    try:
        receipt = graph.load(data, mode, engine=engine, **options)
    except OmnigraphError as error:
        assert (masked(graph), graph.snapshot().graph_commit_id) == before
        assert_at_rest(graph)
        told: dict[str, Any] = json.loads(
            _ULID.sub("<id>", json.dumps(error.to_dict(), default=str))
        )
        return told
    assert receipt.engine == engine
    assert_at_rest(graph)
    changes = receipt.commit.changes if receipt.commit else ()
    return {
        "loaded": [asdict(counts) for counts in (*receipt.nodes, *receipt.edges)],
        "changed": sorted((str(c.key), c.inserted, c.updated, c.deleted) for c in changes),
        "content": masked(graph),
    }
