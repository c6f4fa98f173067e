"""Loads on Spark of more rows than fit the memory they are given, each in one commit.

`huge` has a 4g heap, `squeezed` a 1g heap and 512 MiB for the checks, which need several times
that; what does not fit is on disk. The peak is that of the whole tree, JVM and workers included.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from bench.harness import Figure, report
from bench.pipeline import MEMORY, child
from bench.pipeline_data import generate

SIZES = {"small": (100_000, 500_000), "full": (10_000_000, 50_000_000)}
MOST_GIB = 12
_GIB = 1024**3


def run(scale: str) -> None:
    nodes, edges = SIZES[scale]
    figures, notes = [], []
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        root = Path(folder)
        generate(root, nodes, edges, ("parquet",))
        size = sum(p.stat().st_size for p in root.glob("*.parquet")) / _GIB
        for side, (heap, checks) in MEMORY.items():
            found = child(side, root, "parquet")
            peak = found.peak / _GIB
            figures.append(
                Figure(
                    f"{side}, peak / {MOST_GIB} GiB",
                    peak,
                    MOST_GIB,
                    "GiB",
                    "<= 1",
                    against=f"a bound of {MOST_GIB} GiB",
                )
            )
            notes.append(
                f"{side}: {nodes:,} nodes + {edges:,} edges, {size:.2f} GiB of Parquet, "
                f"heap {heap}, {checks // 1024**2} MiB for the checks: {found}"
            )
            shutil.rmtree(root / f"{side}-parquet.omni")
    report("huge", figures, notes)
