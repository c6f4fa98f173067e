"""A run in a process of its own, which a test kills."""

from __future__ import annotations

import sys
from typing import Any

from omnigraph.settings.models import PipelineSettings
from omnigraph.spark import pipelines, spark_session


def run(report: Any, file: str, master: str = "local[2,4]") -> None:
    """Run once; reports when the session is there, and the end."""
    session = spark_session(PipelineSettings(master=master, driver_memory="1g"))
    session.range(1).count()
    report("ready")
    done = pipelines.load(file).run(session, wait_seconds=60.0)
    report(done.status.value)


if __name__ == "__main__":
    run(lambda text: sys.stdout.write(f"{text}\n") and sys.stdout.flush(), *sys.argv[1:])
