"""The graphs of a server: opened side by side, set aside when they cannot be opened."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from omnigraph.catalog.model import Catalog
from omnigraph.errors import InvalidArgument, NotFound, OmnigraphError, PolicyDenied
from omnigraph.graph.access import Gate
from omnigraph.graph.admission import Admission
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.ir.data_scope import DataScope
from omnigraph.policy.actions import ANYWHERE, READ, SCHEMA_READ
from omnigraph.server.configuration import RequestLimits
from omnigraph.server.replies import Refusal
from omnigraph.settings.models import Settings
from omnigraph.stored_queries.registry import QueryPlace

logger = logging.getLogger(__name__)

DEFAULT_ID = "default"
_GRAPH_ID = re.compile(r"[a-zA-Z0-9-]{1,64}")
_RESERVED = frozenset(
    {"policies", "healthz", "openapi", "graphs", "readyz", "metrics", "cluster", "admin", "mcp"}
)
_OPEN_AT_ONCE = 4
_LOAD_MEMORY_BYTES = 128 * 1024 * 1024
_MOST_HANDLES = 4096


class ReadsOnly:
    """The gate of a graph without a policy on a server with tokens: all may read, and only read."""

    def require(
        self,
        actor: str | None,
        action: str,
        branch: str | None,
        target: str | None,
        query: str | None = None,
    ) -> None:
        if self.allows(actor, action, branch):
            return
        raise PolicyDenied(
            f"{actor or 'an unnamed actor'} may not {action}: this graph has no policy, so actors "
            "may only read it; give it one with --policy",
            action=action,
            branch=None if branch == ANYWHERE else branch,
            target_branch=target,
            actor_id=actor,
        )

    def allows(
        self,
        actor: str | None,
        action: str,
        branch: str | None,
        target: str | None = None,
        query: str | None = None,
    ) -> bool:
        return action in (READ, SCHEMA_READ)

    def scope(
        self, actor: str | None, action: str, branch: str | None, catalog: Catalog
    ) -> DataScope | None:
        return None


def check_graph_id(graph_id: str) -> str:
    if not _GRAPH_ID.fullmatch(graph_id) or graph_id in _RESERVED:
        raise InvalidArgument(
            f"{graph_id!r} is no id of a graph: 1 to 64 letters, digits and `-`, and none of "
            + ", ".join(sorted(_RESERVED))
        )
    return graph_id


@dataclass(slots=True)
class ServedGraph:
    """One open graph under its id, with a handle for each actor."""

    graph_id: str
    uri: str
    graph: Graph
    _handles: dict[str | None, Graph] = field(default_factory=dict)

    def as_actor(self, actor: str | None) -> Graph:
        found = self._handles.get(actor)
        if found is None:
            if len(self._handles) >= _MOST_HANDLES:
                self._handles.clear()
            found = self._handles[actor] = self.graph.as_actor(actor)
        return found


@dataclass(frozen=True, slots=True)
class QuarantinedGraph:
    """A graph that could not be opened."""

    graph_id: str
    uri: str
    code: str
    message: str


class ServedGraphs:
    """The graphs by id."""

    def __init__(
        self,
        addresses: Mapping[str, str],
        settings: Settings,
        limits: RequestLimits,
        admission: Admission,
        gates: Callable[[str], Gate | None],
        *,
        read_only: bool,
        queries: Mapping[str, QueryPlace] | None = None,
    ) -> None:
        self.addresses = {check_graph_id(name): uri for name, uri in addresses.items()}
        self._settings = settings_for(settings, limits)
        self._admission = admission
        self._gates = gates
        self._read_only = read_only
        self._queries = dict(queries or {})
        self._open: dict[str, ServedGraph] = {}
        self.quarantined: dict[str, QuarantinedGraph] = {}

    def __iter__(self) -> Iterator[ServedGraph]:
        return iter(list(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)

    def open_all(self) -> None:
        """Open every graph that is not open. Those that fail are set aside, with the reason."""
        missing = [name for name in self.addresses if name not in self._open]
        with ThreadPoolExecutor(_OPEN_AT_ONCE, "open") as pool:
            for name, found in zip(missing, pool.map(self._opened, missing), strict=True):
                if isinstance(found, ServedGraph):
                    self._open[name] = found
                    self.quarantined.pop(name, None)
                else:
                    self.quarantined[name] = found
                    logger.error(
                        "graph quarantined during startup",
                        extra={"fields": {"graph_id": name, "error": found.message}},
                    )

    def _opened(self, name: str) -> ServedGraph | QuarantinedGraph:
        uri = self.addresses[name]
        try:
            graph = open_graph(
                uri,
                read_only=self._read_only,
                settings=self._settings,
                queries=self._queries.get(name),
            )
            broken = graph.queries.validate().breakages
            if broken:
                graph.close()
                return QuarantinedGraph(name, uri, "query_typecheck_error", str(broken[0]))
        except OmnigraphError as error:
            return QuarantinedGraph(name, uri, error.code, error.message)
        bounded = graph.as_actor(None, gate=self._gates(name), admission=self._admission)
        return ServedGraph(name, uri, bounded)

    def find(self, graph_id: str) -> ServedGraph:
        """The open graph with this id, or the refusal that the contract names."""
        found = self._open.get(graph_id)
        if found is not None:
            return found
        if not _GRAPH_ID.fullmatch(graph_id):
            raise Refusal(400, f"{graph_id!r} is no id of a graph: 1 to 64 letters, digits and -")
        raise NotFound(f"no graph {graph_id!r} on this server")

    @property
    def default(self) -> ServedGraph | None:
        """The graph of the flat routes: the only one, or the one whose id is `default`."""
        if len(self.addresses) == 1:
            return next(iter(self._open.values()), None)
        return self._open.get(DEFAULT_ID)

    def close(self) -> None:
        for served in self:
            served.graph.close()


def settings_for(settings: Settings, limits: RequestLimits) -> Settings:
    """The settings of the engine with the limits of a server."""
    read = settings.read
    if limits.query_memory_bytes:
        read = replace(read, memory_bytes=limits.query_memory_bytes)
    if limits.query_rows:
        read = replace(read, max_rows=limits.query_rows)
    if limits.query_timeout_ms:
        read = replace(read, timeout_seconds=limits.query_timeout_ms / 1000)
    read = replace(read, answer_bytes=limits.answer_bytes)
    # Many loads run at once, so each checks its rows in little memory and the rest on disk.
    memory = min(settings.load.memory_bytes, _LOAD_MEMORY_BYTES)
    return replace(settings, read=read, load=replace(settings.load, memory_bytes=memory))
