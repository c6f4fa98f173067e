"""Runs in real processes: two at once, a watch that ends with SIGTERM, a JVM that dies."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pipeline_case import Case
from test_killed_runs import Driver, fill, started

from omnigraph.spark.pipelines import RunStatus
from omnigraph_testing.invariants import assert_at_rest

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.crash,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]
CLI = [sys.executable, "-m", "omnigraph.cli", "pipeline", "run"]


def at_rest(case: Case, commits: int) -> None:
    assert len(case.commits()) == commits
    with case.graph() as graph:
        assert_at_rest(graph)
    assert case.loaded().status().running is None


def test_two_processes_at_once(tmp_path: Path) -> None:
    """The one that comes second waits, and finds nothing left to do."""
    case = Case(tmp_path)
    fill(case, 0)
    drivers = [Driver(case, "local[1]") for _ in range(2)]
    for driver in drivers:
        driver.begin()
    assert sorted(driver.end() or "" for driver in drivers) == ["empty", "succeeded"]
    for driver in drivers:
        driver.kill("driver", random.Random(0))
        driver.close()
    assert len(case.names()) == 5
    at_rest(case, 1)


def test_a_second_process_that_does_not_wait(tmp_path: Path) -> None:
    case = Case(tmp_path)
    fill(case, 0)
    with started(case, "pipeline.before_commit=sleep:20") as first:
        assert first.stdin is not None
        first.stdin.write("run\n")
        first.stdin.flush()
        while not Path(case.uri).exists() or case.loaded().status().running is None:
            time.sleep(0.2)
        second = subprocess.run(
            [*CLI, str(case.file), "--wait", "0", "--json"], capture_output=True, text=True
        )
        assert second.returncode == 1, second.stdout + second.stderr
        assert json.loads(second.stdout)["code"] == "pipeline_busy"
        told, _ = first.communicate(timeout=600)
        assert told.splitlines()[-1] == "succeeded"
    at_rest(case, 1)


def test_a_watch_ends_with_sigterm(tmp_path: Path, spark: Any) -> None:
    """One commit for each trigger that finds files; the command ends with exit code 0."""
    case = Case(tmp_path)
    fill(case, 0)
    watching = subprocess.Popen(
        [*CLI, str(case.file), "--watch", "0.5", "--master", "local[2,4]", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert watching.stdout is not None
    for increment in range(1, 4):
        while json.loads(watching.stdout.readline())["status"] != "succeeded":
            pass
        if increment < 3:
            fill(case, increment)
    watching.send_signal(signal.SIGTERM)
    _, errors = watching.communicate(timeout=300)
    assert watching.returncode == 0, errors
    assert len(case.names()) == 15
    at_rest(case, 3)
    assert case.run(spark).status is RunStatus.EMPTY


def test_the_jvm_dies_during_a_run(tmp_path: Path, spark: Any) -> None:
    case = Case(tmp_path)
    fill(case, 0, rows=2000)
    driver = Driver(case, "local[2,4]")
    driver.begin()
    time.sleep(2)
    assert driver.kill("jvm", random.Random(0))
    told = driver.end()
    assert told is not None
    assert told.startswith("failed: "), told
    driver.close()
    case.run(spark, wait_seconds=60.0).raise_if_failed()
    assert len(case.names()) == 2000
    at_rest(case, 1)
