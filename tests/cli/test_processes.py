"""Real processes: start-up, pipes, signals and permissions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Edit
from omnigraph_testing.invariants import assert_at_rest

CLI = [sys.executable, "-m", "omnigraph.cli"]
NAMES = "query q() { match { $p: P } return { $p.name } }"


def run(*words: object, **options) -> subprocess.CompletedProcess[str]:
    command = [*CLI, *(str(word) for word in words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


@pytest.fixture
def many(tmp_path: Path) -> str:
    graph = omnigraph.init(tmp_path / "many.omni", "node P { name: String @key }")
    graph.apply({"P": Edit(insert=[{"name": f"person {n:06}"} for n in range(20_000)])})
    return graph.uri


def test_help_does_not_load_the_engine() -> None:
    code = (
        "import sys; from omnigraph.cli.main import app; "
        "app(['--help'], standalone_mode=False); "
        "heavy = {'lance', 'pyarrow', 'numpy', 'rich', 'lark', 'ruamel.yaml', 'httpx', 'ulid'}; "
        "sys.exit(str(sorted(heavy & set(sys.modules))) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


QUERYING = "query plan execute ir"
WRITING = "commit writes schema load export merge feed maintain mutate integrity diff vectors spark"


@pytest.mark.parametrize(
    ("words", "unneeded", "said"),
    [
        (["query", "-e", NAMES], WRITING, "20,000 rows"),
        (["branch", "list"], f"{QUERYING} {WRITING}", "graph {many}"),
        (["commit", "list"], f"{QUERYING} {WRITING}", "graph {many}  branch main"),
    ],
)
def test_a_read_loads_what_it_needs(many: str, words: list[str], unneeded: str, said: str) -> None:
    """Imports are most of the time of a short command."""
    code = (
        "import sys; from omnigraph.cli.main import app; "
        f"app({[*words, '--store', many]!r}, standalone_mode=False); "
        f"others = {{f'omnigraph.{{name}}' for name in {unneeded!r}.split()}}; "
        "others |= {'duckdb', 'rich.console', 'ruamel.yaml', 'pandas'}; "
        "sys.exit(str(sorted(others & set(sys.modules))) if others & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, said.format(many=many))


def test_an_export_loads_nothing_that_writes(many: str) -> None:
    code = (
        "import os, sys, omnigraph; "
        f"omnigraph.open({many!r}, read_only=True).export(os.devnull); "
        "print(*sorted({m.split('.')[1] for m in sys.modules if m.startswith('omnigraph.')}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    found = set(done.stdout.split())
    assert "export" in found
    assert not found & set(f"{QUERYING} {WRITING}".split()) - {"export"}


def test_a_day_with_a_graph(tmp_path: Path) -> None:
    schema = tmp_path / "s.pg"
    schema.write_text("node P { name: String @key }\n")
    uri = tmp_path / "g.omni"
    assert run("init", "--schema", schema, uri).returncode == 0
    assert run("branch", "create", "side", "--store", uri).returncode == 0
    answer = run("query", "-e", NAMES, "--store", uri, "--branch", "side", "--json")
    assert json.loads(answer.stdout)["rows"] == []
    assert str(uri) in answer.stderr


@pytest.mark.parametrize("format", ["jsonl", "table"])
def test_a_reader_that_goes_away_is_no_trouble(many: str, format: str) -> None:
    command = [*CLI, "query", "-e", NAMES, "--store", many, "-f", format, "--quiet"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == ""
        assert child.wait(60) == 141


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell starts its background jobs with SIGINT ignored, and children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_with_130_and_no_traceback(many: str) -> None:
    command = [*CLI, "query", "-q", "-", "--store", many]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        child.stdin.write("query")
        child.stdin.flush()
        _wait_until_it_reads(child.pid)
        assert _interrupted(child) == 130
        assert child.stderr is not None
        assert "Traceback" not in child.stderr.read()


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_in_the_middle_of_a_load_leaves_nothing(many: str, tmp_path: Path) -> None:
    data = tmp_path / "more.ndjson"
    data.write_text('{"type": "P", "data": {"name": "new"}}\n')
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {
        **os.environ,
        "TMPDIR": str(scratch),
        "OMNIGRAPH_FAILPOINTS": "load.after_prepare=sleep:60",
    }
    words = ["load", "--data", str(data), many, "--branch", "new", "--from", "main"]
    with subprocess.Popen(
        [*CLI, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as child:
        for _ in range(1200):
            if any(scratch.glob("omnigraph-load-*/*")):
                break
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (130, "")
    assert err == f"omnigraph load → {many} (direct, local)  branch new\n"
    assert list(scratch.iterdir()) == []
    graph = omnigraph.open(many)
    assert [branch.name for branch in graph.branches.list()] == ["main"]
    assert_at_rest(graph)


def test_ctrl_c_while_modules_are_imported() -> None:
    code = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from omnigraph.cli.entry import run\n"
        "run()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def _interrupted(child: subprocess.Popen[str]) -> int:
    """The exit code after Ctrl-C; a signal between two reads is noticed after the second only."""
    for _ in range(6):
        child.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return child.wait(10)
    pytest.fail("the process does not end")


def _wait_until_it_reads(pid: int) -> None:
    """Until the pipe to the child is empty and the child sleeps in a read of it."""
    for _ in range(600):
        state = Path(f"/proc/{pid}/syscall")
        if state.exists() and state.read_text().startswith("0 0x0 "):
            return
        time.sleep(0.05)


def test_output_survives_any_locale(many: str) -> None:
    omnigraph.open(many).apply({"P": Edit(insert=[{"name": "Čen 陳"}])})
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    text = 'query q() { match { $p: P { name: "Čen 陳" } } return { $p.name } }'
    answer = subprocess.run(
        [*CLI, "query", "-q", "-", "--store", many, "-f", "csv"],
        input=text.encode(),
        capture_output=True,
        env=environment,
    )
    assert answer.stdout.decode() == "p.name\nČen 陳\n"


def test_completion_knows_commands_and_choices() -> None:
    def complete(line: str) -> list[str]:
        environment = {
            **os.environ,
            "_OMNIGRAPH_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split()) - 1),
        }
        code = "import sys; sys.argv[0] = 'omnigraph'; from omnigraph.cli.main import run; run()"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment
        )
        return done.stdout.split()

    assert complete("omnigraph br") == ["branch"]
    assert complete("omnigraph query run -f j") == ["json", "jsonl"]
