"""One request on its way: what the pipeline found out about it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.graph.handle import Graph
from omnigraph.server.replies import Headers, Receive, Refusal, Scope
from omnigraph.server.route_entry import RouteEntry
from omnigraph.server.served_graphs import ServedGraph
from omnigraph.server.state import ServerState


@dataclass(slots=True)
class Call:
    """A request and its context. `body` and `query` are decoded as the route declares them."""

    state: ServerState
    route: RouteEntry
    scope: Scope
    receive: Receive
    request_id: str
    path: Mapping[str, str]
    actor: str | None = None
    served: ServedGraph | None = None
    body: Any = None
    query: Any = None
    raw: bytes = b""
    """The body as it came, decoded; empty for a route that reads it as a stream."""
    headers: Headers = field(default_factory=list)
    """Further headers of the answer."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Fields of the access line: `query_name`, `graph_commit_id`."""
    operation_key: str | None = None
    """The key that an operation made up, when the client gave none."""
    _cancel: threading.Event | None = None
    _given: dict[bytes, bytes] | None = None

    @property
    def cancel(self) -> threading.Event:
        """Set when the client goes away; reads stop then."""
        if self._cancel is None:
            self._cancel = threading.Event()
        return self._cancel

    @cancel.setter
    def cancel(self, event: threading.Event) -> None:
        self._cancel = event

    @property
    def graph_id(self) -> str | None:
        return self.served.graph_id if self.served is not None else None

    @property
    def graph(self) -> Graph:
        """The graph of the path, as the caller of the request."""
        assert self.served is not None
        return self.served.as_actor(self.actor)

    def header(self, name: bytes) -> str | None:
        """The value of a request header, by its name in lower case; the last one counts."""
        if self._given is None:
            self._given = dict(self.scope["headers"])
        value = self._given.get(name)
        return None if value is None else value.decode("latin-1")

    def headers_named(self, name: bytes) -> list[bytes]:
        return [value for given, value in self.scope["headers"] if given == name]

    def closes_connection(self) -> None:
        """The answer is the last one on this connection."""
        self.scope["exchange"].headers.append((b"connection", b"close"))

    def timeout(self, asked_ms: int | None = None) -> float | None:
        """Seconds that this read may take: the limit of the server, or less if asked for."""
        most = self.state.settings.limits.query_timeout_ms
        if asked_ms is not None and asked_ms <= 0:
            raise InvalidArgument("timeout_ms is at least 1", option="timeout_ms")
        if asked_ms is None:
            return most / 1000 if most else None
        return min(asked_ms, most) / 1000 if most else asked_ms / 1000

    @property
    def idempotency_key(self) -> str | None:
        """The `Idempotency-Key` header: at most 128 visible ASCII characters."""
        key = self.header(b"idempotency-key")
        if key is None:
            return self.operation_key
        if not 1 <= len(key) <= 128 or not all("!" <= letter <= "~" for letter in key):
            raise Refusal(400, "Idempotency-Key is 1 to 128 visible ASCII characters")
        return key
