"""Runs in a process of their own, which a test kills: one run for each line on stdin."""

from __future__ import annotations

import sys
from typing import Any

from omnigraph.settings.models import PipelineSettings
from omnigraph.spark import pipelines, spark_session

# Python workers and executors that are killed count as failures of their tasks and executors.
_PATIENT = (
    ("spark.driver.host", "127.0.0.1"),
    ("spark.executor.memory", "600m"),
    ("spark.task.maxFailures", "8"),
    ("spark.deploy.maxExecutorRetries", "-1"),
)


def serve(report: Any, file: str, master: str = "local[2,4]") -> None:
    """Report when the session is there, and the end of each run."""
    session = spark_session(PipelineSettings(master=master, driver_memory="1g", conf=_PATIENT))
    session.range(1).count()
    report("ready")
    for _ in sys.stdin:
        done = pipelines.load(file).run(session, wait_seconds=60.0)
        report(done.status.value if done.error is None else f"{done.status.value}: {done.error}")


if __name__ == "__main__":
    serve(lambda text: sys.stdout.write(f"{text}\n") and sys.stdout.flush(), *sys.argv[1:])
