"""Merges with the Spark engine but without a JVM: tasks are pickled and run in this process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from omnigraph.merge.output import MergeEngine
from omnigraph.spark import engine_choice
from omnigraph.spark.merge import spark_merge
from omnigraph.spark.merge.merge_tasks import (
    RESULT,
    MergePlan,
    MergeReport,
    merge_tasks,
    read_report,
    task_row,
)
from omnigraph.values.known_names import SPARK


@contextmanager
def tasks_here(ids_per_task: int = 50) -> Iterator[list[int]]:
    """Every merge uses the Spark engine. Yields a list of the number of tasks of each wave."""
    waves: list[int] = []
    to_workers = spark_merge.SparkMerger.engine

    def engine(merger: spark_merge.SparkMerger, reason: str) -> MergeEngine:
        return to_workers(replace(merger, ids_per_task=ids_per_task, few_ids=0), reason)

    def run_wave(session: Any, plan: MergePlan, chunks: list[pa.Array]) -> Iterator[MergeReport]:
        assert session is None
        waves.append(len(chunks))
        shipped = pickle.dumps(plan)
        for number, ids in enumerate(chunks):
            run = merge_tasks(pickle.loads(shipped))
            for batch in run(iter([task_row(number, ids)])):
                yield read_report(batch.column(RESULT)[0].as_py())

    choice = engine_choice.EngineChoice(SPARK, "for a test")
    with (
        patch.object(engine_choice, "choose_merge_engine", lambda *_: choice),
        patch.object(spark_merge.SparkMerger, "engine", engine),
        patch.object(spark_merge, "spark_session", lambda _: None),
        patch.object(spark_merge, "_run_wave", run_wave),
    ):
        yield waves
