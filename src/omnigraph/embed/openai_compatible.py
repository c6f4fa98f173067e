"""`POST <base>/embeddings`, as OpenAI and many local servers speak it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omnigraph.embed.http_calls import Endpoint, HttpCaller
from omnigraph.embed.provider import Vector
from omnigraph.errors import EmbeddingRefused
from omnigraph.settings.models import EmbeddingSettings
from omnigraph.values.clock import Clock

BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
DEFAULT_MODEL = "text-embedding-3-small"
WIDTHS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
# Only these let the caller choose a width; other servers refuse the field.
_RESIZABLE = ("text-embedding-3",)


class OpenAiCompatibleProvider:
    """One model of one endpoint. Without a key no `Authorization` is sent."""

    def __init__(
        self, model: str, width: int, key: str | None, settings: EmbeddingSettings, clock: Clock
    ) -> None:
        self.model = model
        self.width = width
        self._batch = settings.batch_size
        base = (settings.base_url or BASE_URL).rstrip("/")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._caller = HttpCaller(Endpoint(f"{base}/embeddings", headers), settings, clock)

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        deadline = self._caller.deadline()
        vectors: list[Vector] = []
        for start in range(0, len(texts), self._batch):
            part = list(texts[start : start + self._batch])
            body: dict[str, Any] = {"model": self.model, "input": part, "encoding_format": "float"}
            if self.model.startswith(_RESIZABLE):
                body["dimensions"] = self.width
            vectors += _vectors(self._caller.post(body, deadline), len(part))
        return vectors


def _vectors(answer: Any, expected: int) -> list[Vector]:
    try:
        placed = {int(item["index"]): item["embedding"] for item in answer["data"]}
        return [[float(x) for x in placed[i]] for i in range(expected)]
    except (KeyError, TypeError, ValueError) as error:
        raise EmbeddingRefused(
            f"the embedding service's answer has an unexpected shape: {error!r}"
        ) from error
