"""What is really there: the roots of graphs, opened read-only at the newest state of main."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from omnigraph.cluster.resources import graph_address, sha256
from omnigraph.cluster.root import ClusterRoot
from omnigraph.errors import NotFound, OmnigraphError
from omnigraph.graph.open import open_graph
from omnigraph.settings.models import Settings
from omnigraph.values.identifiers import MAIN

_AT_ONCE = 8


class RootState(StrEnum):
    """What is at the root of a graph."""

    ABSENT = "absent"
    INCOMPLETE = "incomplete"
    """Files of a graph without a manifest: a creation or a delete was interrupted."""
    OPEN = "open"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class LiveGraph:
    """The root of one graph as it was just now."""

    graph_id: str
    uri: str
    state: RootState
    schema_digest: str | None = None
    manifest_version: int | None = None
    error: str | None = None

    @property
    def is_open(self) -> bool:
        return self.state is RootState.OPEN

    def to_dict(self, observed_at: str, desired_digest: str | None) -> dict[str, Any]:
        """The observation that the ledger records."""
        matches = None if self.schema_digest is None else self.schema_digest == desired_digest
        found = {
            "kind": "graph",
            "address": graph_address(self.graph_id),
            "graph_uri": self.uri,
            "observed_at": observed_at,
            "exists": self.state is not RootState.ABSENT,
            "graph_manifest_version": self.manifest_version,
            "schema_digest": self.schema_digest,
            "desired_schema_digest": desired_digest,
            "schema_matches_desired": matches,
            "error": self.error,
        }
        return {name: value for name, value in found.items() if value is not None}


def observe_graph(root: ClusterRoot, graph_id: str, settings: Settings) -> LiveGraph:
    uri = root.graph_uri(graph_id)
    try:
        with open_graph(uri, read_only=True, settings=settings) as graph:
            source = graph.schema.show(MAIN).source
            version = graph.engine.reader.branch(MAIN)[1].version
    except NotFound as error:
        if root.graph_objects(graph_id):
            return LiveGraph(graph_id, uri, RootState.INCOMPLETE, error=error.message)
        return LiveGraph(graph_id, uri, RootState.ABSENT)
    except OmnigraphError as error:
        return LiveGraph(graph_id, uri, RootState.UNREADABLE, error=error.message)
    return LiveGraph(graph_id, uri, RootState.OPEN, sha256(source.encode()), version)


def observe_graphs(
    root: ClusterRoot, graph_ids: Iterable[str], settings: Settings
) -> Mapping[str, LiveGraph]:
    """All of these graphs, several at once; the requests of a graph do not grow with its types."""
    wanted = sorted(set(graph_ids))
    if not wanted:
        return {}
    with ThreadPoolExecutor(min(_AT_ONCE, len(wanted)), "observe") as pool:
        found = pool.map(lambda graph_id: observe_graph(root, graph_id, settings), wanted)
        return dict(zip(wanted, found, strict=True))
