"""Providers behind HTTP: OpenAI and servers that speak like it, and Google's Gemini API.

Only this module imports the HTTP client, and `choose` imports it when a graph is configured for one
of these providers.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import httpx

from omnigraph.embed.provider import Vector
from omnigraph.errors import EmbeddingRefused, EmbeddingUnavailable
from omnigraph.settings.models import EmbeddingSettings
from omnigraph.values.clock import Clock

_PASSING = frozenset({408, 409, 425, 429})
"""HTTP statuses after which a request is repeated, as after every 5xx."""
_SHOWN = 300
# Only these models let the caller choose a width; other servers refuse the field.
_RESIZABLE = ("text-embedding-3",)


class OpenAiCompatibleProvider:
    """`POST <base>/embeddings`. Without a key no `Authorization` is sent."""

    base_url: ClassVar = "https://api.openai.com/v1"
    key_variable: ClassVar = "OPENAI_API_KEY"
    default_model: ClassVar = "text-embedding-3-small"
    widths: ClassVar[Mapping[str, int]] = {
        "text-embedding-3-small": 1536,
        "text-embedding-3-large": 3072,
        "text-embedding-ada-002": 1536,
    }

    def __init__(
        self, model: str, width: int, key: str | None, settings: EmbeddingSettings, clock: Clock
    ) -> None:
        self.model = model
        self.width = width
        self._batch = settings.batch_size
        base = (settings.base_url or self.base_url).rstrip("/")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._caller = HttpCaller(f"{base}/embeddings", headers, settings, clock)

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        deadline = self._caller.deadline()
        vectors: list[Vector] = []
        for start in range(0, len(texts), self._batch):
            part = list(texts[start : start + self._batch])
            body: dict[str, Any] = {"model": self.model, "input": part, "encoding_format": "float"}
            if self.model.startswith(_RESIZABLE):
                body["dimensions"] = self.width
            vectors += _openai_vectors(self._caller.post(body, deadline), len(part))
        return vectors


def _openai_vectors(answer: Any, expected: int) -> list[Vector]:
    try:
        placed = {int(item["index"]): item["embedding"] for item in answer["data"]}
        return [[float(x) for x in placed[i]] for i in range(expected)]
    except (KeyError, TypeError, ValueError) as error:
        raise _unexpected_shape(error) from error


class GeminiProvider:
    """`POST <base>/models/<model>:batchEmbedContents`."""

    base_url: ClassVar = "https://generativelanguage.googleapis.com/v1beta"
    key_variable: ClassVar = "GEMINI_API_KEY"
    default_model: ClassVar = "gemini-embedding-001"
    widths: ClassVar[Mapping[str, int]] = {"gemini-embedding-001": 3072, "text-embedding-004": 768}

    def __init__(
        self, model: str, width: int, key: str | None, settings: EmbeddingSettings, clock: Clock
    ) -> None:
        self.model = model
        self.width = width
        self._batch = settings.batch_size
        base = (settings.base_url or self.base_url).rstrip("/")
        url = f"{base}/models/{model}:batchEmbedContents"
        self._caller = HttpCaller(url, {"x-goog-api-key": key} if key else {}, settings, clock)

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        deadline = self._caller.deadline()
        vectors: list[Vector] = []
        for start in range(0, len(texts), self._batch):
            part = texts[start : start + self._batch]
            body = {"requests": [self._request(text) for text in part]}
            vectors += _gemini_vectors(self._caller.post(body, deadline))
        return vectors

    def _request(self, text: str) -> dict[str, Any]:
        return {
            "model": f"models/{self.model}",
            "content": {"parts": [{"text": text}]},
            "outputDimensionality": self.width,
        }


def _gemini_vectors(answer: Any) -> list[Vector]:
    try:
        return [[float(x) for x in item["values"]] for item in answer["embeddings"]]
    except (KeyError, TypeError, ValueError) as error:
        raise _unexpected_shape(error) from error


def _unexpected_shape(error: Exception) -> EmbeddingRefused:
    return EmbeddingRefused(f"the embedding service's answer has an unexpected shape: {error!r}")


class HttpCaller:
    """Posts JSON to one URL before a deadline, and repeats what may succeed later.

    Values of the headers are secrets, so they never occur in a message.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], settings: EmbeddingSettings, clock: Clock
    ) -> None:
        self._url = url
        self._settings = settings
        self._clock = clock
        self._client = httpx.Client(headers=dict(headers))

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
                answer = self._client.post(self._url, json=body, timeout=left)
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
