"""Spark Connect: the client has no JVM, the server is one of the pip package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph_testing.spark_clusters import connect_server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

PROGRAM = Path(__file__).with_name("connect_load.py")


def test_load_export_and_merge(tmp_path: Path) -> None:
    with connect_server(tmp_path) as address:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), str(tmp_path), address],
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert found.pop("kind").startswith("pyspark.sql.connect.")
    assert "'to': there is no P 'nobody'" in found.pop("refused")
    assert found == {
        "loaded": 600,
        "engine": ["spark", "spark", "the input is a Spark DataFrame"],
        "unknown": {"type": "Q"},
        "people": 302,
        "round trip": True,
        "edges": 300,
        "merged": ["fast_forward", "spark", True, []],
    }
