"""Answers of handlers, refusals of requests, the envelope of failures, and JSON."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from omnigraph.errors import NotFound, OmnigraphError
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.json_values import json_form, utf8_form
from omnigraph.wire.envelopes import ErrorAnswer, answer_of, refusal

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON = b"application/json"
CONDITION = b"omnigraph-if-graph-commit"
"""The request header of a conditional write."""
_encoder = msgspec.json.Encoder(enc_hook=json_form)
logger = logging.getLogger(__name__)
_INTERNAL = 500
_WRONG = 400


class Refusal(Exception):
    """A request that is refused before any graph is asked; its `code` follows from the status."""

    def __init__(
        self,
        status: int,
        message: str,
        headers: Headers | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or []
        self.details = dict(details or {})


@dataclass(slots=True)
class Reply:
    """An answer with a body. A handler may also return any object, which becomes JSON with 200."""

    body: Any
    status: int = 200
    headers: Headers = field(default_factory=list)
    media_type: bytes = JSON
    etag: str | None = None
    """The weak tag of the answer. A request that has it already gets 304."""
    is_kept: bool = False
    """The body was made for an earlier request."""
    snapshot: Snapshot | None = None
    """The head that the body was read from, when equal requests were and will be answered so."""

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else encode(self.body)


class WholeAnswer(NamedTuple):
    """An answer that is sent at once."""

    status: int
    head: bytes
    """The lines of its headers."""
    content: bytes


def head_lines(headers: Headers) -> bytes:
    """Headers as they are sent. None of them may begin another line."""
    lines = b"".join([name + b": " + value + b"\r\n" for name, value in headers])
    if lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers):
        raise ValueError("a header has a line break")
    return lines


def encode(value: Any) -> bytes:
    """A value as JSON; the forms of moments and bytes are those of data files."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        # A message repeats what a request said, and JSON can say half of a surrogate pair.
        return _encoder.encode(utf8_form(msgspec.to_builtins(value, enc_hook=json_form)))


def reply_of(error: BaseException, request_id: str) -> Reply:
    """The answer to a request that failed. Every answer from 400 on has the envelope of `wire`."""
    if isinstance(error, Refusal):
        body = refusal(error.status, error.message, request_id, detail=error.details)
        return Reply(body, error.status, list(error.headers))
    if isinstance(error, OmnigraphError):
        answer = answer_of(error, request_id)
        if isinstance(error, NotFound) and error.queries is not None:
            # The request brings its own text, and names a query that the text does not have.
            answer = ErrorAnswer(_WRONG, {**answer.envelope, "code": "bad_request"}, {})
        if answer.status >= _INTERNAL and answer.envelope.get("code") == "internal":
            logger.error("request %s failed: %s", request_id, error.message, exc_info=error)
        headers = [
            (name.lower().encode(), value.encode()) for name, value in answer.headers.items()
        ]
        return Reply(answer.envelope, answer.status, headers)
    logger.error("request %s failed", request_id, exc_info=error)
    message = "the server failed; its log says more under this request id"
    return Reply(refusal(_INTERNAL, message, request_id), _INTERNAL)


def has_tag(header: str | None, tag: str) -> bool:
    """Whether `If-None-Match` names this tag; weak and strong spellings are alike."""
    if header is None:
        return False
    held = {part.strip().removeprefix("W/") for part in header.split(",")}
    return "*" in held or f'"{tag}"' in held
