"""A provider without a model, for tests and demos: a text has the same vector everywhere."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from omnigraph.embed.provider import Vector
from omnigraph.values.text_terms import terms

DEFAULT_MODEL = "mock"
DEFAULT_WIDTH = 64


class MockProvider:
    """Adds a hashed direction for each term, so texts that share words are near each other."""

    def __init__(self, model: str = DEFAULT_MODEL, width: int = DEFAULT_WIDTH) -> None:
        self.model = model
        self.width = width

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> Vector:
        words = sorted(terms(text)) or [text]
        total = [math.fsum(column) for column in zip(*map(self._direction, words), strict=True)]
        length = math.sqrt(math.fsum(x * x for x in total))
        return [x / length for x in total]

    def _direction(self, word: str) -> list[float]:
        digest = hashlib.shake_256(f"{self.model}\0{word}".encode()).digest(2 * self.width)
        pairs = (digest[i : i + 2] for i in range(0, len(digest), 2))
        # The numerator is odd, so no component, and no direction, is ever zero.
        return [(2 * int.from_bytes(pair, "big") - 65535) / 65535 for pair in pairs]
