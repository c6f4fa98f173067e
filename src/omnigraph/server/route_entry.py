"""A route as data: `application` makes ASGI routes of entries, and `openapi` the document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any

Handler = Callable[[Any], Any]
"""A function of a `Call` that runs in a thread, or a coroutine function.

It returns the body, a `Reply`, or an ASGI response.
"""

READ_STATUSES = (400, 401, 403, 404, 409, 413, 429, 503)
WRITE_STATUSES = (400, 401, 403, 404, 409, 413, 415, 424, 429, 503)
CHANGE_BYTES = "len(query) + len(JSON params)"
"""What a mutation is charged to admission."""
SMALL_WRITE = "256"
"""What a write whose size does not depend on the request is charged."""

GRAPH = "graph"
SERVER = "server"


@dataclass(frozen=True, slots=True)
class RouteEntry:
    """One method of one path."""

    method: str
    path: str
    """Below `/graphs/{graph_id}`, or from the root when `place` is `SERVER`."""
    operation_id: str
    tag: str
    handler: Handler
    summary: str
    action: str | None = None
    """The action of the policy; the operation of the graph requires it, not the route."""
    place: str = GRAPH
    public: bool = False
    """Answered without a token."""
    body: type | None = None
    """A struct that the JSON body becomes."""
    body_optional: bool = False
    query: type | None = None
    """A struct that the query parameters become."""
    strict_query: bool = False
    """Unknown query parameters are refused."""
    answer: Any = None
    """The struct of the 200 body, for the document."""
    media: tuple[str, ...] = ("application/json",)
    """Media types of the answer."""
    body_media: tuple[str, ...] = ("application/json",)
    """Media types of the body."""
    body_limit: str = "body_bytes"
    """The field of `RequestLimits` that bounds the body."""
    statuses: tuple[int, ...] = ()
    """Statuses that the document lists besides 200 and those of every route."""
    admission: str | None = None
    """What is charged to admission, for the document; None is not gated."""
    successor: str | None = None
    """The route that replaces a deprecated one."""
    is_async_work: bool = False
    """Takes `Prefer: respond-async`."""
    takes_key: bool = False
    """Takes `Idempotency-Key`."""
    listed: bool = True
    """Is in the OpenAPI document."""
    inline_key: Callable[[Any], Any] | None = None
    """The identity of a read. A read that was fast before runs on the event loop; None: never."""
    kept: Callable[[Any], Any] | None = None
    """The answer of a slower read, if it was kept, without any computation; else None."""

    is_coroutine: bool = field(init=False)
    full_path: str = field(init=False)

    def __post_init__(self) -> None:
        # Asked for at every request.
        object.__setattr__(self, "is_coroutine", iscoroutinefunction(self.handler))
        nested = f"/graphs/{{graph_id}}{self.path}"
        object.__setattr__(self, "full_path", nested if self.place == GRAPH else self.path)
