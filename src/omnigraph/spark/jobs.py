"""Run one Spark action so that it can be watched and stopped."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, TypeVar

import pyarrow as pa

from omnigraph.errors import OmnigraphError, SparkFailed
from omnigraph.spark.failures import omnigraph_error
from omnigraph.spark.session import Session, log_file_of

Watch = Callable[[int, int], None]
"""(finished tasks, known tasks); the total grows while Spark plans further stages."""

TaskRun = Callable[[Iterator[Any]], Iterator[Any]]
"""Record batches in, record batches out."""

_POLL_SECONDS = 0.5
_CAUSE = "Caused by: "
_NO_REASON = ("An error occurred while calling", "at ", _CAUSE)
_T = TypeVar("_T")


def run_job(
    session: Session, name: str, action: Callable[[], _T], watch: Watch | None = None
) -> _T:
    """The result of `action`. An interrupt cancels its Spark jobs before it is raised again."""
    context = getattr(session, "_sc", None)
    if context is None:  # Spark Connect has no tracker for the progress of jobs
        return _translated(session, name, action)
    job = _Job(context, name, action)
    try:
        job.wait(watch)
    except BaseException:
        job.cancel()
        raise
    result: _T = _translated(session, name, job.result)
    return result


def task_numbers(session: Session, count: int) -> Any:
    """A DataFrame of the numbers from 0, one for each task; `mapInArrow` runs the tasks."""
    return session.range(0, count, 1, count)


def collect_tasks(session: Session, count: int, run: TaskRun, columns: str) -> list[Any]:
    """The rows that `run`, a function for `mapInArrow`, gives for the numbers of `count` tasks.

    Without Spark Connect no DataFrame is made. The first one of a JVM takes three CPU seconds for
    the planner, its code generator and Arrow, and workers that read Arrow import pandas.
    """
    context = getattr(session, "_sc", None)
    if context is None:
        found: list[Any] = task_numbers(session, count).mapInArrow(run, columns).collect()
        return found
    rows: list[Any] = (
        context.parallelize(range(count), count).mapPartitions(_as_rows(run)).collect()
    )
    return rows


def _as_rows(run: TaskRun) -> Callable[[Iterator[int]], Iterator[Any]]:
    """The same function over numbers instead of batches."""

    def task(numbers: Iterator[int]) -> Iterator[Any]:
        as_row = import_module("pyspark.sql").Row
        for batch in run(pa.record_batch({"id": [number]}) for number in numbers):
            yield from (as_row(**row) for row in batch.to_pylist())

    return task


class _Job:
    """An action in its own thread and its own Spark job group."""

    def __init__(self, context: Any, name: str, action: Callable[[], Any]) -> None:
        self._context = context
        self._group = f"omnigraph-{name}-{uuid.uuid4().hex}"
        self._value: Any = None
        self._error: BaseException | None = None
        thread = import_module("pyspark").InheritableThread
        self._thread: threading.Thread = thread(target=self._run, args=(name, action))
        self._thread.start()

    def wait(self, watch: Watch | None) -> None:
        while self._thread.is_alive():
            self._thread.join(_POLL_SECONDS)
            if watch is not None:
                watch(*self._tasks())

    def cancel(self) -> None:
        # Repeated, because a job that is not submitted yet cannot be cancelled yet.
        while self._thread.is_alive():
            self._context.cancelJobGroup(self._group)
            self._thread.join(_POLL_SECONDS)

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._value

    def _run(self, name: str, action: Callable[[], Any]) -> None:
        self._context.setJobGroup(self._group, name, interruptOnCancel=True)
        try:
            self._value = action()
        except BaseException as error:  # noqa: BLE001 - `result` raises it in the thread that waits
            self._error = error

    def _tasks(self) -> tuple[int, int]:
        """(finished, known) tasks, without skipped stages: those never finish a task."""
        tracker = self._context.statusTracker()
        done = total = 0
        for job_id in tracker.getJobIdsForGroup(self._group):
            job = tracker.getJobInfo(job_id)
            for stage_id in job.stageIds if job else ():
                stage = tracker.getStageInfo(stage_id)
                if stage and (stage.numActiveTasks or stage.numCompletedTasks):
                    done += stage.numCompletedTasks
                    total += stage.numTasks
        return done, total


def _translated(session: Session, name: str, action: Callable[[], _T]) -> _T:
    try:
        return action()
    except OmnigraphError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        ours = omnigraph_error(error)
        if ours is not None:
            raise ours from error
        log = log_file_of(session)
        where = f"; the log of Spark is {log}" if log else ""
        raise SparkFailed(
            f"the Spark job of this {name} failed: {_reason(error)}{where}", log_file=log
        ) from error


def _reason(error: Exception) -> str:
    """The last line of a worker's own traceback, else what the JVM says, with its root cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if ": " in line and line.split(":")[0].endswith("Error")]
    if python:
        return python[-1]
    said = [line.lstrip(": ") for line in lines if not line.startswith(_NO_REASON)]
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    return "; ".join([*(said or [type(error).__name__])[:1], *causes[-1:]])
