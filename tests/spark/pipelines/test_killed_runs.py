"""Runs that are killed at some moment and started again equal an undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pipeline_case import FILE, Case

from omnigraph import failpoints
from omnigraph.spark.pipelines import RunStatus
from omnigraph_testing.invariants import assert_at_rest

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.crash, pytest.mark.timeout(900)]

MERGED = FILE + "publish: {via: merge}\n"


def started(case: Case, armed: str = "") -> subprocess.Popen[str]:
    environment = {**os.environ, "OMNIGRAPH_FAILPOINTS": armed} if armed else {**os.environ}
    script = Path(__file__).parent / "killed_run.py"
    return subprocess.Popen(
        [sys.executable, str(script), str(case.file)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def fill(case: Case, increment: int) -> None:
    names = [f"p{increment}-{n}" for n in range(5)]
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
        assert child.wait(600) == -signal.SIGKILL
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


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("text", [FILE, MERGED], ids=["commit", "merge"])
def test_random_kills_of_the_driver(tmp_path: Path, spark: Any, text: str) -> None:
    """Increments come while runs are killed; at the end everything is there once."""
    kills = int(os.environ.get("OMNIGRAPH_KILLS", "15"))
    chance = random.Random(len(text))
    case = Case(tmp_path, text)
    killed = increments = 0
    while killed < kills:
        fill(case, increments)
        increments += 1
        while killed < kills:
            with started(case) as child:
                assert child.stdout is not None
                assert child.stdout.readline() == "ready\n"
                time.sleep(chance.uniform(0, 12))
                if child.poll() is not None:
                    assert child.stdout.readline() in ("succeeded\n", "empty\n")
                    break
                child.kill()
            killed += 1
    case.run(spark).raise_if_failed()
    assert case.run(spark).status is RunStatus.EMPTY
    undisturbed = Case(tmp_path / "other") if (tmp_path / "other").mkdir() is None else case
    for number in range(increments):
        fill(undisturbed, number)
    undisturbed.run(spark).raise_if_failed()
    assert content(case) == content(undisturbed)
    commits = case.commits()
    assert len({c.details["pipeline"]["number"] for c in commits}) == len(commits) <= increments
    with case.graph() as graph:
        assert [b.name for b in graph.branches.list()] == ["main"]
        assert_at_rest(graph)
        assert graph.verify(full=True).ok
