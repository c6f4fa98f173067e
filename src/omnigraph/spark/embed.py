"""Ask a provider for vectors from Spark workers."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.embed.choose import choose_provider
from omnigraph.errors import OmnigraphError
from omnigraph.settings.models import EmbeddingSettings, PipelineSettings
from omnigraph.spark.jobs import collect_tasks, run_job
from omnigraph.spark.session import parallelism, spark_session
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.vectors.vector_requests import Batch, Keep, Vectors, vectors_of

_RESULT = "result binary"
_REQUESTS_PER_TASK = 8
"""Requests per core and round. A killed run repeats at most the requests of one round."""


@dataclass(frozen=True, slots=True)
class SparkRequests:
    """One request at a time on every core of the session, in rounds; each round is kept."""

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
        run = _share(self.embedding, shares)
        failed: OmnigraphError | None = None
        for row in run_job(
            session, "embed", lambda: collect_tasks(session, len(shares), run, _RESULT)
        ):
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
    """(vectors, the error that ended the requests); vectors before an error are kept."""
    found: Vectors = {}
    per_minute = settings.requests_per_minute
    try:
        provider = choose_provider(settings, os.environ, SYSTEM_CLOCK)
        for batch in batches:
            found |= vectors_of(provider, batch)
            if per_minute:
                # After the last request too, because the next round begins at once.
                SYSTEM_CLOCK.sleep(60.0 / per_minute * shares)
    except OmnigraphError as error:
        return found, error
    return found, None
