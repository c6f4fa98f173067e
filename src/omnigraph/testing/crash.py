"""Run a workload in a process of its own: kill it, stop it, or let a failpoint do that."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Report = Callable[[Any], None]


@dataclass
class Child:
    """A running workload; what it reported before its end is what it acknowledged."""

    process: subprocess.Popen[str]

    def finish(self, timeout: float = 120) -> tuple[int, list[Any], str]:
        """(exit code, reports, stderr); a killed process has a negative exit code."""
        out, err = self.process.communicate(timeout=timeout)
        lines = out.splitlines()
        # A kill may cut the last line short: it was never acknowledged as a whole.
        complete = lines if out.endswith("\n") else lines[:-1]
        return self.process.returncode, [json.loads(line) for line in complete], err

    def kill(self) -> None:
        self.process.kill()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def wait_for_report(self) -> Any:
        """The next report, as soon as it is there."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the workload ended: {self.process.stderr and self.process.stderr.read()}"
        return json.loads(line)


def start(
    workload: str,
    arguments: Mapping[str, Any],
    *,
    failpoints: str = "",
    environment: Mapping[str, str] | None = None,
) -> Child:
    """Start `module:function(report, **arguments)` in a new interpreter."""
    env = {**os.environ, **(environment or {}), "OMNIGRAPH_FAILPOINTS": failpoints}
    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraph.testing.crash", workload, json.dumps(arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )
    return Child(process)


def _main() -> None:
    module, _, function = sys.argv[1].partition(":")
    workload = getattr(importlib.import_module(module), function)

    def report(value: Any) -> None:
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()

    workload(report, **json.loads(sys.argv[2]))


if __name__ == "__main__":
    _main()
