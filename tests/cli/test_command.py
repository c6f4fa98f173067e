"""Wrong command lines: what typer and pydantic find is said in the words of the rest."""

from __future__ import annotations

import pytest

CASES = [
    ("load --data x --mode mine g", "'mine' is not one of 'append', 'merge', 'patch', 'overwrite'"),
    ("query -e q -f xml --store g", "'xml' is not one of 'table', 'json'"),
    ("query -e q --timeout soon --store g", "'--timeout': 'soon' is not a number"),
    ("query -e q --timeout=-1 --store g", "'--timeout': -1 is less than 0"),
    ("demo --size many", "'--size': 'many' is not a whole number"),
    ("demo --size 1", "'--size': 1 is less than 300"),
    ("commit list g --limit 0", "0 is less than 1"),
    ("query friends_of people.gq g", "-q FILE, --store URI"),
    ("load people.ndjson people.omni --data x", "--data FILE, --store URI"),
    ("branch create a g", "--store URI"),
    ("qeury", "Did you mean 'query'?"),
    ("load people.omni", "Missing option '--data'"),
]


@pytest.mark.parametrize(("words", "message"), CASES)
def test_what_is_wrong(cli, words: str, message: str) -> None:
    answer = cli(*words.split())
    assert answer.code == 2
    assert answer.out == ""
    assert message in answer.err
    assert "Value error" not in answer.err
    assert "Input should" not in answer.err
    assert answer.err.startswith("Usage: omnigraph ")
    envelope = cli(*words.split(), "--json").json
    assert envelope["code"] == "usage"
    assert message in envelope["error"]


def test_usage_lines_and_sections(cli) -> None:
    shown = cli("branch", "merge", "--help").out
    assert shown.startswith("Usage: omnigraph branch merge [OPTIONS] SOURCE\n")
    assert "<str>" not in shown
    own, shared = shown.split("\nOptions of every command:\n")
    assert "--strategy" in own
    assert "--json" in shared
    assert "--json" not in own


def test_the_version_as_an_option(cli) -> None:
    assert cli("--version").out == cli("version").out
    assert cli("--version", "--json").json == cli("version", "--json").json
