"""docs/performance.md shows what bench/results holds."""

from __future__ import annotations

import json
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
    from bench.tables import known, with_tables

    text = PAGE.read_text(encoding="utf-8")
    assert with_tables(text) == text, "run `make docs`"
    plots = {
        file.stem: file.read_text(encoding="utf-8") for file in PAGE.parent.glob("plots/*.svg")
    }
    assert plots == {family: draw(known(family)) for family in plots}


def test_every_kept_result_is_shown() -> None:
    text = PAGE.read_text(encoding="utf-8")
    kept = [file.stem for file in (ROOT / "bench" / "results").glob("*.json")]
    assert [family for family in kept if f"<!-- bench:{family} -->" not in text] == []


def test_a_target_bounds_the_ratio_or_with_its_unit_our_own_figure() -> None:
    from bench.harness import Figure

    def met(ours: float, target: str, reference: float = 1.0) -> bool | None:
        return Figure("x", ours, reference, "ms", target).met

    assert (met(2.0, "<= 2"), met(2.1, "<= 2"), met(0.4, "< 0.5")) == (True, False, True)
    assert (met(1.0, ">= 1"), met(0.9, ">= 1"), met(1.0, "stated")) == (True, False, None)
    assert (met(0.2, "<= 0.3 ms", 0.01), met(0.4, "<= 0.3 ms", 9.0)) == (True, False)
    assert met(float("nan"), "<= 2") is None


@pytest.mark.parametrize("words", ["as above", "<= 2x", "", "<= 2 s", "ratio <= 2"])
def test_a_target_that_judges_nothing_is_refused(words: str) -> None:
    from bench.harness import Figure

    with pytest.raises(ValueError, match="judges nothing"):
        Figure("x", 1.0, 1.0, "ms", words)


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
