"""What an executor runs to read: some fragments of one table at its pinned version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.lance_store.reads.scan import ReadTarget, read_fragments
from omnigraph.spark.column_types import to_spark_batches


@dataclass(frozen=True, slots=True)
class FragmentScan:
    """Columns and filter of a scan, and the fragments of each of its tasks."""

    target: ReadTarget
    columns: tuple[str, ...]
    row_filter: str | None
    tasks: tuple[tuple[int, ...], ...]


def read_tasks(
    scan: FragmentScan, wanted: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow` over the numbers of the tasks."""

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                fragments = scan.tasks[number]
                for table in read_fragments(scan.target, fragments, scan.columns, scan.row_filter):
                    yield from to_spark_batches(table, wanted)

    return run
