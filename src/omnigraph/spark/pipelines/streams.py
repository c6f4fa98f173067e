"""A Structured Streaming source: a run takes its next batch, and commits it as one.

Spark's checkpoint has the offsets, and the commit has the number of the batch. After a crash Spark
gives the same batch again, and a batch whose number is recorded already is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from omnigraph.errors import OmnigraphError, PipelineFailed, PipelineInvalid
from omnigraph.spark.pipelines.model import Pipeline
from omnigraph.spark.pipelines.positions import LastRun
from omnigraph.spark.pipelines.results import PipelineRun
from omnigraph.spark.pipelines.sources import missing_package
from omnigraph.spark.pipelines.steps import job_failed

Commit = Callable[[Any, str, Any, dict[str, Any]], PipelineRun]
"""(session, name of the source, rows of the batch, position) -> the run."""


def run_batch(
    pipeline: Pipeline, spark: Any, streams: Sequence[str], last: LastRun, commit: Commit
) -> PipelineRun | None:
    """Run with the next batch of the stream; None if it has nothing new."""
    if len(streams) > 1:
        raise PipelineInvalid(
            f"one source may be a stream, not {len(streams)}: {', '.join(streams)}; a batch is "
            "what one run commits",
            problems=[{"problem": "several sources are streams"}],
            pipeline=pipeline.name,
        )
    if getattr(spark, "_sc", None) is None:
        raise PipelineInvalid(
            f"source {streams[0]}: a stream needs a session of this process, and Spark Connect "
            "runs batches in its server",
            problems=[{"problem": "streams do not run on Spark Connect"}],
            pipeline=pipeline.name,
        )
    name = streams[0]
    source = pipeline.sources[name]
    checkpoint = Path(pipeline.runs_folder) / "checkpoints" / name
    made: list[PipelineRun] = []
    failures: list[BaseException] = []

    def take(frame: Any, batch_id: int) -> None:
        position = {"checkpoint": _checkpoint_id(checkpoint), "batch": batch_id}
        before = last.source(name)
        same = before.get("checkpoint") == position["checkpoint"]
        if (same and before.get("batch", -1) >= batch_id) or frame.isEmpty():
            return
        try:
            made.append(commit(frame.sparkSession, name, frame, position))
        except BaseException as error:
            failures.append(error)
            raise

    reader = spark.readStream.format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    try:
        query = (
            reader.load()
            .writeStream.trigger(once=True)
            .option("checkpointLocation", str(checkpoint))
            .foreachBatch(take)
            .start()
        )
        query.awaitTermination()
    except Exception as error:
        if failures and isinstance(failures[0], OmnigraphError):
            raise failures[0] from error
        failed = job_failed(pipeline, error)
        missing = missing_package(source, str(error))
        message = failed.message if missing is None else f"source {name}: {missing}"
        raise PipelineFailed(message, **{**failed.fields, "source": name}) from error
    return made[-1] if made else None


def _checkpoint_id(checkpoint: Path) -> str:
    """Spark's name for a checkpoint; a new checkpoint counts batches from 0 again."""
    found: str = json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"]
    return found
