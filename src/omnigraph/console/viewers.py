"""Who looks at the console: where the graphs are, and the handles and runs of each viewer.

A viewer of a store acts under the name of the process. A viewer of a server signs in with a token,
and every call carries it, so the server decides what the viewer may see. Tokens are kept in memory
only, by the id of the browser's session.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

from omnigraph.errors import NotFound, Unauthenticated
from omnigraph.graph.handle import Graph
from omnigraph.opening import open_graph
from omnigraph.remote.server_graphs import list_graphs
from omnigraph.settings.models import Settings

_MOST_VIEWERS = 1000
_MOST_RUNS = 50


class GraphSource(Protocol):
    """Where the graphs of a console come from."""

    asks_for_token: bool
    title: str
    default_graph: str
    """The graph of a page whose address names none."""

    def graph_ids(self, token: str | None) -> list[str]:
        """The graphs to choose from; empty when they cannot be listed."""

    def open(self, graph_id: str, token: str | None) -> Graph: ...


class StoreSource:
    """One graph in a store."""

    asks_for_token = False
    default_graph = "default"

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.title = graph.uri

    def graph_ids(self, token: str | None) -> list[str]:
        return [self.default_graph]

    def open(self, graph_id: str, token: str | None) -> Graph:
        if graph_id != self.default_graph:
            raise NotFound(f"this console shows one graph, {self.title}")
        return self._graph


class ServerSource:
    """The graphs of a server; each viewer has a token, unless the server is open."""

    def __init__(
        self,
        url: str,
        settings: Settings,
        *,
        token: str | None,
        asks: bool,
        graph: str | None = None,
    ) -> None:
        self.title = url
        self.asks_for_token = asks
        self.default_graph = graph or "default"
        self._url = url.rstrip("/")
        self._settings = settings
        self._token = token

    @staticmethod
    def found(url: str, settings: Settings, token: str | None, graph: str | None) -> ServerSource:
        """The server, asked whether it needs a token and which graphs it has."""
        try:
            ids = list_graphs(url, token, settings.client)
        except Unauthenticated:
            if token is not None:
                raise
            return ServerSource(url, settings, token=None, asks=True, graph=graph)
        first = graph or next(iter(ids), None)
        return ServerSource(url, settings, token=token, asks=False, graph=first)

    def graph_ids(self, token: str | None) -> list[str]:
        return list_graphs(self._url, token or self._token, self._settings.client)

    def open(self, graph_id: str, token: str | None) -> Graph:
        address = f"{self._url}/graphs/{graph_id}"
        return open_graph(address, token=token or self._token, settings=self._settings)


@dataclass(frozen=True, slots=True)
class PastRun:
    """A query that a viewer ran."""

    text: str
    branch: str
    rows: int | None
    seconds: float
    error: str | None


@dataclass(slots=True)
class Viewer:
    """One browser session."""

    token: str | None = None
    dark: bool | None = None
    graphs: dict[str, Graph] = field(default_factory=dict)
    runs: list[PastRun] = field(default_factory=list)

    def remember(self, run: PastRun) -> None:
        self.runs.insert(0, run)
        del self.runs[_MOST_RUNS:]


class Viewers:
    """The viewers by the id of their session; the one who was away the longest is forgotten."""

    def __init__(self, source: GraphSource) -> None:
        self.source = source
        self._viewers: OrderedDict[str, Viewer] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._viewers)

    def of(self, session_id: str) -> Viewer:
        with self._lock:
            viewer = self._viewers.setdefault(session_id, Viewer())
            self._viewers.move_to_end(session_id)
            while len(self._viewers) > _MOST_VIEWERS:
                _, gone = self._viewers.popitem(last=False)
                self._close(gone)
            return viewer

    def sign_in(self, viewer: Viewer, token: str | None) -> None:
        self._close(viewer)
        viewer.token = token

    def graph(self, viewer: Viewer, graph_id: str) -> Graph:
        with self._lock:
            found = viewer.graphs.get(graph_id)
        if found is None:
            found = self.source.open(graph_id, viewer.token)
            with self._lock:
                viewer.graphs[graph_id] = found
        return found

    def _close(self, viewer: Viewer) -> None:
        opened, viewer.graphs = viewer.graphs, {}
        if self.source.asks_for_token:
            for graph in opened.values():
                graph.close()
        viewer.token = None
