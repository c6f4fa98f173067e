"""Spark's rows as checked fragments. `write` runs in executors, `commit` beside the driver.

Only what the winning attempt of a task returns reaches `commit`: files of failed, overtaken and
killed attempts are named by nothing, and cleanup takes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from omnigraph.errors import SparkFailed
from omnigraph.spark.load.handoff import Handoff
from omnigraph.spark.load.input_pieces import read_batches
from omnigraph.spark.load.load_tasks import TaskResult, run_task
from omnigraph.spark.source.failures import told_to_spark
from omnigraph.spark.source.options import SaveRequest

_QUERY_ID = "sql.streaming.queryId"
"""Spark's name for a query over all its restarts: it is in the checkpoint."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task wrote, and for which streaming query if for one."""

    result: TaskResult
    query_id: str | None


Messages = list[WriterCommitMessage | None]


def _write(handoff: Handoff, batches: Iterator[pa.RecordBatch]) -> Written:
    task = TaskContext.get()
    with told_to_spark():
        result = TaskResult(task.partitionId())
        plan = handoff.plan
        blocks = read_batches(handoff.source, batches, plan.catalog, plan.options, result)
        return Written(run_task(plan, blocks, result), task.getLocalProperty(_QUERY_ID))


def _results(messages: Messages) -> list[TaskResult]:
    return [message.result for message in messages if isinstance(message, Written)]


class TableWriter(DataSourceArrowWriter):
    """One frame, one commit."""

    def __init__(self, request: SaveRequest, handoff: Handoff) -> None:
        self._request = request
        self._handoff = handoff

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _write(self._handoff, iterator)

    def commit(self, messages: Messages) -> None:
        from omnigraph.spark.source.writes import commit_write

        with told_to_spark():
            commit_write(self._request, self._handoff, _results(messages))

    def abort(self, messages: Messages) -> None:
        """Nothing became visible, so nothing has to be undone."""


class StreamTableWriter(DataSourceStreamArrowWriter):
    """One micro-batch, one commit that moves the stream's mark with it."""

    def __init__(self, request: SaveRequest, handoff: Handoff) -> None:
        self._request = request
        self._handoff = handoff

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _write(self._handoff, iterator)

    def commit(self, messages: Messages, batchId: int) -> None:
        from omnigraph.spark.source.writes import commit_write

        with told_to_spark():
            queries = {m.query_id for m in messages if isinstance(m, Written)}
            if not queries:
                return  # no task, no rows
            (query,) = queries
            if query is None:
                raise SparkFailed("Spark did not say which streaming query this batch belongs to")
            commit_write(self._request, self._handoff, _results(messages), (query, batchId))

    def abort(self, messages: Messages, batchId: int) -> None:
        """Nothing became visible, so nothing has to be undone."""
