"""`omnigraph bench`: the figures of docs/performance.md on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

import omnigraph
from omnigraph.cli.command import command
from omnigraph.cli.output import WrongUsage, print_report
from omnigraph.cli.session import Session

Families = Annotated[list[str] | None, typer.Argument(metavar="FAMILY")]
Scale = Annotated[str, typer.Option("--scale", metavar="small|full", help="How much data.")]
Keep = Annotated[bool, typer.Option("--keep", help="Keep small results as the known ones.")]


def register(app: typer.Typer) -> None:
    command(app, "bench")(bench)


def bench(
    session: Session, families: Families = None, scale: Scale = "small", keep: Keep = False
) -> None:
    """Measure against floors and peers; results and plots go to bench/results.

    All families, or those named. Small ends in under five minutes. Peers are installed into an
    environment of their own on first use. Needs the source tree.

    For example:

    \b
      omnigraph bench
      omnigraph bench query search --scale full
    """
    root = Path(omnigraph.__file__).parents[2]
    if not (root / "bench" / "harness.py").exists():
        raise WrongUsage("the bench is in the source tree: clone it and run `make bench` there")
    words = [*(families or ()), "--scale", scale, *(["--keep"] if keep else [])]
    began = time.time()
    run = [sys.executable, "-m", "bench", *words]
    done = subprocess.run(run, cwd=root, stdout=sys.stderr if session.json else None, check=False)
    if session.json:
        failure = ("the bench broke off", "bench_failed")
        body = {"exit_code": done.returncode, "families": _made_since(root, began)}
        print_report(body, failure if done.returncode else None)
    raise typer.Exit(done.returncode)


def _made_since(root: Path, moment: float) -> list[Any]:
    files = sorted((root / "bench" / "results").rglob("*.json"))
    return [json.loads(f.read_text("utf-8")) for f in files if f.stat().st_mtime >= moment]
