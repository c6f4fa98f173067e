"""Cross-origin requests: off unless the operator names the origins that may call."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.server.exchange import Exchange
from omnigraph.server.replies import Headers, Reply

_EXPOSED = (
    b"ETag, Retry-After, X-Request-Id, Omnigraph-Snapshot-Id, Content-Range, Deprecation, Link"
)
_METHODS = b"GET, HEAD, POST, DELETE"
_ALLOWED = (
    b"Authorization, Content-Type, Content-Encoding, Accept, Idempotency-Key, If-Match, "
    b"If-None-Match, If-Range, Range, Prefer, X-Request-Id, Omnigraph-If-Graph-Commit, traceparent"
)
_PREFLIGHT_SECONDS = b"600"


class Cors:
    """Answers preflights before authentication, and marks answers to known origins."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)

    async def handled(self, exchange: Exchange) -> bool:
        """True when the request was a preflight and is answered."""
        if not self._origins:
            return False
        given = {name: value for name, value in exchange.scope["headers"] if name in _LOOKED_AT}
        origin = given.get(b"origin")
        exchange.headers.append((b"vary", b"Origin"))
        if origin is None or (origin not in self._origins and b"*" not in self._origins):
            return False
        any_origin = b"*" in self._origins
        exchange.headers.append((b"access-control-allow-origin", b"*" if any_origin else origin))
        if exchange.scope["method"] == "OPTIONS" and _REQUESTED in given:
            headers: Headers = [
                (b"access-control-allow-methods", _METHODS),
                (b"access-control-allow-headers", _ALLOWED),
                (b"access-control-max-age", _PREFLIGHT_SECONDS),
            ]
            exchange.route = "preflight"
            await exchange.answer(Reply(b"", 204, headers))
            return True
        exchange.headers.append((b"access-control-expose-headers", _EXPOSED))
        return False


_REQUESTED = b"access-control-request-method"
_LOOKED_AT = frozenset({b"origin", _REQUESTED})
