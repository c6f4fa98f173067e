"""Loads and merges on real clusters from the pip package: executors are processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph_testing.spark_clusters import LOCAL_CLUSTER, standalone

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

PROGRAM = Path(__file__).with_name("troubled_load.py")
ALL_ONCE = {
    "loaded": 600,
    "people": [300, 300],
    "edges": 300,
    "commits": 2,
    "troubled": True,
}


MERGE_PROGRAM = Path(__file__).with_name("troubled_merge.py")
MERGED_ONCE = {
    "outcome": ["fast_forward", "spark", []],
    "people": [300, 300],
    "same": True,
    "edges": 300,
    "verified": True,
    "troubled": True,
}


def load_on(master: str, folder: Path, trouble: str) -> None:
    assert run(PROGRAM, master, folder, trouble) == ALL_ONCE


def merge_on(master: str, folder: Path, trouble: str) -> None:
    assert run(MERGE_PROGRAM, master, folder, trouble) == MERGED_ONCE


def run(program: Path, master: str, folder: Path, trouble: str) -> object:
    done = subprocess.run(
        [sys.executable, str(program), str(folder), master, trouble],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("cluster")) as address:
        yield address


@pytest.mark.parametrize("trouble", ["fail", "worker"])
def test_threads_of_one_process(tmp_path: Path, trouble: str) -> None:
    load_on("local[2,4]", tmp_path, trouble)


@pytest.mark.parametrize("trouble", ["fail", "worker", "executor"])
def test_local_cluster(tmp_path: Path, trouble: str) -> None:
    load_on(LOCAL_CLUSTER, tmp_path, trouble)


@pytest.mark.parametrize("trouble", ["fail", "worker", "executor", "straggler"])
def test_a_standalone_master_with_two_workers(tmp_path: Path, master: str, trouble: str) -> None:
    load_on(master, tmp_path, trouble)


@pytest.mark.parametrize("trouble", ["fail", "worker"])
def test_merges_on_threads_of_one_process(tmp_path: Path, trouble: str) -> None:
    merge_on("local[2,4]", tmp_path, trouble)


def test_a_merge_on_a_local_cluster_loses_an_executor(tmp_path: Path) -> None:
    merge_on("local-cluster[2,1,1024]", tmp_path, "executor")


@pytest.mark.parametrize("trouble", ["worker", "straggler"])
def test_merges_on_a_standalone_master(tmp_path: Path, master: str, trouble: str) -> None:
    merge_on(master, tmp_path, trouble)
