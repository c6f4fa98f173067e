"""Answers of handlers, refusals of requests, and JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from omnigraph.values.json_values import json_form

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON = b"application/json"
_encoder = msgspec.json.Encoder(enc_hook=json_form)


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

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else encode(self.body)


def encode(value: Any) -> bytes:
    """A value as JSON; the forms of moments and bytes are those of data files."""
    return _encoder.encode(value)
