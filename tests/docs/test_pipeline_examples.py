"""The scripts of `examples/pipelines` and `examples/spark-pipelines` do what they say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import omnigraph
from omnigraph.spark.java import find_java, write_shim

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The Java that the product would use."""
    java = find_java(os.environ)
    home = java.home if java.complete else write_shim(java, tmp_path / "java")
    found = {**os.environ, "JAVA_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**found, "PYSPARK_PYTHON": sys.executable}


def told(command: list[object], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_task_of_an_orchestrator(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "shop"
    shutil.copytree(EXAMPLES / "pipelines", folder)
    first = told([sys.executable, "nightly.py", "shop.yaml"], folder, environment)
    assert "look at 1 rows of customers: email LIKE '%_@_%'\n" in first
    assert "Order: 2 inserted, 0 updated\n" in first
    assert first.endswith("ask for a review of pipeline/shop/review\n")
    omnigraph.open(folder / "shop.omni").merge("pipeline/shop/review")
    again = told([sys.executable, "nightly.py", "shop.yaml"], folder, environment)
    assert again.startswith("shop: empty\n")
    (folder / "shop.yaml").write_text("version: 1\nname: shop\n")
    failed = subprocess.run(
        [sys.executable, "nightly.py", "shop.yaml"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert failed.returncode == 1
    assert "shop.yaml" in failed.stdout


def test_spark_submit(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "shop"
    shutil.copytree(EXAMPLES / "pipelines", folder)
    submit = Path(pyspark.__path__[0]) / "bin" / "spark-submit"
    command = [submit, "--master", "local[2]", "submit.py", "shop.yaml"]
    assert "shop succeeded 01" in told(command, folder, environment)


def test_pipelines_of_spark_itself(tmp_path: Path, environment: dict[str, str]) -> None:
    script = EXAMPLES / "spark-pipelines" / "run_example.py"
    lines = told([sys.executable, script, tmp_path / "out"], tmp_path, environment).splitlines()
    assert lines[:2] == ["load packages", "load packages"]
    assert lines[-1] == "['duckdb', 'lance', 'polars', 'pyarrow']"
    made = list((tmp_path / "out" / "spark-warehouse" / "popular_packages").glob("*.parquet"))
    assert made
