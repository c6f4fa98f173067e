"""Run a workload in a child process that a test, or a failpoint, kills or stops.

The child is a fork of `omnigraph_testing.fork_server`, or `python -m omnigraph_testing.crash`. It
inherits PYTHONPATH and the interpreter, so it imports the same checkout as the test.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import IO, Any

from omnigraph_testing.fork_server import ForkedProcess, ForkServer, serve_forks

Report = Callable[[Any], None]


class Child:
    """A running workload. Its reports are what it acknowledged."""

    def __init__(
        self, process: subprocess.Popen[str] | ForkedProcess, lines: IO[str], errors: IO[str]
    ) -> None:
        self.process = process
        self._output = lines
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
        with self._output as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(None)

    def _stderr(self) -> str:
        with self._errors as errors:
            errors.seek(0)
            return errors.read()


@cache
def _forks() -> ForkServer:
    return ForkServer()


def start(
    workload: str,
    arguments: Mapping[str, Any],
    *,
    failpoints: str = "",
    environment: Mapping[str, str] | None = None,
    new_interpreter: bool = False,
) -> Child:
    """Start `module:function(report, **arguments)` in a new process.

    `new_interpreter` starts Python instead of a fork, for workloads that measure their memory or
    start Spark.
    """
    env = {**os.environ, **(environment or {}), "OMNIGRAPH_FAILPOINTS": failpoints}
    command = [workload, json.dumps(arguments)]
    errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when the child is finished
    reader, writer = os.pipe()
    process: subprocess.Popen[str] | ForkedProcess | None = None
    try:
        if not new_interpreter:
            process = _forks().start(command, env, writer, errors.fileno())
        if process is None:
            process = subprocess.Popen(
                [sys.executable, "-m", "omnigraph_testing.crash", *command],
                stdout=writer,
                stderr=errors,
                text=True,
                env=env,
            )
    finally:
        os.close(writer)
    return Child(process, os.fdopen(reader), errors)


def run_workload(workload: str, arguments: str) -> None:
    """The child: run the workload, and write its reports to stdout."""
    # A shell that starts the suite in the background makes children ignore interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    module, _, function = workload.partition(":")
    called = getattr(importlib.import_module(module), function)

    lock = threading.Lock()

    def report(value: Any) -> None:
        with lock:
            sys.stdout.write(json.dumps(value) + "\n")
            sys.stdout.flush()

    called(report, **json.loads(arguments))


def _main(*arguments: str) -> None:
    """`WORKLOAD JSON` runs a workload; `FD` serves forks that do."""
    command: list[str] | None = [*arguments]
    if len(arguments) == 1:
        with socket.socket(fileno=int(arguments[0])) as requests:
            command = serve_forks(requests)
    if command is not None:
        run_workload(*command)


if __name__ == "__main__":
    _main(*sys.argv[1:])
