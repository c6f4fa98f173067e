"""The flow of a run as SVG: sources on the left, steps between, targets on the right.

Columns are the longest way from a source. An arrow over several columns gets its own place in
each of them, so that no arrow runs behind a box.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

_WIDTH, _HEIGHT, _WAY = 196, 50, 22
"""The size of a box; the height that a passing arrow takes."""
_ACROSS, _DOWN, _EDGE = 96, 18, 12
_LETTERS = 25
_SWEEPS = 4


@dataclass(frozen=True, slots=True)
class FlowBox:
    """A source, step or target."""

    key: str
    title: str
    kind: str
    """`source`, `step` or `target`."""
    detail: str = ""
    bad: bool = False


@dataclass(frozen=True, slots=True)
class FlowArrow:
    """From box to box; `label` has the rows that leave the start."""

    start: str
    end: str
    label: str = ""


@dataclass(slots=True)
class _Spot:
    """The place of a box, or of an arrow that passes a column."""

    key: str
    box: FlowBox | None
    level: int
    top: float = 0.0
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    @property
    def height(self) -> int:
        return _HEIGHT if self.box else _WAY

    @property
    def left(self) -> int:
        return _EDGE + self.level * (_WIDTH + _ACROSS)

    @property
    def middle(self) -> float:
        return self.top + self.height / 2


def draw_flow(boxes: Sequence[FlowBox], arrows: Sequence[FlowArrow]) -> str:
    """An `<svg>` element with all texts escaped; colours are classes of the page."""
    if not boxes:
        return ""
    levels = _levels(boxes, arrows)
    spots = {box.key: _Spot(box.key, box, levels[box.key]) for box in boxes}
    ways = [_way(arrow, spots) for arrow in arrows]
    columns = _ordered(spots)
    height = _place(columns)
    width = _EDGE * 2 + len(columns) * _WIDTH + (len(columns) - 1) * _ACROSS
    parts = [
        f'<svg class="flow" viewBox="0 0 {width} {height:.0f}" width="{width}" '
        f'height="{height:.0f}" role="img" aria-label="flow of the run" '
        'xmlns="http://www.w3.org/2000/svg">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path class="tip" d="M0,0 L8,4 L0,8 z"/></marker></defs>',
    ]
    parts += [_path([spots[key] for key in way]) for way in ways]
    parts += [_drawn(spot) for spot in spots.values() if spot.box]
    labels = {arrow.start: arrow.label for arrow in arrows if arrow.label}
    parts += [_label(spots[key], label) for key, label in labels.items()]
    return "\n".join([*parts, "</svg>"])


def _levels(boxes: Sequence[FlowBox], arrows: Sequence[FlowArrow]) -> dict[str, int]:
    levels = {box.key: 0 for box in boxes}
    for _ in boxes:  # as many rounds as the longest way can need
        for arrow in arrows:
            levels[arrow.end] = max(levels[arrow.end], min(levels[arrow.start] + 1, len(boxes)))
    last = max(levels.values())
    return {box.key: last if box.kind == "target" else levels[box.key] for box in boxes}


def _way(arrow: FlowArrow, spots: dict[str, _Spot]) -> list[str]:
    """The spots of an arrow; makes those in the columns that it passes."""
    start, end = spots[arrow.start], spots[arrow.end]
    way = [arrow.start]
    for level in range(start.level + 1, end.level):
        key = f"{arrow.start}\0{arrow.end}\0{level}"
        spots[key] = _Spot(key, None, level)
        way.append(key)
    way.append(arrow.end)
    for left, right in pairwise(way):
        spots[left].after.append(right)
        spots[right].before.append(left)
    return way


def _ordered(spots: Mapping[str, _Spot]) -> list[list[_Spot]]:
    """The columns; spots are near the spots that they are connected with."""
    columns: list[list[_Spot]] = [[] for _ in range(max(spot.level for spot in spots.values()) + 1)]
    for spot in spots.values():
        columns[spot.level].append(spot)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        for column in columns if forward else reversed(columns):
            rank = {s.key: n for each in columns for n, s in enumerate(each)}

            def mean(spot: _Spot, rank: Mapping[str, int] = rank, forward: bool = forward) -> float:
                near = spot.before if forward else spot.after
                ranks = [rank[key] for key in near] or [rank[spot.key]]
                return sum(ranks) / len(ranks)

            column.sort(key=mean)
    return columns


def _place(columns: Sequence[Sequence[_Spot]]) -> float:
    """Set the tops, each column in the middle; returns the height of the drawing."""
    heights = [sum(s.height + _DOWN for s in column) - _DOWN for column in columns]
    whole = max(heights)
    for column, height in zip(columns, heights, strict=True):
        top = _EDGE + (whole - height) / 2
        for spot in column:
            spot.top = top
            top += spot.height + _DOWN
    return float(whole + 2 * _EDGE)


def _path(way: Sequence[_Spot]) -> str:
    points = list(_points(way))
    x, y = points[0]
    drawn = [f"M{x:.0f},{y:.1f}"]
    for right, down in points[1:]:
        bend = (x + right) / 2
        drawn.append(f"C{bend:.0f},{y:.1f} {bend:.0f},{down:.1f} {right:.0f},{down:.1f}")
        x, y = right, down
    return f'<path class="arrow" d="{" ".join(drawn)}" marker-end="url(#tip)"/>'


def _points(way: Sequence[_Spot]) -> Iterator[tuple[float, float]]:
    yield way[0].left + _WIDTH, way[0].middle
    for spot in way[1:-1]:
        yield spot.left, spot.middle
        yield spot.left + _WIDTH, spot.middle
    yield way[-1].left - 2, way[-1].middle


def _label(spot: _Spot, label: str) -> str:
    """The rows, where the arrows leave the box."""
    x, y = spot.left + _WIDTH + 8, spot.middle - 6
    return f'<text class="rows" x="{x:.0f}" y="{y:.1f}">{escape(label)}</text>'


def _drawn(spot: _Spot) -> str:
    box = spot.box
    if box is None:
        return ""
    bad = " bad" if box.bad else ""
    return (
        f'<g class="box {box.kind}{bad}"><title>{escape(box.title)}</title>'
        f'<rect x="{spot.left}" y="{spot.top:.1f}" width="{_WIDTH}" height="{_HEIGHT}" rx="8"/>'
        f'<text class="title" x="{spot.left + 12}" y="{spot.top + 21:.1f}">'
        f"{escape(_cut(box.title))}</text>"
        f'<text class="detail" x="{spot.left + 12}" y="{spot.top + 38:.1f}">'
        f"{escape(_cut(box.detail, 31))}</text></g>"
    )


def _cut(text: str, letters: int = _LETTERS) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"
