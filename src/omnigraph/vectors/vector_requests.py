"""Ask a provider for vectors, from threads of this process."""

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
    """Whoever asks."""

    def ask(self, batches: Sequence[Batch], keep: Keep) -> None:
        """One request a batch; answers are kept as they come, also when a later one fails."""


class RateLimit:
    """At most so many starts a minute, spread evenly; shared by threads."""

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
    """`parallel_requests` threads of this process."""

    provider: EmbeddingProvider
    limit: RateLimit
    threads: int

    def ask(self, batches: Sequence[Batch], keep: Keep) -> None:
        def one(batch: Batch) -> None:
            self.limit.wait()
            keep(vectors_of(self.provider, batch))

        with ThreadPoolExecutor(self.threads) as pool:
            for _ in pool.map(one, batches):  # what has not begun when one fails never does
                pass


def vectors_of(provider: EmbeddingProvider, batch: Batch) -> Vectors:
    answers = embed_texts(provider, batch)
    return {text: v for text, v in zip(batch, answers, strict=True) if v is not None}
