"""The tables and lists of docs/performance.md, made from bench/results: no figure is typed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.overview import SECTIONS, draw_overview, rows
from bench.plot import draw, outcome

RESULTS = Path(__file__).parent / "results"
_TABLE = re.compile(r"(<!-- bench:(\w+) -->\n).*?(<!-- /bench -->)", re.DOTALL)
_LIST = re.compile(r"(<!-- list:(\w+) -->\n).*?(<!-- /list -->)", re.DOTALL)
OVERVIEW = "overview"
_OURSELVES = ("our own", "a bound", "the local engine")
"""How the name of a reference begins that is not another engine."""


def write_tables(page: Path) -> None:
    """Fill every table and list of a page, and put the plots beside it."""
    text = page.read_text(encoding="utf-8")
    page.write_text(with_tables(text), encoding="utf-8")
    plots = page.parent / "plots"
    plots.mkdir(exist_ok=True)
    for _, family, _ in _TABLE.findall(text):
        (plots / f"{family}.svg").write_text(draw(known(family)), encoding="utf-8")
    (plots / f"{OVERVIEW}.svg").write_text(overview(), encoding="utf-8")


def overview() -> str:
    """The picture of the README."""
    sections = {
        heading: [row for name in names for row in rows(known(name)["figures"], _is_ours)]
        for heading, names in SECTIONS.items()
    }
    return draw_overview(sections)


def with_tables(text: str) -> str:
    text = _TABLE.sub(lambda found: found[1] + table(known(found[2])) + found[3], text)
    return _LIST.sub(lambda found: found[1] + LISTS[found[2]](RESULTS) + found[3], text)


def table(body: dict[str, Any]) -> str:
    rows = "".join(_row(figure) for figure in body["figures"])
    notes = "".join(f"- {note}\n" for note in [*body["notes"], _circumstances(body)])
    head = "| | ours | reference | | ratio | target | against |\n|---|--:|--:|---|--:|---|---|\n"
    plot = f"![{body['family']}](plots/{body['family']}.svg)\n"
    return f"\n{head}{rows}\n{notes}\n{plot}\n"


def missed_targets(folder: Path) -> str:
    """Every target that a kept result misses."""
    rows = [
        f"| `{family}` | {_cell(figure['name'])} | {_number(figure['ratio'])} "
        f"| {_cell(figure['target'])} | {_cell(figure['against'])} |\n"
        for family, figure in _kept(folder)
        if figure["met"] is False
    ]
    if not rows:
        return "\nNo kept result misses its target.\n\n"
    head = "| family | figure | ratio | target | against |\n|---|---|--:|---|---|\n"
    return f"\n{head}{''.join(rows)}\n"


def lost_comparisons(folder: Path) -> str:
    """Every figure in which another engine, or the storage alone, is better; the worst first."""
    lost = [
        (family, figure)
        for family, figure in _kept(folder)
        if figure["ratio"] and outcome(figure) != "better" and not _is_ours(figure["against"])
    ]
    lost.sort(key=lambda found: -max(found[1]["ratio"], 1 / found[1]["ratio"]))
    rows = "".join(
        f"| `{family}` | {_cell(figure['name'])} | {_number(figure['ratio'])} "
        f"| {_cell(figure['against'])} |\n"
        for family, figure in lost
    )
    return f"\n| family | figure | ratio | against |\n|---|---|--:|---|\n{rows}\n"


LISTS: dict[str, Callable[[Path], str]] = {"missed": missed_targets, "lost": lost_comparisons}
"""The lists over all families, by the name in the comment of the page."""


def _is_ours(against: str) -> bool:
    return against.startswith(_OURSELVES)


def _kept(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    families = sorted(file.stem for file in folder.glob("*.json"))
    return [(name, figure) for name in families for figure in known(name, folder)["figures"]]


def _row(figure: dict[str, Any]) -> str:
    numbers = " | ".join(_number(figure[name]) for name in ("ours", "reference"))
    ratio = _number(figure["ratio"])
    missed = " **missed**" if figure["met"] is False else ""
    name, target, against = (_cell(figure[n]) for n in ("name", "target", "against"))
    return f"| {name} | {numbers} | {figure['unit']} | {ratio} | {target}{missed} | {against} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _number(value: float | None) -> str:
    if value is None or value != value:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _circumstances(body: dict[str, Any]) -> str:
    machine, noise = body["machine"], body.get("noise")
    said = [f"{body['scale']} scale, {machine['cpus']} cores"]
    if "when" in body:
        said.append(f"{body['when'][:10]}, load {machine['load']}")
    if noise:
        said.append(f"A/A noise CPU {noise['cpu']}, disk {noise['disk']}, p95 {noise['p95']}")
    return "; ".join(said)


def known(family: str, folder: Path = RESULTS) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{family}.json").read_text(encoding="utf-8"))
    return found
