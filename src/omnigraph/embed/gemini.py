"""`POST <base>/models/<model>:batchEmbedContents`, Google's Gemini API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omnigraph.embed.http_calls import Endpoint, HttpCaller
from omnigraph.embed.provider import Vector
from omnigraph.errors import EmbeddingRefused
from omnigraph.settings.models import EmbeddingSettings
from omnigraph.values.clock import Clock

BASE_URL = "https://generativelanguage.googleapis.com/v1beta"
KEY_VARIABLE = "GEMINI_API_KEY"
DEFAULT_MODEL = "gemini-embedding-001"
WIDTHS = {"gemini-embedding-001": 3072, "text-embedding-004": 768}


class GeminiProvider:
    """One Gemini model."""

    def __init__(
        self, model: str, width: int, key: str | None, settings: EmbeddingSettings, clock: Clock
    ) -> None:
        self.model = model
        self.width = width
        self._batch = settings.batch_size
        base = (settings.base_url or BASE_URL).rstrip("/")
        endpoint = Endpoint(
            f"{base}/models/{model}:batchEmbedContents", {"x-goog-api-key": key} if key else {}
        )
        self._caller = HttpCaller(endpoint, settings, clock)

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        deadline = self._caller.deadline()
        vectors: list[Vector] = []
        for start in range(0, len(texts), self._batch):
            part = texts[start : start + self._batch]
            body = {"requests": [self._request(text) for text in part]}
            vectors += _vectors(self._caller.post(body, deadline))
        return vectors

    def _request(self, text: str) -> dict[str, Any]:
        return {
            "model": f"models/{self.model}",
            "content": {"parts": [{"text": text}]},
            "outputDimensionality": self.width,
        }


def _vectors(answer: Any) -> list[Vector]:
    try:
        return [[float(x) for x in item["values"]] for item in answer["embeddings"]]
    except (KeyError, TypeError, ValueError) as error:
        raise EmbeddingRefused(
            f"the embedding service's answer has an unexpected shape: {error!r}"
        ) from error
