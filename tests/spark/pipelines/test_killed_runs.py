"""Runs that are killed at some moment and started again equal an undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pipeline_case import FILE, Case

import omnigraph
from omnigraph import failpoints
from omnigraph.lance_store.dataset_files import lineages, needed_content
from omnigraph.lance_store.store import DatasetVersion
from omnigraph.settings.models import MaintenanceSettings, Settings
from omnigraph.spark.pipelines import RunStatus
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.spark_clusters import LOCAL_CLUSTER

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.crash, pytest.mark.timeout(900)]

AT_ONCE = Settings(maintenance=MaintenanceSettings(minimum_age_seconds=0))
MERGED = FILE + "publish: {via: merge}\n"


def started(case: Case, armed: str = "", master: str = "local[2,4]") -> subprocess.Popen[str]:
    environment = {**os.environ, "OMNIGRAPH_FAILPOINTS": armed} if armed else {**os.environ}
    script = Path(__file__).parent / "killed_run.py"
    return subprocess.Popen(
        [sys.executable, str(script), str(case.file), master],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def fill(case: Case, increment: int, rows: int = 5) -> None:
    names = [f"p{increment}-{n}" for n in range(rows)]
    case.packages(*(f"{name},1,{increment}" for name in names), file=f"inc-{increment}")


def content(case: Case) -> list[dict[str, Any]]:
    with case.graph() as graph:
        rows: list[dict[str, Any]] = graph.read("Package").to_pylist()
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.parametrize(
    "point", ["pipeline.before_commit", "pipeline.after_load", "pipeline.after_publish"]
)
def test_a_run_that_breaks_off_is_repeated(tmp_path: Path, spark: Any, point: str) -> None:
    case = Case(tmp_path, MERGED)
    fill(case, 0)
    failpoints.arm(point, "raise")
    with pytest.raises(failpoints.FailpointRaised):
        case.run(spark)
    done = case.run(spark)
    published = point == "pipeline.after_publish"
    assert done.status is (RunStatus.EMPTY if published else RunStatus.SUCCEEDED)
    assert len(case.names()) == 5
    assert len(case.commits()) == 1
    with case.graph() as graph:
        assert [b.name for b in graph.branches.list()] == ["main"]


def test_a_killed_driver_leaves_nothing_behind(tmp_path: Path, spark: Any) -> None:
    """Killed after its commit on its own branch, before the merge."""
    case = Case(tmp_path, MERGED)
    fill(case, 0)
    with started(case, "pipeline.after_load=kill") as child:
        child.communicate("run\n", timeout=600)
        assert child.returncode == -signal.SIGKILL
    with case.graph() as graph:
        (left,) = (b.name for b in graph.branches.list() if b.name != "main")
        assert left.startswith("pipeline/packages/run-")
    assert case.names() == []
    assert case.run(spark).status is RunStatus.SUCCEEDED, "the lease ended with its process"
    assert len(case.commits()) == 1
    with case.graph() as graph:
        assert [b.name for b in graph.branches.list()] == ["main"]
        assert_at_rest(graph)


def test_a_killed_python_worker_is_replaced(tmp_path: Path, spark: Any) -> None:
    case = Case(
        tmp_path,
        FILE.replace("from: packages,", "from: troubled,").replace(
            "targets:", "  troubled: {python: 'trouble:once', inputs: [packages]}\ntargets:"
        ),
    )
    (tmp_path / "trouble.py").write_text(
        "import os, signal\n"
        f"MARK = {str(tmp_path / 'killed')!r}\n"
        "def once(spark, inputs):\n"
        "    def rows(batches):\n"
        "        for batch in batches:\n"
        "            if not os.path.exists(MARK):\n"
        "                open(MARK, 'w').close()\n"
        "                os.kill(os.getpid(), signal.SIGKILL)\n"
        "            yield batch\n"
        "    frame = inputs['packages']\n"
        "    return frame.mapInArrow(rows, frame.schema)\n"
    )
    fill(case, 0)
    assert case.run(spark).raise_if_failed().targets[0].inserted == 5
    assert (tmp_path / "killed").exists()


class Driver:
    """The process that runs a pipeline, and what is below it: executors and Python workers."""

    def __init__(self, case: Case, master: str) -> None:
        self._process = started(case, master=master)
        assert self._answer() == "ready\n"

    def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("run\n")
        self._process.stdin.flush()

    def end(self) -> str | None:
        """How the run ended; None if the process was killed."""
        return self._answer().rstrip("\n") or None

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def kill(self, kind: str, chance: random.Random) -> bool:
        """Kill the driver, an executor or a Python worker; False if there is none now."""
        if kind == "driver":
            self._process.kill()
            return True
        found = processes_below(self._process.pid, kind)
        if not found:
            return False
        with suppress(ProcessLookupError):
            os.kill(chance.choice(found), signal.SIGKILL)
        return True

    def close(self) -> None:
        """Wait until Spark is gone, too, because its tasks may still write."""
        below = processes_below(self._process.pid, "")
        with suppress(OSError):
            self._process.communicate(timeout=120)
        while any(is_alive(process) for process in below):
            time.sleep(0.1)


_MARKS = {
    "executor": "CoarseGrainedExecutorBackend",
    "worker": "pyspark.daemon",
    "jvm": "org.apache.spark.deploy.SparkSubmit",
    "": "",
}


def processes_below(root: int, kind: str) -> list[int]:
    """Processes of a kind; of Python workers those that run tasks, not the one that forks them."""
    parents, commands = {}, {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            process = int(entry.name)
            parents[process] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            commands[process] = (entry / "cmdline").read_text()
    found: set[int] = set()
    ours = {root}
    while ours:
        ours = {p for p, parent in parents.items() if parent in ours}
        found |= ours
    marked = [p for p in sorted(found) if _MARKS[kind] in commands.get(p, "")]
    if kind == "worker":
        return [p for p in marked if parents[p] in marked]
    return marked


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("text", "master"), [(FILE, LOCAL_CLUSTER), (MERGED, "local[2,4]")], ids=["commit", "merge"]
)
def test_random_kills(tmp_path: Path, spark: Any, text: str, master: str) -> None:
    """Increments come while drivers, executors and workers are killed; all rows are there once."""
    kills = int(os.environ.get("OMNIGRAPH_KILLS", "15"))
    kinds = ["driver", "worker", "executor"] if master == LOCAL_CLUSTER else ["driver", "worker"]
    chance = random.Random(len(text))
    case = Case(tmp_path, text)
    killed: Counter[str] = Counter()
    increments, usual = 0, 8.0
    driver: Driver | None = None
    fill(case, 0, rows=2000)
    while killed.total() < kills:
        driver = driver or Driver(case, master)
        began = time.monotonic()
        driver.begin()
        moment = chance.uniform(0, 1.1 * usual)
        kind = min(kinds, key=lambda each: killed[each])
        time.sleep(moment)
        killed[kind] += driver.kill(kind, chance)
        status = driver.end()
        if kind == "driver":
            driver.close()
            driver = None
        elif status in ("succeeded", "empty"):
            usual = min(usual, time.monotonic() - began)
        if status in ("succeeded", "empty") or (status is None and is_done(case, increments)):
            increments += 1
            fill(case, increments, rows=2000)
    if driver is not None:
        driver.kill("driver", chance)
        driver.close()
    case.run(spark, wait_seconds=60.0).raise_if_failed()
    assert case.run(spark).status is RunStatus.EMPTY
    other = tmp_path / "other"
    other.mkdir()
    undisturbed = Case(other)
    for number in range(increments + 1):
        fill(undisturbed, number, rows=2000)
    undisturbed.run(spark).raise_if_failed()
    assert content(case) == content(undisturbed)
    numbers = [commit.details["pipeline"]["number"] for commit in case.commits()]
    assert sorted(numbers) == list(range(increments + 1)), "one commit for each increment"
    with omnigraph.open(case.uri, settings=AT_ONCE) as graph:
        assert [b.name for b in graph.branches.list()] == ["main"]
        assert_at_rest(graph)
        graph.cleanup(1, confirm=True)
        assert_no_orphans(graph)
        assert graph.verify(full=True).ok


def is_done(case: Case, increment: int) -> bool:
    """The run was killed after its commit."""
    return f"p{increment}-0" in case.names() if Path(case.uri).exists() else False


def assert_no_orphans(graph: omnigraph.Graph) -> None:
    """Every file of a table belongs to the newest commit, or to the head of its dataset."""
    store, reader = graph.engine.store, graph.engine.reader
    _, state = reader.branch("main")
    for pin in state.tables.values():
        lines = lineages(pin.location, store.files.walk(pin.location))
        heads = {DatasetVersion(pin.location, pin.branch, lines[pin.branch].head or 0)}
        heads.add(DatasetVersion(pin.location, None, lines[None].head or 0))
        needed = frozenset().union(*(needed_content(store, at) for at in {pin.at, *heads}))
        assert {name for line in lines.values() for name in line.content} == needed
