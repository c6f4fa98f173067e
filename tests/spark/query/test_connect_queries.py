"""`engine="spark"` over Spark Connect: the client has no JVM, the answers are the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph_testing.spark_clusters import connect_server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark_reads"), pytest.mark.timeout(1800)]

PROGRAM = Path(__file__).with_name("connect_queries.py")


def test_conformance_large_answers_and_errors(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    with connect_server(tmp_path) as address:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), str(tmp_path), address],
            capture_output=True,
            text=True,
            timeout=1500,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "kind": True,
        "wrong": [],
        "large answer": True,
        "division by zero": "invalid_argument",
        "no such property": "type_check_error",
        "too late": "resource_limit",
        "session": True,
    }
