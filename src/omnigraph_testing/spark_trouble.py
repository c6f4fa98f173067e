"""Tasks of Spark that get into trouble: they fail, or who runs them dies or dawdles.

It is part of the package because executors have the package and not the tests.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Trouble = Callable[[], None]


def fail() -> None:
    raise RuntimeError("a task in trouble")


def kill_worker() -> None:
    os.kill(os.getpid(), 9)


def kill_executor() -> None:
    """Two levels above a worker: its daemon's JVM."""
    os.kill(_parent(_parent(os.getpid())), 9)


def straggle() -> None:
    time.sleep(90)


TROUBLES: dict[str, Trouble] = {
    "fail": fail,
    "worker": kill_worker,
    "executor": kill_executor,
    "straggler": straggle,
}


def in_trouble_once(make_tasks: Callable[..., Any], marker: str, trouble: Trouble) -> Any:
    """The same tasks; the first attempt of all to have a result gets into trouble with it."""

    def made(*arguments: Any) -> Any:
        run = make_tasks(*arguments)

        def attempt(batches: Any) -> Any:
            for result in run(batches):
                if claim(marker):
                    trouble()
                yield result

        return attempt

    return made


def claim(marker: str) -> bool:
    """Whether this process is the first of all to come here."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _parent(process: int) -> int:
    stat = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    return int(stat.rpartition(")")[2].split()[1])
