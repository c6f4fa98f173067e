"""One family as an SVG: a bar per ratio on a logarithmic axis, 1 in the middle, misses marked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from typing import Any

_WIDTH, _LABELS, _ROW, _TOP = 860, 380, 22, 44
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1f2937}.h{font-weight:600;font-size:14px}"
    ".good{fill:#4f7fd9}.bad{fill:#d97706}.axis{stroke:#9ca3af}.dim{fill:#6b7280}"
    "@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.dim{fill:#9ca3af}}"
)


def draw(body: dict[str, Any]) -> str:
    figures = [f for f in body["figures"] if f["ratio"] is not None and f["ratio"] > 0]
    height = _TOP + _ROW * len(figures) + 12
    decades = max((abs(math.log10(f["ratio"])) for f in figures), default=0)
    decades = max(1.0, math.ceil(decades * 2) / 2)
    title = f"{body['family']} ({body['scale']}): ours / reference"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img"><title>{escape(title)}</title>',
        f"<style>{_STYLE}</style>",
        f'<text class="h" x="8" y="20">{escape(title)}</text>',
        *_axis(decades, height),
        *(line for n, figure in enumerate(figures) for line in _bar(figure, n, decades)),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _axis(decades: float, height: int) -> Iterator[str]:
    for exponent in range(-math.floor(decades), math.floor(decades) + 1):
        x = _x(10.0**exponent, decades)
        yield f'<line class="axis" x1="{x}" x2="{x}" y1="{_TOP - 6}" y2="{height - 8}"/>'
        place = f'x="{x}" y="{_TOP - 10}" text-anchor="middle"'
        yield f'<text class="dim" {place}>{10.0**exponent:g}</text>'


def _bar(figure: dict[str, Any], number: int, decades: float) -> Iterator[str]:
    y = _TOP + _ROW * number
    one, end = _x(1.0, decades), _x(figure["ratio"], decades)
    lost = figure["ratio"] < 1 if figure["better"] == "higher" else figure["ratio"] > 1
    kind = "bad" if figure["met"] is False or (figure["met"] is None and lost) else "good"
    left, width = min(one, end), max(abs(end - one), 1)
    yield f'<text x="8" y="{y + 14}">{escape(figure["name"])}</text>'
    yield f'<rect class="{kind}" x="{left}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 7}"/>'
    beyond = max(one, end) + 4
    missed = " missed" if figure["met"] is False else ""
    yield f'<text class="dim" x="{beyond:.1f}" y="{y + 14}">{figure["ratio"]:.3g}{missed}</text>'


def _x(ratio: float, decades: float) -> float:
    middle, half = (_LABELS + _WIDTH - 70) / 2, (_WIDTH - 70 - _LABELS) / 2
    return round(middle + half * math.log10(ratio) / decades, 1)
