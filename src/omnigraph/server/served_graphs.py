"""The graphs of a server: opened side by side, set aside when they cannot be opened."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from omnigraph.catalog.model import Catalog
from omnigraph.cluster.graph_work import applied_settings
from omnigraph.cluster.serving import GraphToServe
from omnigraph.errors import (
    InvalidArgument,
    NotFound,
    OmnigraphError,
    PolicyDenied,
    Unavailable,
)
from omnigraph.graph.access import Gate
from omnigraph.graph.admission import Admission
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.graph.stored_queries import reload_queries
from omnigraph.ir.data_scope import DataScope
from omnigraph.policy.actions import ANYWHERE, READ, SCHEMA_READ
from omnigraph.server.configuration import RequestLimits
from omnigraph.server.replies import Refusal
from omnigraph.settings.models import Settings
from omnigraph.values.clock import SYSTEM_CLOCK, Clock
from omnigraph.values.identifiers import GRAPH_ID, RESERVED_GRAPH_IDS

logger = logging.getLogger(__name__)

DEFAULT_ID = "default"
FIRST_RETRY_SECONDS = 5.0
LONGEST_RETRY_SECONDS = 300.0
RETIRED_SECONDS = 600.0
"""How long a graph stays open after it is no longer served, for the requests in flight."""
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
    if not GRAPH_ID.fullmatch(graph_id) or graph_id in RESERVED_GRAPH_IDS:
        raise InvalidArgument(
            f"{graph_id!r} is no id of a graph: 1 to 64 letters, digits and `-`, and none of "
            + ", ".join(sorted(RESERVED_GRAPH_IDS))
        )
    return graph_id


@dataclass(slots=True)
class ServedGraph:
    """One open graph under its id, with a handle for each actor."""

    graph_id: str
    uri: str
    graph: Graph
    gate: Gate | None = None
    _handles: dict[str | None, Graph] = field(default_factory=dict)

    def as_actor(self, actor: str | None) -> Graph:
        found = self._handles.get(actor)
        if found is None:
            if len(self._handles) >= _MOST_HANDLES:
                self._handles.clear()
            found = self._handles[actor] = self.graph.as_actor(actor)
        return found

    def bounded_by(self, gate: Gate | None) -> ServedGraph:
        """The same open graph with another gate; handles of the old one keep theirs."""
        return ServedGraph(self.graph_id, self.uri, self.graph.as_actor(None, gate=gate), gate)


@dataclass(frozen=True, slots=True)
class QuarantinedGraph:
    """A graph that could not be opened, and when the next attempt is due."""

    graph_id: str
    uri: str
    code: str
    message: str
    attempts: int = 1
    retry_at: float = 0.0
    """By the monotonic clock."""


@dataclass(frozen=True, slots=True)
class ServedChanges:
    """How the graphs of a server changed."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, list[str]]:
        return {
            "added": list(self.added),
            "removed": list(self.removed),
            "changed": list(self.changed),
            "failed": list(self.failed),
        }


class ServedGraphs:
    """The graphs by id."""

    def __init__(
        self,
        graphs: Iterable[GraphToServe],
        settings: Settings,
        limits: RequestLimits,
        admission: Admission,
        gates: Callable[[str], Gate | None],
        *,
        read_only: bool,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._wanted = {each.graph_id: each for each in graphs}
        self._settings = settings_for(settings, limits)
        self._admission = admission
        self._gates = gates
        self._read_only = read_only
        self._clock = clock
        self._open: dict[str, ServedGraph] = {}
        self._retired: list[tuple[float, Graph]] = []
        self.quarantined: dict[str, QuarantinedGraph] = {}

    def __iter__(self) -> Iterator[ServedGraph]:
        return iter(list(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)

    @property
    def wanted_count(self) -> int:
        """How many graphs there are, open or not."""
        return len(self._wanted)

    def open_all(self) -> None:
        """Open every graph that is not open. Those that fail are set aside, with the reason."""
        self._open_these([name for name in self._wanted if name not in self._open])

    def serve(self, graphs: Iterable[GraphToServe]) -> ServedChanges:
        """Serve these graphs from now on. Requests in flight end on the handles that they have."""
        wanted = {each.graph_id: each for each in graphs}
        before, self._wanted = self._wanted, wanted
        removed = [name for name in before if name not in wanted]
        changed = [name for name in wanted if name in before and wanted[name] != before[name]]
        for name in removed:
            self.quarantined.pop(name, None)
            self._retire(self._open.pop(name, None))
        new = [name for name in wanted if name not in before]
        self._open_these([*new, *changed])
        for served in self:
            gate = self._gates(served.graph_id)
            if gate is not served.gate:
                self._open[served.graph_id] = served.bounded_by(gate)
        return ServedChanges(
            tuple(sorted(name for name in new if name in self._open)),
            tuple(sorted(removed)),
            tuple(sorted(name for name in changed if name in self._open)),
            tuple(sorted(self.quarantined)),
        )

    def reload_queries(self) -> None:
        """Read directories of stored queries again; raises why the old ones of a graph stay."""
        for served in self:
            broken = reload_queries(served.graph.access).breakages
            if broken:
                raise InvalidArgument(f"graph {served.graph_id}: {broken[0]}")

    @property
    def due(self) -> list[str]:
        """Graphs that were set aside and whose next attempt is due."""
        now = self._clock.monotonic()
        return [name for name, found in self.quarantined.items() if found.retry_at <= now]

    def heal(self) -> list[str]:
        """Try again to open the graphs that are due, and close those that were retired long ago."""
        now = self._clock.monotonic()
        for when, graph in [each for each in self._retired if each[0] <= now]:
            self._retired.remove((when, graph))
            graph.close()
        due = self.due
        self._open_these(due)
        return [name for name in due if name in self._open]

    def _open_these(self, names: list[str]) -> None:
        if not names:
            return
        with ThreadPoolExecutor(_OPEN_AT_ONCE, "open") as pool:
            for name, found in zip(names, pool.map(self._opened, names), strict=True):
                # In one step, so that a request always finds the graph, or why it is not served.
                self._retire(self._open.get(name))
                if isinstance(found, ServedGraph):
                    self._open[name] = found
                    self.quarantined.pop(name, None)
                else:
                    self._set_aside(found)
                    self._open.pop(name, None)

    def _set_aside(self, found: QuarantinedGraph) -> None:
        before = self.quarantined.get(found.graph_id)
        attempts = 1 if before is None else before.attempts + 1
        pause = min(FIRST_RETRY_SECONDS * 2 ** (attempts - 1), LONGEST_RETRY_SECONDS)
        retry_at = self._clock.monotonic() + pause
        self.quarantined[found.graph_id] = replace(found, attempts=attempts, retry_at=retry_at)
        if before is None or before.message != found.message:
            logger.error(
                "graph quarantined",
                extra={"fields": {"graph_id": found.graph_id, "error": found.message}},
            )

    def _retire(self, served: ServedGraph | None) -> None:
        if served is not None:
            when = self._clock.monotonic() + RETIRED_SECONDS
            self._retired.append((when, served.graph))

    def _opened(self, name: str) -> ServedGraph | QuarantinedGraph:
        wanted = self._wanted[name]
        uri = wanted.uri
        if wanted.refusal is not None:
            return QuarantinedGraph(name, uri, *wanted.refusal)
        try:
            graph = open_graph(
                uri,
                read_only=self._read_only,
                settings=_settings_of(self._settings, wanted),
                queries=wanted.queries or None,
            )
            broken = graph.queries.validate().breakages
            if broken:
                graph.close()
                return QuarantinedGraph(name, uri, "query_typecheck_error", str(broken[0]))
        except OmnigraphError as error:
            return QuarantinedGraph(name, uri, error.code, error.message)
        gate = self._gates(name)
        bounded = graph.as_actor(None, gate=gate, admission=self._admission)
        return ServedGraph(name, uri, bounded, gate)

    def find(self, graph_id: str) -> ServedGraph:
        """The open graph with this id, or the refusal that the contract names."""
        found = self._open.get(graph_id)
        if found is not None:
            return found
        if not GRAPH_ID.fullmatch(graph_id):
            raise Refusal(400, f"{graph_id!r} is no id of a graph: 1 to 64 letters, digits and -")
        aside = self.quarantined.get(graph_id)
        if aside is not None:
            # The reason may name storage, so only `/graphs` tells it, to those who run the server.
            wait = max(1.0, aside.retry_at - self._clock.monotonic())
            raise Unavailable(
                f"graph {graph_id!r} is set aside, because it cannot be served now",
                reason="quarantined",
                retry_after=wait,
            )
        raise NotFound(f"no graph {graph_id!r} on this server")

    @property
    def default(self) -> ServedGraph | None:
        """The graph of the flat routes: the only one, or the one whose id is `default`."""
        if len(self._wanted) == 1:
            return next(iter(self._open.values()), None)
        return self._open.get(DEFAULT_ID)

    def close(self) -> None:
        for served in self:
            served.graph.close()
        for _, graph in self._retired:
            graph.close()


def _settings_of(settings: Settings, wanted: GraphToServe) -> Settings:
    """The settings of one graph: its embedding provider, its retention, and its external blobs."""
    allowed = settings.external_blobs if wanted.blobs is None else wanted.blobs
    chosen = applied_settings(settings, wanted.profile, wanted.retention)
    return replace(chosen, external_blobs=allowed.for_server())


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
