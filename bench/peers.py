"""The environment of the peers, apart from ours, because their dependencies may conflict."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

PEERS = ("kuzu==0.11.3", "ladybug>=0.22,<0.23", "lancedb>=0.30", "pyarrow", "numpy")
ENVIRONMENT = Path(__file__).parent / ".peers"


def peer_python() -> str:
    """Its interpreter. It is made at its first use, and again when the list of peers changes."""
    python, made = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "made-for.txt"
    wanted = "\n".join(PEERS)
    if not python.exists() or not made.exists() or made.read_text() != wanted:
        print("installing the peers into", ENVIRONMENT, file=sys.stderr)
        home = ENVIRONMENT.resolve()
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PEERS], check=True)
        made.write_text(wanted)
    return str(python)
