"""A/A: the same work measured against itself, so that a reader knows what a ratio can hide."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROUNDS = 40


@dataclass(frozen=True)
class Noise:
    """Ratios of two medians of equal work taken in turns, and how far single samples spread."""

    cpu: float
    disk: float
    spread: float

    @staticmethod
    def measured() -> Noise:
        cpu, spread = _against_itself(_count)
        with tempfile.TemporaryDirectory(prefix="omnigraph-noise-") as folder:
            path = Path(folder)
            disk, _ = _against_itself(lambda: _write(path))
        return Noise(cpu, disk, spread)

    def and_now(self) -> Noise:
        """The worse of this and of the present moment."""
        now = Noise.measured()
        further = [
            max(a, b, key=_distance) for a, b in ((self.cpu, now.cpu), (self.disk, now.disk))
        ]
        return Noise(*further, max(self.spread, now.spread))

    def to_json(self) -> dict[str, Any]:
        return {
            "cpu": round(self.cpu, 3),
            "disk": round(self.disk, 3),
            "p95": round(self.spread, 2),
        }

    def __str__(self) -> str:
        return (
            f"A/A noise, the same work against itself: CPU {self.cpu:.2f}, disk {self.disk:.2f}; "
            f"p95 of one sample {self.spread:.1f} times the median"
        )


def _against_itself(work: Callable[[], None]) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(2 * _ROUNDS):
        began = time.perf_counter()
        work()
        times[number % 2].append(time.perf_counter() - began)
    ratio = statistics.median(times[0]) / statistics.median(times[1])
    both = times[0] + times[1]
    return ratio, statistics.quantiles(both, n=20)[-1] / statistics.median(both)


def _count() -> None:
    sum(range(60_000))


def _write(folder: Path) -> None:
    with (folder / "new").open("wb") as file:
        file.write(b"x" * 4096)
        os.fsync(file.fileno())
    (folder / "new").replace(folder / "old")


def _distance(ratio: float) -> float:
    return max(ratio, 1 / ratio)
