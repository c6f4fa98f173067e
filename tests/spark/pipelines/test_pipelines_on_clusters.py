"""One pipeline on every kind of Spark: equal graphs, also if a worker or an executor is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph_testing.spark_clusters import LOCAL_CLUSTER, connect_server, standalone

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(1800)]

PROGRAM = Path(__file__).with_name("run_somewhere.py")


def run(master: str, folder: Path, trouble: str = "none") -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), master, trouble],
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    found = run("local[2]", tmp_path_factory.mktemp("undisturbed"))
    assert found["runs"] == [["succeeded", 1, 50], ["succeeded", 1, 50], ["empty"]]
    assert (len(found["rows"]), len(found["edges"]), found["commits"]) == (100, 100, 2)
    return found


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("cluster")) as address:
        yield address


def same(found: Any, wanted: Any, trouble: str) -> bool:
    """Counts of failed rows may be higher after a kill, because tasks were repeated."""
    if trouble == "none":
        return bool(found == wanted)
    kept = ("rows", "edges", "commits", "quarantined")
    return all(found[key] == wanted[key] for key in kept)


@pytest.mark.parametrize("trouble", ["none", "executor"])
def test_local_cluster_gives_the_same(tmp_path: Path, undisturbed: Any, trouble: str) -> None:
    found = run(LOCAL_CLUSTER, tmp_path, trouble)
    assert same(found, undisturbed, trouble)
    assert (tmp_path / "troubled").exists() == (trouble != "none")


@pytest.mark.parametrize("trouble", ["none", "worker", "executor"])
def test_a_standalone_master_gives_the_same(
    tmp_path: Path, master: str, undisturbed: Any, trouble: str
) -> None:
    assert same(run(master, tmp_path, trouble), undisturbed, trouble)


def test_connect_gives_the_same(tmp_path: Path, undisturbed: Any) -> None:
    (tmp_path / "server").mkdir()
    with connect_server(tmp_path / "server") as address:
        assert run(address, tmp_path / "run") == undisturbed
