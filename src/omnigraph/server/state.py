"""What the requests of one worker process share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from omnigraph.graph.admission import Admission
from omnigraph.server.agent_endpoint import AgentEndpoint
from omnigraph.server.cluster_source import ClusterSource
from omnigraph.server.configuration import ServerSettings
from omnigraph.server.head_watch import HeadWatch
from omnigraph.server.metrics import Metrics
from omnigraph.server.policies import ServerPolicies
from omnigraph.server.served_graphs import ServedGraphs
from omnigraph.server.tokens import Tokens
from omnigraph.values.clock import SYSTEM_CLOCK

STARTING = "starting"
SERVING = "serving"
DRAINING = "draining"


@dataclass(slots=True)
class ServerState:
    """Settings, tokens, graphs, limits and measurements of one worker."""

    settings: ServerSettings
    tokens: Tokens
    policies: ServerPolicies
    graphs: ServedGraphs
    admission: Admission
    metrics: Metrics
    version: str
    phase: str = STARTING
    reads: ThreadPoolExecutor = field(init=False)
    writes: ThreadPoolExecutor = field(init=False)
    streams: ThreadPoolExecutor = field(init=False)
    reload_lock: threading.Lock = field(default_factory=threading.Lock)
    heads: HeadWatch = field(default_factory=HeadWatch)
    """Wakes requests that wait for the next commit of a branch."""

    cluster: ClusterSource | None = None
    """Where graphs and rules come from, on a server of a cluster."""

    agents: AgentEndpoint = field(default_factory=AgentEndpoint)
    """Answers the requests of agents with the MCP SDK."""

    tell_workers: Callable[[], None] = lambda: None
    """Lets all workers of this server reload, when one of them was asked to."""

    make_document: Callable[[], bytes] = lambda: b"{}"
    _document: bytes = b""

    def __post_init__(self) -> None:
        limits = self.settings.limits
        self.reads = ThreadPoolExecutor(limits.reads + 8, "read")
        # A write that waits for its turn holds a thread, so there are more threads than turns.
        self.writes = ThreadPoolExecutor(limits.writes * 4, "write")
        self.streams = ThreadPoolExecutor(limits.streams * 2 + 8, "stream")

    def now_micros(self) -> int:
        return SYSTEM_CLOCK.now_micros()

    def openapi(self) -> bytes:
        """The document of this server, made at its first use."""
        if not self._document:
            self._document = self.make_document()
        return self._document

    @property
    def mode(self) -> str:
        """What happens to a request that no rule is about: `open`, `default-deny` or `policy`."""
        if not len(self.tokens):
            return "open"
        return "policy" if self.policies else "default-deny"

    @property
    def needs_token(self) -> bool:
        return len(self.tokens) > 0
