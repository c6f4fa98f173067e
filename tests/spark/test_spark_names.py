"""`omnigraph.spark`: the names for users, and an import that costs nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import omnigraph.spark

LIGHT = """
import json, sys
import omnigraph.spark
print(json.dumps(sorted(sys.modules)))
"""


def test_public_names_resolve_and_are_sorted() -> None:
    assert omnigraph.spark.__all__ == sorted(omnigraph.spark.__all__)
    assert sorted([*omnigraph.spark._PUBLIC, "pipelines"]) == omnigraph.spark.__all__
    assert omnigraph.spark.pipelines.__name__ == "omnigraph.spark.pipelines"
    for name in omnigraph.spark._PUBLIC:
        assert getattr(omnigraph.spark, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'GrahpReader'"):
        _ = omnigraph.spark.GrahpReader


def test_the_import_brings_no_pyspark_and_no_part_of_the_engine() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    modules = json.loads(done.stdout)
    ours = [name for name in modules if name.split(".")[0] == "omnigraph"]
    assert ours == ["omnigraph", "omnigraph.spark"]
    assert not {"pyspark", "pyarrow", "lance"} & set(modules)
