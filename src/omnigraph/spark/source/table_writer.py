"""Write Spark's rows as checked fragments. `write` runs in executors, `commit` beside the driver.

Only what the winning attempt of a task returns reaches `commit`. Files of attempts that failed,
were overtaken or were killed are referenced by nothing, and cleanup removes them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from omnigraph.errors import SparkFailed
from omnigraph.manifest.records import StreamBatch
from omnigraph.spark.failures import errors_for_spark
from omnigraph.spark.load.load_tasks import BegunLoad, TaskResult, run_batches
from omnigraph.spark.source.source_options import SaveRequest

if TYPE_CHECKING:
    import omnigraph
    from omnigraph.load.options import LoadOptions, LoadReceipt

_QUERY_ID = "sql.streaming.queryId"
"""Spark's name for a query over all its restarts: it is in the checkpoint."""

Messages = list[WriterCommitMessage | None]


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):
    """What one task wrote, and the id of the streaming query that it wrote for, if any."""

    result: TaskResult
    query_id: str | None


class TableWriter(DataSourceArrowWriter):
    """One frame, one commit."""

    def __init__(self, request: SaveRequest, begun: BegunLoad) -> None:
        self._request = request
        self._begun = begun

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        return _write(self._begun, iterator)

    def commit(self, messages: Messages) -> None:
        with errors_for_spark():
            commit_write(self._request, self._begun, _results(messages))

    def abort(self, messages: Messages) -> None:
        """Nothing became visible, so nothing has to be undone."""


class StreamTableWriter(DataSourceStreamArrowWriter):
    """One micro-batch, one commit that also stores the number of the batch."""

    def __init__(self, request: SaveRequest, begun: BegunLoad) -> None:
        self._request = request
        self._begun = begun

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        return _write(self._begun, iterator)

    def commit(self, messages: Messages, batchId: int) -> None:
        with errors_for_spark():
            queries = {m.query_id for m in messages if isinstance(m, TaskMessage)}
            if not queries:
                return  # no task, no rows
            (query,) = queries
            if query is None:
                raise SparkFailed("Spark did not say which streaming query this batch belongs to")
            batch = StreamBatch(query, batchId)
            commit_write(self._request, self._begun, _results(messages), batch)

    def abort(self, messages: Messages, batchId: int) -> None:
        """Nothing became visible, so nothing has to be undone."""


def _write(begun: BegunLoad, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
    task = TaskContext.get()
    with errors_for_spark():
        result = run_batches(begun.plan, begun.source, batches, task.partitionId())
        return TaskMessage(result, task.getLocalProperty(_QUERY_ID))


def _results(messages: Messages) -> list[TaskResult]:
    return [message.result for message in messages if isinstance(message, TaskMessage)]


# The driver's side: it opens the graph, so its imports are in the functions.


def begin_write(request: SaveRequest, columns: Sequence[str]) -> BegunLoad:
    from omnigraph.spark.load.two_phase_load import begin_load

    graph = _open(request)
    options = graph.load_options(_options(request))
    return begin_load(graph.engine.spark_loader, options, columns)


def commit_write(
    request: SaveRequest,
    begun: BegunLoad,
    results: Sequence[TaskResult],
    batch: StreamBatch | None = None,
) -> LoadReceipt:
    """Commit what the tasks wrote. A batch that was committed before changes nothing."""
    from omnigraph.spark.load.two_phase_load import finish_load

    graph = _open(request)
    options = graph.load_options(_options(request, batch))
    return finish_load(graph.engine.spark_loader, begun, results, options)


def _open(request: SaveRequest) -> omnigraph.Graph:
    import omnigraph
    from omnigraph.settings.config_file import read_config

    settings = read_config(request.config).settings if request.config else None
    return omnigraph.open(
        request.uri, actor=request.actor, settings=settings, policy=request.policy
    )


def _options(request: SaveRequest, batch: StreamBatch | None = None) -> LoadOptions:
    from omnigraph.load.modes import LoadMode, LoadModes
    from omnigraph.load.options import LoadOptions, OnError
    from omnigraph.load.rejects import dead_letter_file

    message = request.message
    if batch is not None and message is None:
        message = f"stream {batch.stream}, batch {batch.batch}"
    rejects: str | os.PathLike[str] | None = request.rejects
    if batch is not None and request.dead_letter is not None:
        rejects = dead_letter_file(request.dead_letter, batch)
    return LoadOptions(
        modes=LoadModes(LoadMode.parse(request.mode)),
        branch=request.branch,
        actor=request.actor,
        message=message,
        if_commit=request.if_commit,
        idempotency_key=request.idempotency_key,
        type_name=request.type_name,
        stream_batch=batch,
        on_error=OnError.parse(request.on_error),
        max_errors=request.max_errors,
        rejects=rejects,
    )
