"""Long work says what it does: to whoever listens, and as one line on a terminal."""

from __future__ import annotations

import gzip
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.progress import ProgressStep, heard_by, shown, tell
from omnigraph.settings.models import EmbeddingSettings, Settings

SLOW = """
import time
from omnigraph.cli.session import Session
from omnigraph.progress import tell
with Session({flags}).working("looking"):
    for done in range(15):
        tell("reading 7 rows", done * 1_000_000, 15_000_000, "MB")
        time.sleep(0.1)
print("done")
"""


@pytest.fixture
def steps() -> list[ProgressStep]:
    return []


def names(steps: list[ProgressStep]) -> list[str]:
    return list(dict.fromkeys(step.what for step in steps))


def test_a_load_says_where_it_is(people: Graph, tmp_path: Path, steps: list[ProgressStep]) -> None:
    file = tmp_path / "more.jsonl"
    file.write_text('{"type": "Person", "data": {"name": "Dee"}}\n')
    with heard_by(steps.append):
        people.load(file)
    size = file.stat().st_size
    assert names(steps) == [
        "reading",
        "reading 1 row",
        "checking 1 row",
        "writing Person",
        "writing",
        "publishing",
    ]
    assert list(dict.fromkeys(step.stage for step in steps)) == [
        "read",
        "check",
        "write",
        "publish",
    ]
    assert [(step.done, step.total) for step in steps[:2]] == [(0, size), (size, size)]


def test_vectors_are_a_stage_of_their_own(tmp_path: Path, steps: list[ProgressStep]) -> None:
    schema = 'node D { name: String @key  text: String  vec: Vector(8)? @embed("text", model="m") }'
    vectors = Settings(embedding=EmbeddingSettings(provider="mock", model="m", width=8))
    graph = omnigraph.init(tmp_path / "d.omni", schema, settings=vectors)
    with heard_by(steps.append):
        graph.load([{"name": "a", "text": "x"}, {"name": "b", "text": "y"}], type="D")
    stages = list(dict.fromkeys(step.stage for step in steps))
    assert stages == ["read", "check", "embed", "write", "publish"]
    (embedding,) = (step for step in steps if step.stage == "embed")
    assert (embedding.what, embedding.count) == ("embedding D", "2 of 2 rows")


def test_no_step_is_beyond_its_total(
    people: Graph, tmp_path: Path, steps: list[ProgressStep]
) -> None:
    file = tmp_path / "Person.csv.gz"
    file.write_bytes(gzip.compress(b"name\n" + b"".join(b"person %d\n" % n for n in range(50_000))))
    with heard_by(steps.append):
        people.load(file)
        tell("something", 5, 3, "rows")
    assert all(step.done <= step.total for step in steps if step.total is not None)
    reading = [step for step in steps if step.stage == "read"]
    assert (reading[-1].done, reading[-1].what) == (file.stat().st_size, "reading 50,000 rows")


def test_export_optimize_and_backup_count(
    people: Graph, tmp_path: Path, steps: list[ProgressStep]
) -> None:
    with heard_by(steps.append):
        people.export(tmp_path / "all.ndjson", types=["Person"])
    assert (names(steps), steps[-1].count) == (["exporting Person"], "3 of 3 rows")
    with heard_by(steps.append):
        people.optimize()
        people.backup(tmp_path / "copy")
        omnigraph.restore(tmp_path / "copy", tmp_path / "again")
    assert {"optimizing Person on main", "optimizing Knows on main", "copying"} < set(names(steps))


def test_nobody_has_to_listen(steps: list[ProgressStep]) -> None:
    tell("something", 1, 2, "rows")
    with heard_by(steps.append), shown("an outer line is enough"):
        tell("inside", 2, 3, "rows")
    assert steps == [ProgressStep("inside", 2, 3, "rows")]


def on_terminal(flags: str = "", **variables: str) -> str:
    """What a terminal as stderr receives."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", **variables}
    command = [sys.executable, "-c", SLOW.format(flags=flags)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave, env=environment) as child:
        os.close(slave)
        seen = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            if not part:
                break
            seen += part
        assert child.stdout is not None
        assert child.stdout.read() == b"done\n"
        assert child.wait(60) == 0
    os.close(master)
    return seen.decode()


def test_a_line_on_a_terminal_that_is_gone_afterwards() -> None:
    seen = on_terminal(COLUMNS="120")
    assert "MB/s" in seen
    assert re.search(r"0:00|--:--|\d\d:\d\d", seen)  # the remaining time
    assert "reading 7 rows" in seen
    assert "of 15.0 MB" in seen
    assert seen.endswith("\x1b[2K")  # the line is taken back


@pytest.mark.parametrize("flags", ["json=True", "quiet=True"])
def test_not_where_only_results_are_wanted(flags: str) -> None:
    assert on_terminal(flags) == ""


def test_not_on_a_terminal_that_cannot_take_a_line_back() -> None:
    assert on_terminal(TERM="dumb") == ""


def test_nothing_in_a_pipe() -> None:
    command = [sys.executable, "-c", SLOW.format(flags="")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("done\n", "")
