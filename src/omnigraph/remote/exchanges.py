"""A call of a remote graph as data, without any input or output.

An operation is a generator. It yields requests, gets their answers, and returns the result of the
call. `remote.client` and `remote.async_client` send the requests, so both share every operation.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from omnigraph.errors import InvalidArgument, NotServed, OmnigraphError, ServerFailed
from omnigraph.values.json_values import json_text
from omnigraph.values.known_names import SPARK

_R = TypeVar("_R")
_E = TypeVar("_E", bound=OmnigraphError)

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"

Body = Callable[[], Iterator[bytes]]
"""Makes the chunks of a body. It is called again when the request is sent again."""


def sent_text(text: str) -> bytes:
    """A text as a request has it."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("half of a surrogate pair cannot be sent as UTF-8") from None


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """One request below the address of a graph."""

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    json: Any = None
    body: Body | None = None
    content_type: str = JSON
    accept: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    writes: bool = False
    as_read: RemoteRequest | None = None
    """The form of a request that may write in which the server refuses to write."""
    key: str | None = None
    """The idempotency key of a write. A write without a key is sent only once."""
    is_long: bool = False
    """The work may take long, so the answer is waited for much longer."""
    timeout: float | None = None
    """Seconds that the caller gives to the server."""
    streamed: bool = False
    """The answer is read in chunks."""
    once: bool = False
    """The body can be read only once, so the request is not repeated."""
    allowed: Sequence[int] = ()
    """Statuses from 300 on that are answers and not errors."""
    cancel: threading.Event | None = None
    """When another thread sets it, the connection is cut, and the server stops the query."""

    def content(self) -> bytes | None:
        """The JSON body as bytes."""
        return None if self.json is None else sent_text(json_text(self.json))


class RemoteAnswer(Protocol):
    """An answer below 400. Its body is read, or is read in chunks."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""

    def content(self) -> bytes:
        """The whole body; of a streamed answer what is left of it."""

    def rest(self) -> Iterator[bytes] | None:
        """The chunks to come, for a reader that may wait for them; None if it may not wait."""

    def repeat(self, request: RemoteRequest) -> Iterator[bytes]:
        """The chunks of another request, for a reader that may wait for them."""


@dataclass(frozen=True, slots=True)
class NextChunk:
    """Asks for the next chunk of a streamed answer; the reply is empty at the end."""

    answer: RemoteAnswer


Exchange = Generator[RemoteRequest | NextChunk, Any, _R]
"""An operation: yields `RemoteRequest`s and gets `RemoteAnswer`s, or `NextChunk`s and bytes."""


def json_of(answer: RemoteAnswer) -> Any:
    try:
        return json.loads(answer.content())
    except ValueError as error:
        raise ServerFailed(
            f"the server answered with a body that is no JSON: {error}",
            status=answer.status,
            request_id=answer.headers.get("x-request-id"),
        ) from error


def asked(request: RemoteRequest) -> Exchange[Any]:
    """Send one request; its result is the JSON of the answer."""
    answer = yield request
    return json_of(answer)


def get(path: str, *query: tuple[str, object]) -> RemoteRequest:
    """A read. Parameters that are None are left out, and lists are repeated."""
    return RemoteRequest("GET", path, parameters(*query))


def post(path: str, body: Mapping[str, Any], **more: Any) -> RemoteRequest:
    """A JSON body without the members that are None."""
    return RemoteRequest("POST", path, json=given(body), **more)


def given(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def parameters(*query: tuple[str, object]) -> tuple[tuple[str, str], ...]:
    found = []
    for name, value in query:
        values = value if isinstance(value, list | tuple) else [value]
        found += [(name, _text(item)) for item in values if item is not None]
    return tuple(found)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def retold(error: _E, message: str, fields: Mapping[str, Any]) -> _E:
    """The same error in the words of the caller; it keeps its notes, such as the request id."""
    made = type(error)(message, **fields)
    for note in getattr(error, "__notes__", ()):
        made.add_note(note)
    return made


def refuse_spark(engine: str, method: str) -> None:
    """A server works in its own processes; only loads and `embed` may name Spark."""
    if engine == SPARK:
        raise NotServed(
            f"a server does not run {method} with engine='spark'",
            method=method,
            instead="open the store itself, with omnigraph.open(uri), where Spark is",
        )


def segment(name: str) -> str:
    """A name as one segment of a path: `review/x` is `review%2Fx`."""
    return quote(name, safe="")
