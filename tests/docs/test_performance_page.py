"""docs/performance.md shows what bench/results holds."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"


@pytest.fixture(autouse=True)
def _bench_is_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])


def test_tables_and_plots_are_current() -> None:
    from bench.plot import draw
    from bench.tables import OVERVIEW, known, overview, with_tables

    text = PAGE.read_text(encoding="utf-8")
    assert with_tables(text) == text, "run `make docs`"
    plots = {
        file.stem: file.read_text(encoding="utf-8") for file in PAGE.parent.glob("plots/*.svg")
    }
    assert plots.pop(OVERVIEW) == overview()
    assert plots == {family: draw(known(family)) for family in plots}


def test_every_kept_result_is_shown() -> None:
    text = PAGE.read_text(encoding="utf-8")
    kept = [file.stem for file in (ROOT / "bench" / "results").glob("*.json")]
    assert [family for family in kept if f"<!-- bench:{family} -->" not in text] == []


def test_a_target_bounds_the_ratio_or_with_its_unit_our_own_figure() -> None:
    from bench.harness import Figure

    def met(ours: float, target: str, reference: float = 1.0) -> bool | None:
        return Figure("x", ours, reference, "ms", target, against="a floor").met

    assert (met(2.0, "<= 2"), met(2.1, "<= 2"), met(0.4, "< 0.5")) == (True, False, True)
    assert (met(1.0, ">= 1"), met(0.9, ">= 1"), met(1.0, "stated")) == (True, False, None)
    assert (met(0.2, "<= 0.3 ms", 0.01), met(0.4, "<= 0.3 ms", 9.0)) == (True, False)
    assert met(float("nan"), "<= 2") is None


@pytest.mark.parametrize("words", ["as above", "<= 2x", "", "<= 2 s", "ratio <= 2"])
def test_a_target_that_judges_nothing_is_refused(words: str) -> None:
    from bench.harness import Figure

    with pytest.raises(ValueError, match="judges nothing"):
        Figure("x", 1.0, 1.0, "ms", words, against="a floor")


def test_a_figure_names_its_reference() -> None:
    from bench.harness import Figure
    from bench.tables import known

    with pytest.raises(ValueError, match="what it is compared with"):
        Figure("x", 1.0, 1.0, "ms", "stated", against="")
    kept = [known(file.stem) for file in (ROOT / "bench" / "results").glob("*.json")]
    nameless = [f["name"] for body in kept for f in body["figures"] if not f["against"]]
    alone = ["a decision, warm", "commit log", "commit log, per commit", "disk at the end"]
    assert sorted(nameless) == alone, "only figures without a reference"


def _kept(name: str, ratio: float, **fields: object) -> dict[str, object]:
    figure = {"name": name, "ours": ratio, "reference": 1.0, "unit": "ms", "target": "stated"}
    return {**figure, "better": "lower", "against": "a peer", "ratio": ratio, "met": None, **fields}


def test_a_plot_has_an_axis_for_each_direction_and_a_colour_for_each_outcome() -> None:
    from bench.plot import draw

    figures = [
        _kept("quick", 0.5),
        _kept("slow", 3.0, target="<= 4", met=True),
        _kept("too slow", 9.0, target="<= 4", met=False),
        _kept("rate", 2.0, better="higher"),
        _kept("low rate", 0.4, better="higher"),
    ]
    drawn = draw({"family": "some", "scale": "small", "figures": figures})
    bars = re.findall(r'<rect class="(\w+)" x="[\d.]+" y="\d+" width="[\d.]+" height="13"/>', drawn)
    assert bars == ["better", "worse", "missed", "better", "worse"]
    assert re.findall(r"(?:less|more) is better|◀ \w+|\w+ ▶", drawn) == [
        *("less is better", "◀ better", "worse ▶"),
        *("more is better", "◀ worse", "better ▶"),
    ]
    assert drawn.count(">against a peer<") == len(figures)


def test_the_lists_hold_every_missed_target_and_every_lost_comparison(tmp_path: Path) -> None:
    from bench.tables import lost_comparisons, missed_targets

    figures = [
        _kept("quick", 0.5),
        _kept("slow", 3.0),
        _kept("too slow", 9.0, target="<= 4", met=False),
        _kept("older", 2.0, against="our own, at the start"),
        _kept("low rate", 0.1, better="higher"),
    ]
    (tmp_path / "some.json").write_text(json.dumps({"figures": figures}))
    rows = re.findall(r"^\| `some` \| ([\w ]+) \|", missed_targets(tmp_path), re.MULTILINE)
    assert rows == ["too slow"]
    rows = re.findall(r"^\| `some` \| ([\w ]+) \|", lost_comparisons(tmp_path), re.MULTILINE)
    assert rows == ["low rate", "too slow", "slow"]


def test_the_closing_line_names_what_was_missed(tmp_path: Path) -> None:
    from bench.__main__ import judged

    def figure(name: str, met: bool | None) -> dict[str, object]:
        return {"name": name, "met": met}

    for family, figures in {
        "load": [figure("nodes", True), figure("wall", None)],
        "merge": [figure("diff", False)],
    }.items():
        (tmp_path / f"{family}.json").write_text(json.dumps({"figures": figures}))
    assert judged(["load", "merge"], tmp_path) == "1 of 2 targets met; missed: merge: diff"
    assert judged(["load"], tmp_path) == "1 of 1 targets met"


def test_every_family_is_listed_with_what_it_measures() -> None:
    from bench.__main__ import FAMILIES, LONG

    files = [p for p in (ROOT / "bench").glob("*.py") if "\ndef run(scale" in p.read_text()]
    assert sorted(file.stem for file in files) == sorted({**FAMILIES, **LONG})
