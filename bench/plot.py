"""The figures of one family as an SVG: one bar for each ratio, on a logarithmic axis.

Figures of which less is better and figures of which more is better have an axis each, and each axis
says which side is better. A row names its reference. The colour of a bar says whether we are better
or worse than the reference, or missed our target; a tick is the target. Where the reference is the
best of several engines, a dot in the colour of each engine stands where its bar would end. Ratios
are at the right edge.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

Json = dict[str, Any]

_WIDTH, _LEFT, _RIGHT = 860, 330, 760
"""The plot, and the ends of its axes; labels are left of them, numbers right of them."""
_TITLE, _PANEL, _ROW, _BAR = 46, 46, 34, 13
_NEAR = (0.1, 0.2, 0.5, 0.8, 0.9, 1.0, 1.1, 1.25, 2.0, 5.0, 10.0)
"""Ticks of an axis that spans less than two decades."""
_WORDS_OF_ONE = 55
"""Half the width of the words at 1, and some space."""
_LEAST_SIDE = 0.2
"""Each side of 1 gets at least this share of an axis, so that its words have room."""
ENGINES = {"kuzu": "#a16207", "ladybug": "#16a34a", "lancedb": "#9333ea"}
"""The colour of every other engine, in all plots."""
_COLOURS = {"better": "#4f7fd9", "worse": "#d97706", "missed": "#c0262d"}
_WORDS = {
    "better": "better than the reference, or equal",
    "worse": "worse than the reference",
    "missed": "target missed",
}
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1f2937}.h{font-weight:600;font-size:14px}"
    ".dim{fill:#6b7280;font-size:11px}.axis{stroke:#d1d5db}.one{stroke:#6b7280}"
    ".target{stroke:#1f2937;stroke-width:2}.peer{stroke:#fff}.side{font-size:11px;font-weight:600}"
    + "".join(f".{name}{{fill:{colour}}}" for name, colour in _COLOURS.items())
    + "@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.dim{fill:#9ca3af}"
    ".axis{stroke:#4b5563}.one{stroke:#9ca3af}.target{stroke:#e5e7eb}}"
)
_RATIO_TARGET = re.compile(r"(?:<=|<|>=|>) (\d+(?:\.\d+)?)")
"""A target without a unit bounds the ratio, so it has a place on the axis."""


def draw(body: Json) -> str:
    """The SVG of a family, from the JSON of its results."""
    panels = _panels([f for f in body["figures"] if f["ratio"] is not None and f["ratio"] > 0])
    height = _TITLE + sum(panel.height for panel in panels) + 8
    title = f"{body['family']} ({body['scale']} scale): our figure / the reference"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img"><title>{escape(title)}</title>',
        f"<style>{_STYLE}</style>",
        f'<text class="h" x="8" y="20">{escape(title)}</text>',
        *_legend(_engines(body["figures"])),
    ]
    top = _TITLE
    for panel in panels:
        parts += panel.lines(top)
        top += panel.height
    return "\n".join([*parts, "</svg>\n"])


def outcome(figure: Json) -> str:
    """`better`, `worse` or `missed`: a missed target counts more than the comparison."""
    if figure["met"] is False:
        return "missed"
    more = figure["better"] == "higher"
    lost = figure["ratio"] < 1 if more else figure["ratio"] > 1
    return "worse" if lost else "better"


def _engines(figures: Sequence[Json]) -> list[str]:
    return sorted({engine for figure in figures for engine in figure.get("engines", {})})


def _legend(engines: Sequence[str]) -> Iterator[str]:
    x = 8
    for name, words in _WORDS.items():
        yield f'<rect class="{name}" x="{x}" y="30" width="10" height="10"/>'
        yield f'<text class="dim" x="{x + 15}" y="39">{words}</text>'
        x += 25 + 6 * len(words)
    yield f'<line class="target" x1="{x + 4}" x2="{x + 4}" y1="29" y2="41"/>'
    yield f'<text class="dim" x="{x + 12}" y="39">target</text>'
    x += 60
    for engine in engines:
        yield f'<circle cx="{x + 5}" cy="35" r="4" fill="{ENGINES[engine]}"/>'
        yield f'<text class="dim" x="{x + 13}" y="39">{engine}</text>'
        x += 28 + 6 * len(engine)


def _panels(figures: Sequence[Json]) -> list[_Panel]:
    both = ("lower", "higher")
    chosen = {better: [f for f in figures if f["better"] == better] for better in both}
    return [_Panel(better, tuple(found)) for better, found in chosen.items() if found]


@dataclass(frozen=True)
class _Panel:
    """The figures of one direction, below an axis that says which side is better."""

    better: str
    figures: tuple[Json, ...]

    @property
    def height(self) -> int:
        return _PANEL + _ROW * len(self.figures)

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The exponents of the ends of the axis; 1, whose exponent is 0, is always inside."""
        shown = [f["ratio"] for f in self.figures]
        shown += [target for f in self.figures if (target := _target(f)) is not None]
        shown += [ratio for f in self.figures for _, ratio in _others(f)]
        exponents = [math.log10(ratio) for ratio in shown]
        low, high = min(0.0, *exponents), max(0.0, *exponents)
        room = max(_LEAST_SIDE * (high - low), 0.05)
        return min(low, -room), max(high, room)

    def lines(self, top: int) -> Iterator[str]:
        yield from self._axis(top)
        for number, figure in enumerate(self.figures):
            yield from self._row(figure, top + _PANEL + _ROW * number)

    def _axis(self, top: int) -> Iterator[str]:
        less = self.better == "lower"
        what = "less is better" if less else "more is better"
        sides = ("◀ better", "worse ▶") if less else ("◀ worse", "better ▶")
        yield f'<text class="side" x="8" y="{top + 16}">{what}</text>'
        for words, x, anchor in zip(sides, (_LEFT, _RIGHT), ("start", "end"), strict=True):
            yield f'<text class="side" x="{x}" y="{top + 16}" text-anchor="{anchor}">{words}</text>'
        for ratio in self._ticks():
            x, kind = self._x(ratio), "one" if ratio == 1 else "axis"
            ends = f'y1="{top + 36}" y2="{top + self.height - 4}"'
            yield f'<line class="{kind}" x1="{x}" x2="{x}" {ends}/>'
            words = "1 = reference" if ratio == 1 else f"{ratio:g}"
            yield f'<text class="dim" x="{x}" y="{top + 31}" text-anchor="middle">{words}</text>'

    def _ticks(self) -> list[float]:
        """1, and round ratios inside the axis whose numbers do not run into its words."""
        low, high = self.ends
        whole = [10.0**n for n in range(math.ceil(low), math.floor(high) + 1)]
        ratios = whole if len(whole) > 2 else _NEAR
        inside = [ratio for ratio in ratios if low <= math.log10(ratio) <= high]
        return [r for r in inside if r == 1 or abs(self._x(r) - self._x(1.0)) > _WORDS_OF_ONE]

    def _row(self, figure: Json, y: int) -> Iterator[str]:
        kind = outcome(figure)
        one, end = self._x(1.0), self._x(figure["ratio"])
        left, width = min(one, end), max(abs(end - one), 1.5)
        against = f"against {figure['against']}" if figure.get("against") else ""
        yield f'<text x="8" y="{y + 11}">{escape(figure["name"])}</text>'
        yield f'<text class="dim" x="8" y="{y + 25}">{escape(against)}</text>'
        yield (
            f'<rect class="{kind}" x="{left:.1f}" y="{y + 6}" width="{width:.1f}" height="{_BAR}"/>'
        )
        target = _target(figure)
        if target is not None:
            x = self._x(target)
            yield f'<line class="target" x1="{x}" x2="{x}" y1="{y + 3}" y2="{y + 22}"/>'
        for engine, ratio in _others(figure):
            words = escape(f"{engine}: {ratio:.3g} times the reference")
            yield (
                f'<circle class="peer" cx="{self._x(ratio)}" cy="{y + 12}" r="4.5" '
                f'fill="{ENGINES[engine]}"><title>{words}</title></circle>'
            )
        missed = " missed" if kind == "missed" else ""
        number = f"{figure['ratio']:.3g}{missed}"
        yield f'<text class="dim" x="{_WIDTH - 8}" y="{y + 17}" text-anchor="end">{number}</text>'

    def _x(self, ratio: float) -> float:
        low, high = self.ends
        share = (math.log10(ratio) - low) / (high - low)
        return round(_LEFT + (_RIGHT - _LEFT) * share, 1)


def _others(figure: Json) -> list[tuple[str, float]]:
    """Every other engine, and its figure divided by the reference."""
    return [
        (name, value / figure["reference"]) for name, value in figure.get("engines", {}).items()
    ]


def _target(figure: Json) -> float | None:
    found = _RATIO_TARGET.fullmatch(figure["target"])
    return float(found[1]) if found else None
