"""Every command explains itself with an example."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from omnigraph.cli.main import app


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, found in group.commands.items():
        if isinstance(found, TyperGroup):
            yield from commands(found, (*path, name))
        else:
            yield (*path, name), found


EVERY = dict(commands(get_command(app)))


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_help_with_an_example(cli, path: tuple[str, ...]) -> None:
    answer = cli(*path, "--help")
    assert answer.code == 0
    words = [word for word in path if word != "run"]
    assert f"  omnigraph {' '.join(words)}" in answer.out
    assert "--json" in answer.out


def test_help_as_a_word_and_of_a_query(cli) -> None:
    assert cli("help").out == cli("--help").out == cli().out
    assert cli("help", "branch", "merge").out == cli("branch", "merge", "--help").out
    assert cli("query").out == cli("query", "run", "--help").out
    assert "--params JSON" in cli("query").out


def test_every_command_is_in_a_section_of_the_overview(cli) -> None:
    overview = cli("--help").out
    for path in EVERY:
        assert f"\n  {path[0]} " in overview, path
