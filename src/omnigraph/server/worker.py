"""The process of one worker: `python -m omnigraph.server.worker SOCKET PIPE`."""

from __future__ import annotations

import sys

from omnigraph.server.supervisor import run_as_worker

if __name__ == "__main__":
    sys.exit(run_as_worker(int(sys.argv[1]), int(sys.argv[2])))
