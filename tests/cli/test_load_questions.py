"""`load` asks on a terminal before it removes more than it loads; a dry run only tells."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph_testing.invariants import assert_at_rest, content

OVERWRITE = ["--mode", "overwrite"]


@pytest.fixture
def one(tmp_path: Path) -> Path:
    path = tmp_path / "one.ndjson"
    path.write_text('{"type":"Person","data":{"name":"Ada"}}\n')
    return path


def on_terminal(graph: Graph, data: Path, answer: str, *flags: str) -> tuple[int, str]:
    """The exit code and all output of `load` with a terminal, on which `answer` is typed."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "omnigraph.cli", "load", "--data", str(data), graph.uri]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(
        [*command, *flags], stdin=slave, stdout=slave, stderr=slave, env=environment
    ) as child:
        os.close(slave)
        os.write(master, f"{answer}\n".encode())
        seen = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            seen += part
        code = child.wait(60)
    os.close(master)
    return code, seen.decode()


def test_a_terminal_is_asked(people: Graph, one: Path) -> None:
    before = content(people)
    code, seen = on_terminal(people, one, "n", *OVERWRITE)
    question = "This load has 1 entity and removes 4 entities (2 of Person, 2 of Knows). Go on?"
    assert question in seen
    assert code != 0
    assert content(people) == before
    assert_at_rest(people)
    code, seen = on_terminal(people, one, "y", *OVERWRITE)
    assert (code, question in seen) == (0, True)
    assert "1 entity loaded into main" in seen
    assert list(content(people)["Person"]) == ["Ada"]


def test_yes_answers_and_smaller_losses_need_no_answer(people: Graph, one: Path) -> None:
    assert "Go on?" not in on_terminal(people, one, "", "--mode", "merge")[1]
    code, seen = on_terminal(people, one, "", "--yes", *OVERWRITE)
    assert (code, "Go on?" in seen) == (0, False)
    assert list(content(people)["Person"]) == ["Ada"]


def test_without_a_terminal_the_load_goes_on(cli, people: Graph, one: Path) -> None:
    told = cli("load", "--data", str(one), *OVERWRITE, people.uri)
    assert told.code == 0
    assert "Knows: 2 removed with their nodes" in told.out


def test_dry_run(cli, people: Graph, one: Path) -> None:
    before = content(people)
    told = cli("load", "--data", str(one), *OVERWRITE, "--dry-run", people.uri)
    assert told.out == (
        "Person: 1 updated, 2 removed, 4 values set to NULL\n"
        "Knows: 2 removed with their nodes\n"
        "1 entity read, nothing was changed, because this was a dry run\n"
    )
    told = cli("load", "--data", str(one), *OVERWRITE, "--dry-run", people.uri, "--json")
    assert (told.json["dry_run"], told.json["commit"]) == (True, None)
    refused = cli("load", "--data", str(one), "--dry-run", people.uri)
    assert refused.code != 0
    assert "exists already" in refused.err
    assert content(people) == before


def test_patch(cli, people: Graph, tmp_path: Path) -> None:
    (tmp_path / "ages.csv").write_text("name,age\nAda,37\nBob,\n")
    args = ("load", "--data", str(tmp_path / "ages.csv"), "--type", "Person", "--mode", "patch")
    told = cli(*args, people.uri)
    assert told.out.startswith("Person: 1 updated, 1 unchanged\n2 entities loaded into main")
    assert content(people)["Person"]["Ada"]["tags"] == ["a", "b"]
    assert "main has them already" in cli(*args, people.uri).out
