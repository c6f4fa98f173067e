"""Which requests are sent again, after how long, and which error is raised if that does not help.

A request is sent again only where that cannot do anything twice: a read, a write that has an
idempotency key, and a request that did not reach the server. An answer from 400 to 499 is final,
except for the answer that the same write, sent before by this client, is still running.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from omnigraph.errors import (
    InvalidArgument,
    OmnigraphError,
    OutcomeUnknown,
    RequestInFlight,
    ServerUnavailable,
)
from omnigraph.remote.exchanges import RemoteRequest
from omnigraph.settings.models import ClientSettings
from omnigraph.wire.envelopes import error_of, retry_after

_FIRST_WAIT_SECONDS = 0.1
_LONGEST_WAIT_SECONDS = 60.0
_MOST_IN_FLIGHT_WAITS = 600
_GRACE_SECONDS = 5.0
_BEFORE_SENDING = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_SILENT = (httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ReadTimeout, httpx.WriteTimeout)
_GATEWAY = (502, 504)
_UNAVAILABLE = 503
_TOO_MANY = 429


@dataclass(slots=True)
class Attempts:
    """The attempts of one request."""

    request: RemoteRequest
    server: str
    settings: ClientSettings
    made: int = 0
    in_flight: int = 0
    lost: bool = False
    """An earlier attempt may have reached the server, and its answer did not arrive."""
    _random: random.Random = field(default_factory=random.Random)

    def timeout(self) -> httpx.Timeout:
        request, settings = self.request, self.settings
        wait = settings.work_seconds if request.is_long else settings.answer_seconds
        if request.timeout is not None:
            wait = request.timeout + _GRACE_SECONDS
        return httpx.Timeout(wait, connect=settings.connect_seconds)

    def after_failure(self, error: httpx.TransportError) -> float:
        """Seconds to wait before the next attempt; raises if there is none."""
        self.made += 1
        reached = not isinstance(error, _BEFORE_SENDING)
        self.lost = self.lost or reached
        final = reached and not self._may_repeat(error)
        if final or self.made >= self.settings.attempts:
            raise self._given_up(error)
        return self._wait()

    def _may_repeat(self, error: httpx.TransportError) -> bool:
        if self.request.once:
            return False
        if self.request.writes:
            return self.request.key is not None
        # A read that got no answer in time would not get one in the same time again.
        return not isinstance(error, _SILENT)

    def _given_up(self, error: httpx.TransportError) -> OmnigraphError:
        silent = isinstance(error, _SILENT)
        told = "gave no answer in time" if silent else f"cannot be reached: {error}"
        if self.request.writes and self.lost:
            return OutcomeUnknown(
                f"{self.server} {told}, so this write may be done or not; repeat it with the same "
                f"idempotency key {self.request.key!r} to find out",
                idempotency_key=self.request.key,
            )
        return ServerUnavailable(
            f"{self.server} {told}", reason="timeout" if silent else "connect", server=self.server
        )

    def after_answer(
        self, status: int, headers: Mapping[str, str], content: bytes
    ) -> float | OmnigraphError:
        """Seconds to wait before the next attempt, or the error that the answer stands for."""
        if 300 <= status < 400:
            return InvalidArgument(
                f"{self.server} answered with a redirect to {headers.get('location', 'nowhere')}; "
                "a client follows none, because its token is for this server: open that address",
                uri=headers.get("location"),
            )
        told = {name.lower(): value for name, value in headers.items()}
        error = error_of(status, _json(content), told)
        after = retry_after(told)
        if isinstance(error, RequestInFlight) and self.lost:
            self.in_flight += 1
            if self.in_flight < _MOST_IN_FLIGHT_WAITS:
                return min(after or 1.0, _LONGEST_WAIT_SECONDS)
            return self._unknown(error)
        self.made += 1
        repeats = status in _GATEWAY or (status == _UNAVAILABLE and after is not None)
        safe = not self.request.once and (not self.request.writes or self.request.key is not None)
        if not repeats or not safe or self.made >= self.settings.attempts:
            return self._unknown(error) if self._is_unknown(status) else error
        self.lost = self.lost or status in _GATEWAY
        return self._wait() if after is None else min(after, _LONGEST_WAIT_SECONDS)

    def _is_unknown(self, status: int) -> bool:
        """A gateway, or this client before, got no answer, so a write may be done."""
        refused = status == _TOO_MANY or status >= 500
        return self.request.writes and (status in _GATEWAY or (self.lost and refused))

    def _unknown(self, error: OmnigraphError) -> OmnigraphError:
        if isinstance(error, OutcomeUnknown):
            return error
        return OutcomeUnknown(
            f"{error.message}; this write may be done or not: repeat it with the same idempotency "
            f"key {self.request.key!r} to find out",
            idempotency_key=self.request.key,
        )

    def _wait(self) -> float:
        longest = min(_FIRST_WAIT_SECONDS * 2.0 ** (self.made - 1), 2.0)
        return longest * (0.5 + self._random.random() / 2)


def cut_off(error: httpx.TransportError, server: str) -> OmnigraphError:
    """An answer that ended before it was complete."""
    told = "gave no more of its answer in time" if isinstance(error, _SILENT) else "broke off"
    return ServerUnavailable(
        f"{server} {told}: {error}; what arrived is incomplete", reason="cut_off", server=server
    )


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode("utf-8", "replace")


def http_headers(request: RemoteRequest) -> dict[str, str]:
    """The headers of a request, without those of every request of the client."""
    found = {"Accept": request.accept, **request.headers}
    if request.json is not None or request.body is not None:
        found["Content-Type"] = request.content_type
    if request.key is not None:
        found["Idempotency-Key"] = request.key
    return found


def client_headers(token: str | None, settings: ClientSettings, version: str) -> dict[str, str]:
    """The headers of every request. The token goes to this server only: redirects are off."""
    found = {"User-Agent": f"omnigraph-python/{version}"}
    if not settings.compressed:
        found["Accept-Encoding"] = "identity"
    return found if token is None else {**found, "Authorization": f"Bearer {token}"}
