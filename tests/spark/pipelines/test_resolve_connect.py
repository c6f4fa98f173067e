"""Entity resolution on Spark Connect: no RDDs, no JVM in the client."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph_testing.spark_clusters import connect_server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]


def test_entities_and_pairs(tmp_path: Path) -> None:
    with connect_server(tmp_path) as server:
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("connect_resolve.py")), server],
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("kind").startswith("pyspark.sql.connect.")
    assert found == {
        "entities": {"r1": ["r1", "r2", "r3"], "r4": ["r4"], "r5": ["r5"], "r6": ["r6"]},
        "pairs": [["r1", "r3"], ["r2", "r3"]],
        "stars": {"a": "a", "b": "a", "c": "a", "x": "x", "y": "x"},
    }
