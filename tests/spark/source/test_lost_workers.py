"""Workers and executors killed in the middle of scans and queries: the rows are the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dying_readers import DEADLY
from troubled_reads import make_graph, query, scan

from omnigraph_testing.spark_clusters import LOCAL_CLUSTER, standalone

pytestmark = [pytest.mark.xdist_group("spark_reads"), pytest.mark.timeout(1800)]

PROGRAM = Path(__file__).with_name("troubled_reads.py")
ALL = {"deaths": len(DEADLY)}


def test_workers_of_one_process(spark: Any, tmp_path: Path) -> None:
    graph = make_graph(tmp_path)
    assert scan(spark, graph, tmp_path, "worker") == ALL
    assert query(graph, tmp_path, "worker") == ALL


def run_on(master: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), master, "worker", "executor"],
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"worker": [ALL, ALL], "executor": [ALL, ALL]}


@pytest.mark.slow
def test_local_cluster(tmp_path: Path) -> None:
    run_on(LOCAL_CLUSTER, tmp_path)


@pytest.mark.slow
def test_a_standalone_master_with_two_workers(tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        run_on(master, tmp_path)
