"""Run a workload in a child process that a test, or a failpoint, kills or stops.

The child is `python -m omnigraph_testing.crash`. It inherits PYTHONPATH and the interpreter, so it
imports the same checkout as the test.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, Any

Report = Callable[[Any], None]


class Child:
    """A running workload. Its reports are what it acknowledged."""

    def __init__(self, process: subprocess.Popen[str], errors: IO[str]) -> None:
        self.process = process
        self._errors = errors
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for_report(self, timeout: float = 60) -> Any:
        """Wait for the next report."""
        line = self._lines.get(timeout=timeout)
        assert line is not None, f"the workload ended: {self._stderr()}"
        return json.loads(line)

    def reports_so_far(self) -> list[Any]:
        """The reports that were not read yet. Does not wait."""
        reports = []
        with suppress(queue.Empty):
            while (line := self._lines.get_nowait()) is not None:
                if line.endswith("\n"):
                    reports.append(json.loads(line))
            self._lines.put(None)
        return reports

    def finish(self, timeout: float = 120) -> tuple[int, list[Any], str]:
        """(exit code, the reports that were not read yet, stderr). A kill gives a negative code."""
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        reports = []
        while (line := self._lines.get()) is not None:
            # A kill may cut the last line. Such a report was not acknowledged.
            if line.endswith("\n"):
                reports.append(json.loads(line))
        return code, reports, self._stderr()

    def kill(self) -> None:
        self.process.kill()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(None)

    def _stderr(self) -> str:
        with self._errors as errors:
            errors.seek(0)
            return errors.read()


def start(
    workload: str,
    arguments: Mapping[str, Any],
    *,
    failpoints: str = "",
    environment: Mapping[str, str] | None = None,
) -> Child:
    """Start `module:function(report, **arguments)` in a new interpreter."""
    env = {**os.environ, **(environment or {}), "OMNIGRAPH_FAILPOINTS": failpoints}
    errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when the child is finished
    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraph_testing.crash", workload, json.dumps(arguments)],
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=env,
    )
    return Child(process, errors)


def _main() -> None:
    # A shell that starts the suite in the background makes children ignore interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    module, _, function = sys.argv[1].partition(":")
    workload = getattr(importlib.import_module(module), function)

    def report(value: Any) -> None:
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()

    workload(report, **json.loads(sys.argv[2]))


if __name__ == "__main__":
    _main()
