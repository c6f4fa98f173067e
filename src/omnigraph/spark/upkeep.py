"""Work on fragments by Spark workers: compaction, indexes, columns, checks; the driver commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TypeVar

import pyarrow as pa

from omnigraph.evolve.new_columns import STAGE, ColumnTask
from omnigraph.lance_store.objects.storage_location import StorageLocation
from omnigraph.lance_store.staging.compaction import run_compaction
from omnigraph.lance_store.staging.index_builds import build_segment
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.progress import tell
from omnigraph.settings.models import PipelineSettings
from omnigraph.spark.jobs import Watch, collect_tasks, run_job
from omnigraph.spark.session import parallelism, spark_session
from omnigraph.values.indexes import BuiltIndex, IndexBuild, IndexKind

_TASK, _RESULT = "task", "result"
_COLUMNS = f"{_TASK} long, {_RESULT} binary"

_ROWS_PER_PART = 250_000
"""Fewer rows are indexed faster than their part of the index is merged with the others."""

# Kinds of index that are built in parts. CPU seconds for a million rows, built at once, built in
# four parts, and to merge those: sorted 0.41, 0.33, 0.18; lists 0.42, 0.38, 0.03; but words 3.8,
# 3.4, 4.3 and substrings 2.6, 4.6, 1.3. A vector index is trained on all rows, so it is not cut.
_CUT = (IndexKind.SORTED, IndexKind.LIST)

_T = TypeVar("_T")
WorkerTask = Callable[[Store, DatasetVersion, _T], bytes | None]


@dataclass(frozen=True, slots=True)
class SparkUpkeep:
    """A `TableWork` on executors. Files of failed attempts are referenced by nothing."""

    settings: PipelineSettings
    rows_per_part: int = _ROWS_PER_PART

    def compact(self, store: Store, at: DatasetVersion, tasks: tuple[str, ...]) -> tuple[str, ...]:
        done = self.each("compaction", store, at, tasks, _compact)
        return tuple(result.decode() for result in done if result is not None)

    def index(
        self, store: Store, at: DatasetVersion, builds: tuple[IndexBuild, ...]
    ) -> tuple[BuiltIndex, ...]:
        workers = parallelism(spark_session(self.settings))
        parts = [
            (number, part)
            for number, build in enumerate(builds)
            for part in cut_build(build, min(workers, sum(build.rows) // self.rows_per_part))
        ]
        done = self.each("index", store, at, tuple(part for _, part in parts), build_segment)
        found = []
        segments = zip((number for number, _ in parts), done, strict=True)
        for number, group in groupby(segments, key=lambda pair: pair[0]):
            built = tuple(segment for _, segment in group if segment is not None)
            found.append(BuiltIndex(builds[number], built))
        return tuple(found)

    def write_columns(
        self, store: Store, at: DatasetVersion, fragments: Sequence[int], task: ColumnTask
    ) -> Sequence[str]:
        """A `ColumnWriter` of a schema change."""

        def watch(done: int, total: int) -> None:
            tell(task.what, done, max(total, len(fragments)), "tasks", STAGE)

        done = self.each(
            "columns", store, at, tuple(fragments), partial(_write_column, task), watch
        )
        return [result.decode() for result in done if result is not None]

    def each(
        self,
        name: str,
        store: Store,
        at: DatasetVersion,
        tasks: tuple[_T, ...],
        run: WorkerTask[_T],
        watch: Watch | None = None,
    ) -> list[bytes | None]:
        """The result of `run` for each task, in their order."""
        session = spark_session(self.settings)
        attempt = _running(store.location, at, tasks, run)
        done = run_job(
            session, name, lambda: collect_tasks(session, len(tasks), attempt, _COLUMNS), watch
        )
        results = {row[_TASK]: row[_RESULT] for row in done}
        return [
            None if results[number] is None else bytes(results[number])
            for number in range(len(tasks))
        ]


def cut_build(build: IndexBuild, most: int) -> list[IndexBuild]:
    """At most `most` parts of about equal size; one part if merging parts costs too much."""
    if most < 2 or build.spec.kind not in _CUT:
        return [build]
    parts: list[list[tuple[int, int]]] = [[] for _ in range(most)]
    total, before = sum(build.rows), 0
    for fragment, rows in zip(build.fragments, build.rows, strict=True):
        parts[min(before * most // max(total, 1), most - 1)].append((fragment, rows))
        before += rows
    return [
        replace(build, fragments=tuple(f for f, _ in part), rows=tuple(r for _, r in part))
        for part in parts
        if part
    ]


def _write_column(task: ColumnTask, store: Store, at: DatasetVersion, fragment: int) -> bytes:
    return task.write(store, at, fragment).encode()


def _compact(store: Store, at: DatasetVersion, task: str) -> bytes:
    return run_compaction(store, at, task).encode()


def _running(
    location: StorageLocation, at: DatasetVersion, tasks: tuple[_T, ...], run: WorkerTask[_T]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def attempt(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = Store(location)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                result = pa.array([run(store, at, tasks[number])], pa.binary())
                yield pa.record_batch({_TASK: pa.array([number]), _RESULT: result})

    return attempt
