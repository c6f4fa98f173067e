"""The console script. It imports nothing at the top, so that Ctrl-C always works."""

from __future__ import annotations

import sys
from typing import Any

EXIT_INTERRUPTED = 130


def run_server() -> Any:
    """The console script `omnigraph-server`: the same as `omnigraph serve`."""
    sys.argv[1:1] = ["serve"]
    return run()


def run() -> Any:
    """Run the command; Ctrl-C ends it without a traceback, even while modules are imported."""
    try:
        from omnigraph.cli.main import run as run_command

        return run_command()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
