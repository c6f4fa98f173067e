"""POST JSON with a deadline; wait and repeat what may pass, refuse at once what will not."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from omnigraph.errors import EmbeddingRefused, EmbeddingUnavailable
from omnigraph.settings.models import EmbeddingSettings
from omnigraph.values.clock import Clock

_PASSING = frozenset({408, 409, 425, 429})
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go. Header values are secrets: they never reach a message."""

    url: str
    headers: Mapping[str, str]


class HttpCaller:
    """One connection pool for one endpoint."""

    def __init__(self, endpoint: Endpoint, settings: EmbeddingSettings, clock: Clock) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._clock = clock
        self._client = httpx.Client(headers=dict(endpoint.headers))

    def deadline(self) -> float:
        return self._clock.monotonic() + self._settings.deadline_seconds

    def post(self, body: Mapping[str, Any], deadline: float) -> Any:
        """The JSON answer, before `deadline` on the monotonic clock."""
        reason = "the deadline had passed"
        for attempt in range(self._settings.attempts):
            left = deadline - self._clock.monotonic()
            if left <= 0:
                break
            try:
                answer = self._client.post(self._endpoint.url, json=body, timeout=left)
            except httpx.TransportError as error:
                reason, asked = f"{type(error).__name__}: {error}", None
            else:
                if answer.is_success:
                    return _json(answer)
                if answer.status_code not in _PASSING and answer.status_code < 500:
                    raise EmbeddingRefused(
                        f"the embedding service refused: HTTP {answer.status_code} {_text(answer)}",
                        status=answer.status_code,
                    )
                reason = f"HTTP {answer.status_code} {_text(answer)}"
                asked = _retry_after(answer)
            pause = asked if asked is not None else self._backoff(attempt)
            if self._clock.monotonic() + pause >= deadline:
                break
            if attempt + 1 < self._settings.attempts:
                self._clock.sleep(pause)
        raise EmbeddingUnavailable(
            f"the embedding service did not answer in time: {reason}", reason=reason
        )

    def _backoff(self, attempt: int) -> float:
        return self._settings.backoff_seconds * 2.0**attempt * random.uniform(0.5, 1.0)


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError as error:
        raise EmbeddingRefused(
            f"the embedding service did not answer JSON: {_text(answer)}"
        ) from error


def _text(answer: httpx.Response) -> str:
    return answer.text[:_SHOWN]


def _retry_after(answer: httpx.Response) -> float | None:
    try:
        return max(0.0, float(answer.headers.get("Retry-After", "")))
    except ValueError:
        return None
