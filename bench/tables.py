"""The tables of docs/performance.md, made from bench/results: no figure is typed by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from bench.plot import draw

RESULTS = Path(__file__).parent / "results"
_PLACE = re.compile(r"(<!-- bench:(\w+) -->\n).*?(<!-- /bench -->)", re.DOTALL)


def write_tables(page: Path) -> None:
    """Fill every `<!-- bench:family -->` of a page, and put the plots beside it."""
    text = page.read_text(encoding="utf-8")
    page.write_text(with_tables(text), encoding="utf-8")
    plots = page.parent / "plots"
    plots.mkdir(exist_ok=True)
    for _, family, _ in _PLACE.findall(text):
        (plots / f"{family}.svg").write_text(draw(known(family)), encoding="utf-8")


def with_tables(text: str) -> str:
    return _PLACE.sub(lambda found: found[1] + table(known(found[2])) + found[3], text)


def table(body: dict[str, Any]) -> str:
    rows = "".join(_row(figure) for figure in body["figures"])
    notes = "".join(f"- {note}\n" for note in [*body["notes"], _circumstances(body)])
    head = "| | ours | reference | | ratio | target |\n|---|--:|--:|---|--:|---|\n"
    plot = f"![{body['family']}](plots/{body['family']}.svg)\n"
    return f"\n{head}{rows}\n{notes}\n{plot}\n"


def _row(figure: dict[str, Any]) -> str:
    numbers = (_number(figure[name]) for name in ("ours", "reference"))
    ratio = _number(figure["ratio"])
    missed = " **missed**" if figure.get("met") is False else ""
    name, target = (str(figure[n]).replace("|", "\\|") for n in ("name", "target"))
    return f"| {name} | {' | '.join(numbers)} | {figure['unit']} | {ratio} | {target}{missed} |\n"


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
