"""One picture of all comparisons with other engines: a dot for each engine on one axis of time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from bench.plot import ENGINES

Json = dict[str, Any]

SECTIONS = {
    "Traversals, warm": ("query", "points"),
    "Vectors and text": ("search",),
    "One commit, one load": ("foundation", "load"),
}
"""The heading of a section, and the families whose comparisons it shows."""
_MILLISECONDS = {"µs": 0.001, "ms": 1.0, "s": 1000.0}
_OURS = "OmniGraph"
_COLOURS = {_OURS: "#2563eb", **ENGINES, "Lance": "#6b7280"}
"""Every other reference is Lance or Arrow without a graph; its row says how it is used."""
_WIDTH, _LEFT, _RIGHT, _TOP, _HEADING, _ROW = 860, 300, 730, 84, 30, 22
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1f2937}.h{font-weight:600;font-size:15px}"
    ".s{font-weight:600}.dim{fill:#6b7280;font-size:11px}.axis{stroke:#e5e7eb}"
    ".span{stroke:#9ca3af}"
    "@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.dim{fill:#9ca3af}"
    ".axis{stroke:#374151}.span{stroke:#6b7280}}"
)


@dataclass(frozen=True)
class Row:
    """One comparison: the milliseconds of every engine, ours among them."""

    name: str
    taken: dict[str, float]

    @property
    def words(self) -> str:
        """How we compare with the best of the others."""
        times = min(t for engine, t in self.taken.items() if engine != _OURS) / self.taken[_OURS]
        return f"{times:.3g}x faster" if times >= 1 else f"{1 / times:.3g}x slower"


def rows(figures: Sequence[Json], is_ours: Any) -> list[Row]:
    """The figures that compare times with another engine, the same work once."""
    found: dict[str, Row] = {}
    for figure in figures:
        scale = _MILLISECONDS.get(figure["unit"])
        if scale is None or figure["ratio"] is None or is_ours(figure["against"]):
            continue
        name = figure["name"].removesuffix(", against lancedb")
        others = figure.get("engines") or {_engine(figure["against"]): figure["reference"]}
        taken = {engine: value * scale for engine, value in others.items()}
        before = found[name].taken if name in found else {}
        found[name] = Row(name, {**before, **taken, _OURS: figure["ours"] * scale})
    return list(found.values())


def _engine(against: str) -> str:
    known = [engine for engine in _COLOURS if engine in against]
    return known[0] if known else "Lance"


def draw_overview(sections: dict[str, list[Row]]) -> str:
    """The SVG: rows below headings, time from left to right, each decade a line."""
    values = [t for rows in sections.values() for row in rows for t in row.taken.values()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    height = _TOP + sum(_HEADING + _ROW * len(rows) for rows in sections.values()) + 10

    def x(milliseconds: float) -> float:
        share = (math.log10(milliseconds) - low) / (high - low)
        return round(_LEFT + (_RIGHT - _LEFT) * share, 1)

    title = "Time of OmniGraph and of others for the same work (left is faster)"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img"><title>{escape(title)}</title>',
        f"<style>{_STYLE}</style>",
        f'<text class="h" x="8" y="22">{escape(title)}</text>',
        *_legend(),
    ]
    for exponent in range(low, high + 1):
        at = x(10.0**exponent)
        parts.append(f'<line class="axis" x1="{at}" x2="{at}" y1="{_TOP - 10}" y2="{height - 8}"/>')
        label = _label(exponent)
        parts.append(
            f'<text class="dim" x="{at}" y="{_TOP - 16}" text-anchor="middle">{label}</text>'
        )
    top = _TOP
    for heading, members in sections.items():
        parts.append(f'<text class="s" x="8" y="{top + 20}">{escape(heading)}</text>')
        top += _HEADING
        for row in members:
            parts += _lines(row, top, x)
            top += _ROW
    return "\n".join([*parts, "</svg>\n"])


def _legend() -> Iterator[str]:
    x = 14
    for engine, colour in _COLOURS.items():
        words = f"{engine} alone, no graph" if engine == "Lance" else engine
        yield f'<circle cx="{x}" cy="40" r="5" fill="{colour}"/>'
        yield f'<text class="dim" x="{x + 10}" y="44">{words}</text>'
        x += 34 + 6 * len(words)


def _lines(row: Row, top: int, x: Any) -> Iterator[str]:
    y = top + 8
    ends = [x(t) for t in row.taken.values()]
    yield f'<text x="20" y="{y + 4}">{escape(row.name)}</text>'
    yield f'<line class="span" x1="{min(ends)}" x2="{max(ends)}" y1="{y}" y2="{y}"/>'
    for engine, taken in sorted(row.taken.items(), key=lambda pair: pair[0] == _OURS):
        size = 6 if engine == _OURS else 4.5
        said = f"{engine}: {taken:.3g} ms"
        yield (
            f'<circle cx="{x(taken)}" cy="{y}" r="{size}" fill="{_COLOURS[engine]}">'
            f"<title>{escape(said)}</title></circle>"
        )
    yield f'<text class="dim" x="{_WIDTH - 8}" y="{y + 4}" text-anchor="end">{row.words}</text>'


def _label(exponent: int) -> str:
    if exponent < 0:
        return f"{10 ** (exponent + 3):g} µs"
    return f"{10**exponent:g} ms" if exponent < 3 else f"{10 ** (exponent - 3):g} s"
