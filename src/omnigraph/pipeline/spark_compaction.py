"""Compaction by many workers: each rewrites some fragments, the driver commits them all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.lance_store.objects.storage_location import StorageLocation
from omnigraph.lance_store.staging.stage_maintenance import run_compaction
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.pipeline.jobs import run_job
from omnigraph.pipeline.session import spark_session
from omnigraph.settings.pipeline import PipelineSettings

_RESULT = "result"


@dataclass(frozen=True, slots=True)
class SparkCompactor:
    """Has executors run compaction tasks. What failed attempts wrote is named by nothing."""

    settings: PipelineSettings

    def run_tasks(
        self, store: Store, at: DatasetVersion, tasks: tuple[str, ...]
    ) -> tuple[str, ...]:
        """A `RunTasks` of the maintenance."""
        session = spark_session(self.settings)
        numbers = session.range(0, len(tasks), 1, len(tasks))
        running = _running(store.location, at, tasks)
        rows = numbers.mapInArrow(running, f"{_RESULT} string")
        done = run_job(session, "compaction", rows.collect, lambda done, total: None)
        return tuple(row[_RESULT] for row in done)


def _running(
    location: StorageLocation, at: DatasetVersion, tasks: tuple[str, ...]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = Store(location)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield pa.record_batch({_RESULT: [run_compaction(store, at, tasks[number])]})

    return run
