"""Measure, compare in one run, print a table, keep a JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """One measured ratio: ours against a floor or peer of the same run."""

    name: str
    ours: float
    reference: float
    unit: str
    target: str
    better: str = "lower"

    @property
    def ratio(self) -> float:
        return self.ours / self.reference if self.reference else float("nan")


def milliseconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def p50(values: Sequence[float]) -> float:
    return statistics.median(values)


def report(family: str, figures: Sequence[Figure], notes: Sequence[str] = ()) -> None:
    """Print and keep the figures of one family."""
    width = max(len(f.name) for f in figures)
    print(f"\n{family}")
    print(f"{'':{width}}  {'ours':>10} {'reference':>10} unit       ratio  target")
    for f in figures:
        print(
            f"{f.name:{width}}  {f.ours:10.2f} {f.reference:10.2f} {f.unit:9} "
            f"{f.ratio:6.2f}  {f.target}"
        )
    for note in notes:
        print(f"  {note}")
    RESULTS.mkdir(exist_ok=True)
    body = {
        "family": family,
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version()},
        "figures": [{**asdict(f), "ratio": round(f.ratio, 3)} for f in figures],
        "notes": list(notes),
    }
    (RESULTS / f"{family}.json").write_text(json.dumps(body, indent=1) + "\n")
