"""Ask a provider for vectors: from threads of this process, or from Spark workers."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from omnigraph.embed.choose import choose_provider
from omnigraph.embed.provider import EmbeddingProvider, Vector, embed_texts
from omnigraph.errors import OmnigraphError
from omnigraph.pipeline.jobs import run_job
from omnigraph.pipeline.session import parallelism, spark_session
from omnigraph.settings.embedding import EmbeddingSettings
from omnigraph.settings.pipeline import PipelineSettings
from omnigraph.values.clock import SYSTEM_CLOCK, Clock

Batch = list[str]
Vectors = dict[str, Vector]
Keep = Callable[[Vectors], None]
_RESULT = "result binary"
_REQUESTS_PER_TASK = 8
"""What a killed run on Spark may have to ask again, per core."""


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
            keep(_vectors(self.provider, batch))

        with ThreadPoolExecutor(self.threads) as pool:
            for _ in pool.map(one, batches):  # what has not begun when one fails never does
                pass


@dataclass(frozen=True, slots=True)
class SparkRequests:
    """One request at a time on every core of the session, in rounds: each round is kept."""

    embedding: EmbeddingSettings
    pipeline: PipelineSettings

    def ask(self, batches: Sequence[Batch], keep: Keep) -> None:
        session = spark_session(self.pipeline)
        tasks = parallelism(session)
        size = tasks * _REQUESTS_PER_TASK
        for start in range(0, len(batches), size):
            self._round(session, tasks, batches[start : start + size], keep)

    def _round(self, session: Any, tasks: int, batches: Sequence[Batch], keep: Keep) -> None:
        shares = [list(batches[task::tasks]) for task in range(min(tasks, len(batches)))]
        numbers = session.range(0, len(shares), 1, len(shares))
        rows = numbers.mapInArrow(_share(self.embedding, shares), _RESULT)
        failed: OmnigraphError | None = None
        for row in run_job(session, "embed", rows.collect, lambda done, total: None):
            vectors, error = pickle.loads(row.result)
            keep(vectors)
            failed = failed or error
        if failed is not None:
            raise failed


def _share(settings: EmbeddingSettings, shares: list[list[Batch]]) -> Any:
    """A function for `mapInArrow` over the numbers of the shares."""

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            found = [_ask_share(settings, shares[n], len(shares)) for n in batch[0].to_pylist()]
            yield pa.record_batch({"result": [pickle.dumps(answer) for answer in found]})

    return run


def _ask_share(
    settings: EmbeddingSettings, batches: list[Batch], shares: int
) -> tuple[Vectors, OmnigraphError | None]:
    """What was answered, and why no more was: paid for is paid for."""
    found: Vectors = {}
    per_minute = settings.requests_per_minute
    try:
        provider = choose_provider(settings, os.environ, SYSTEM_CLOCK)
        for batch in batches:
            found |= _vectors(provider, batch)
            if per_minute:
                # After each, also the last: the next round begins at once.
                SYSTEM_CLOCK.sleep(60.0 / per_minute * shares)
    except OmnigraphError as error:
        return found, error
    return found, None


def _vectors(provider: EmbeddingProvider, batch: Batch) -> Vectors:
    answers = embed_texts(provider, batch)
    return {text: v for text, v in zip(batch, answers, strict=True) if v is not None}
