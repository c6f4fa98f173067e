"""Tables on terminals of several widths."""

from __future__ import annotations

import sys
from io import StringIO

import pytest
from rich.cells import cell_len

from omnigraph.cli.output import GREEN, painter
from omnigraph.cli.tables import print_records, print_table

COMMIT, MOMENT = "01M7H8QRSTGJB9M89XSVK2F5M5", "2026-11-16T04:09:40.943250Z"
COLUMNS = ["commit", "created_at", "operation", "message"]
ROWS = [[COMMIT, MOMENT, "merge", "brings the review of the second quarter into main"]]


@pytest.mark.parametrize("width", [40, 60, 90, 120, 200])
def test_what_one_copies_is_never_broken(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    print_table(COLUMNS, ROWS)
    out = capsys.readouterr().out
    assert COMMIT in out
    assert MOMENT in out
    assert ("────" in out) == (width >= 90), out


@pytest.mark.parametrize("width", range(30, 121, 6))
def test_no_character_of_a_value_is_lost(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    fact = "Tram 28 climbs from Baixa to the castle and is crowded at noon"
    row = ["lisbon", fact, 0.95, ["city-guide.example"], "陳" * 20]
    print_table(["topic", "fact", "confidence", "sources", "wide"], [row])
    out = capsys.readouterr().out
    letters = sorted("".join([*map(str, row[:3]), '["city-guide.example"]', row[4]]).split())
    for letter in set("".join(letters)):
        assert out.count(letter) >= "".join(letters).count(letter), out
    assert all(cell_len(line) <= width for line in out.splitlines() if "─" in line), out


def test_records_fold_between_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = ["in which order", "first reduce what the house loses " * 3, "x" * 90]
    monkeypatch.setenv("COLUMNS", "60")
    print_records(["title", "text", "long"], [values])
    assert len(capsys.readouterr().out.splitlines()) == 3, "a pipe gets one line each"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    print_records(["title", "text", "long"], [values])
    title, text, more, *_, long = capsys.readouterr().out.splitlines()
    assert title == "title  in which order"
    assert text == "text   first reduce what the house loses first reduce what"
    assert more == "       the house loses first reduce what the house loses"
    assert long.strip().endswith("x" * 90)


def test_a_short_overview_is_never_cut(cli) -> None:
    for words in ([], ["branch"], ["query"]):
        answer = cli(*words, "--help")
        assert "..." not in answer.out.replace("[ARGS]...", ""), answer.out


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_colours_only_where_they_are_wanted(
    variables: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    terminal, pipe = StringIO(), StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    assert ("\x1b" in painter(terminal)(GREEN, "new")) == coloured
    assert painter(pipe)(GREEN, "new") == "new"
