"""`demo` on a small size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.cli.demo.library import data_lines, library_size
from omnigraph.cli.demo.nightly import run_nightly
from omnigraph.cli.demo.telling import INDENT, Story
from omnigraph.cli.session import Session


def test_the_story(cli, tmp_path) -> None:
    place = tmp_path / "demo"
    answer = cli("demo", "--size", "3000", "--dir", place, "--json", "--engine", "local")
    assert answer.code == 0
    told = answer.json
    assert all(step["milliseconds"] >= 0 for step in told["steps"])
    graph = omnigraph.open(told["uri"])
    assert "P-kept" in graph.read("Paper").column("code").to_pylist()
    assert "P-lost" not in graph.read("Paper").column("code").to_pylist()
    assert [audit.recovery_for_actor for audit in graph.recoveries()] == ["victim"]
    again = cli("demo", "--size", "3000", "--dir", place)
    assert again.code == 1
    assert "is not empty" in again.err


def test_the_library_is_always_the_same() -> None:
    size = library_size(300)
    lines = list(data_lines(size))
    assert lines == list(data_lines(size))
    assert len(lines) == size.entities


@pytest.mark.xdist_group("spark")
def test_the_pipeline_of_the_story(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_nightly(Story(Session()), tmp_path)
    told = capsys.readouterr().out
    assert f"{INDENT}1 row in quarantine: email LIKE '%@%' is not met\n" in told
    assert f"{INDENT}2 Book, 3 Borrowed, 3 Reader\n" in told
    assert f"{INDENT}empty; the report of the first run is " in told
    graph = omnigraph.open(tmp_path / "loans" / "loans.omni")
    readers = {row["email"]: row["name"] for row in graph.read("Reader").to_pylist()}
    assert readers == {
        "ada@library.org": "Ada Lovelace",
        "bob@library.org": None,
        "zoe@library.org": "Zoë Müller",
    }
