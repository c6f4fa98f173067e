"""Measure, compare in one run, print a table, keep JSON and a plot."""

from __future__ import annotations

import datetime as dt
import json
import math
import operator
import os
import platform
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.noise import Noise
from bench.plot import draw

RESULTS = Path(__file__).parent / "results"
STATED = "stated"
"""The target of a figure that has none."""
_TARGET = re.compile(r"(<=|<|>=|>) (\d+(?:\.\d+)?)(?: (\S+))?")

_SIGNS = {"<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt}


@dataclass(frozen=True)
class Figure:
    """One measured ratio: ours against a floor or peer of the same run.

    A target bounds the ratio (`<= 2`), or our own figure when it names its unit (`< 500 ms`).
    """

    name: str
    ours: float
    reference: float
    unit: str
    target: str
    better: str = "lower"
    against: str = field(kw_only=True)
    """What the reference is. A name that begins with `our own` or `a bound` is no other engine."""
    engines: dict[str, float] = field(default_factory=dict, kw_only=True)
    """The figure of every other engine by its name, where the reference is the best of several."""

    def __post_init__(self) -> None:
        if not self.against and not math.isnan(self.reference):
            raise ValueError(f"{self.name}: the figure does not say what it is compared with")
        wanted = _TARGET.fullmatch(self.target)
        if self.target != STATED and (wanted is None or wanted[3] not in (None, self.unit)):
            raise ValueError(f"{self.name}: the target {self.target!r} judges nothing")

    @property
    def ratio(self) -> float:
        return self.ours / self.reference if self.reference else float("nan")

    @property
    def met(self) -> bool | None:
        """Whether the target holds; None without one, or where nothing was measured."""
        wanted = _TARGET.fullmatch(self.target)
        judged = self.ours if wanted and wanted[3] else self.ratio
        if wanted is None or math.isnan(judged):
            return None
        return _SIGNS[wanted[1]](judged, float(wanted[2]))

    def to_json(self) -> dict[str, Any]:
        numbers = {"ours": self.ours, "reference": self.reference, "ratio": self.ratio}
        rounded = {n: None if math.isnan(v) else float(f"{v:.4g}") for n, v in numbers.items()}
        return {**asdict(self), **rounded, "met": self.met}


@dataclass(frozen=True)
class Run:
    """The run that `report` belongs to: how large, since when, where its results go."""

    scale: str = "small"
    folder: Path = RESULTS / "small"
    began: float = 0.0
    noise: Noise | None = None


_current = Run()


def begin(scale: str, folder: Path) -> None:
    """Measure the noise of the machine and remember it for the report that follows."""
    global _current
    _current = Run(scale, folder, time.perf_counter(), Noise.measured())


def milliseconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def p50(values: Sequence[float]) -> float:
    return statistics.median(values)


def report(family: str, figures: Sequence[Figure], notes: Sequence[str] = ()) -> None:
    """Print and keep the figures of one family."""
    run = _current
    noise = (run.noise or Noise.measured()).and_now()
    body = {
        "family": family,
        "scale": run.scale,
        "when": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "seconds": round(time.perf_counter() - run.began, 1) if run.began else None,
        "machine": {
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "load": round(os.getloadavg()[0], 1),
        },
        "noise": noise.to_json(),
        "figures": [figure.to_json() for figure in figures],
        "notes": list(notes),
    }
    _print(body, figures, noise)
    run.folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(body, indent=1, ensure_ascii=False)
    (run.folder / f"{family}.json").write_text(text + "\n", encoding="utf-8")
    (run.folder / f"{family}.svg").write_text(draw(body), encoding="utf-8")


def _print(body: dict[str, Any], figures: Sequence[Figure], noise: Noise) -> None:
    width = max(len(f.name) for f in figures)
    taken = "" if body["seconds"] is None else f", {body['seconds']:.0f} s"
    print(f"\n{body['family']} ({body['scale']}{taken})")
    print(f"{'':{width}}  {'ours':>10} {'reference':>10} unit       ratio  target")
    for f in figures:
        missed = "  MISSED" if f.met is False else ""
        print(
            f"{f.name:{width}}  {f.ours:10.2f} {f.reference:10.2f} {f.unit:9} "
            f"{f.ratio:6.2f}  {f.target}{missed}"
        )
    for note in [*body["notes"], str(noise)]:
        print(f"  {note}")


def _commit() -> str | None:
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=10", "HEAD"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None
