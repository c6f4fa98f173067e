"""The console script: nothing is imported before an interrupt can be answered."""

from __future__ import annotations

import sys
from typing import Any

EXIT_INTERRUPTED = 130


def run() -> Any:
    """Run the command; Ctrl-C ends it without a traceback, also while modules are imported."""
    try:
        from omnigraph.cli.main import run as run_command

        return run_command()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
