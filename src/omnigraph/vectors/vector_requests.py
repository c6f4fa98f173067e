"""Requests to a provider for many vectors, and how threads of this process send them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from omnigraph.embed.provider import EmbeddingProvider, Vector, embed_texts
from omnigraph.values.clock import Clock

Batch = list[str]
Vectors = dict[str, Vector]
Keep = Callable[[Vectors], None]


class VectorRequests(Protocol):
    """A way to send requests: threads here, or workers (`spark.embed.SparkRequests`)."""

    def ask(self, batches: Sequence[Batch], keep: Keep) -> None:
        """One request a batch. Each answer is kept at once, even if a later request fails."""


class RateLimit:
    """Spreads at most `per_minute` requests evenly over a minute. Threads share it."""

    def __init__(self, per_minute: float | None, clock: Clock) -> None:
        self._pause = 60.0 / per_minute if per_minute else 0.0
        self._clock = clock
        self._lock = threading.Lock()
        self._next = 0.0

    def wait(self) -> None:
        if not self._pause:
            return
        with self._lock:
            now = self._clock.monotonic()
            start = max(now, self._next)
            self._next = start + self._pause
        self._clock.sleep(start - now)


@dataclass(frozen=True, slots=True)
class ThreadRequests:
    """Requests from several threads of this process."""

    provider: EmbeddingProvider
    limit: RateLimit
    threads: int

    def ask(self, batches: Sequence[Batch], keep: Keep) -> None:
        def one(batch: Batch) -> None:
            self.limit.wait()
            keep(vectors_of(self.provider, batch))

        with ThreadPoolExecutor(self.threads) as pool:
            for _ in pool.map(one, batches):  # a failed request stops those that have not begun
                pass


def vectors_of(provider: EmbeddingProvider, batch: Batch) -> Vectors:
    answers = embed_texts(provider, batch)
    return {text: v for text, v in zip(batch, answers, strict=True) if v is not None}
