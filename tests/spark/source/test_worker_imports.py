"""What an executor imports for a task: what the task does, and nothing that opens a graph.

The tasks run as Spark runs them, pickled and in a fresh process; Spark itself is left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from omnigraph.graph.handle import Graph
from omnigraph.lance_store.reads.scan import read_target
from omnigraph.spark.column_types import spark_arrow_schema, spark_schema
from omnigraph.spark.query.answer import _packed
from omnigraph.spark.query.fragment_tasks import FragmentScan, read_tasks
from omnigraph.spark.query.rows import Output
from omnigraph.spark.source.source import OmnigraphSource
from omnigraph.writes.shape import Edit

WORKER = """
import json, pickle, sys
from pyspark import TaskContext
context = TaskContext._getOrCreate()
context._partitionId, context._localProperties = 0, {}
task, given, keep = pickle.load(open(sys.argv[1], "rb"))
found = task(given)
rows = sum(batch.num_rows for batch in found) if keep else 0
print(json.dumps([rows, [name for name in sys.modules if name.startswith("omnigraph")]]))
"""
READS = {"catalog", "errors", "lance_store", "pipeline", "progress", "spark_source", "values"}
ANSWERS = READS - {"lance_store", "spark_source"} | {"execute", "ir", "spark_query"}
WRITES = READS | {"changes", "embed", "failpoints", "integrity", "load", "manifest", "settings"}


def packages(folder: Path, task: Callable[..., Any], given: Any, rows: int | None) -> set[str]:
    """Packages of ours that a worker has imported when the task is done."""
    file = folder / "task"
    file.write_bytes(cloudpickle.dumps((task, given, rows is not None)))
    done = subprocess.run(
        [sys.executable, "-c", WORKER, str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found, modules = json.loads(done.stdout)
    assert found == (rows or 0)
    assert "omnigraph.spark.session" not in modules
    return {name.split(".")[1] for name in modules if "." in name}


def batches(rows: int) -> Iterable[pa.RecordBatch]:
    return iter([pa.record_batch({"name": [f"n{i}" for i in range(rows)]})])


@pytest.fixture
def filled(people: Graph) -> Graph:
    people.apply({"Person": Edit(insert=[{"name": "a"}, {"name": "b"}])})
    return people


def test_a_scan(filled: Graph, tmp_path: Path) -> None:
    source = OmnigraphSource({"path": filled.uri, "type": "Person", "filter": "age IS NULL"})
    reader = source.reader(source.schema())
    (part,) = reader.partitions()
    assert packages(tmp_path, reader.read, part, 2) <= READS


def test_a_query(filled: Graph, tmp_path: Path) -> None:
    snapshot, store = filled.snapshot(), filled.engine.store
    entity = snapshot.catalog.resolve("Person")
    schema = spark_schema(entity)
    target = read_target(store, snapshot.pin(entity.table_key).at)
    scan = FragmentScan(target, tuple(schema.names), None, ((0,),))
    read = read_tasks(scan, spark_arrow_schema(schema))
    numbers = iter([pa.record_batch({"id": [0]})])
    assert packages(tmp_path, read, numbers, 2) <= READS | {"spark_query"}
    pack = _packed((Output("name", pa.string()),), pa.schema({"name": pa.string()}))
    assert packages(tmp_path, pack, batches(3), 1) <= ANSWERS


def test_a_save(filled: Graph, tmp_path: Path) -> None:
    writer = OmnigraphSource({"path": filled.uri, "type": "Person"}).writer(None, overwrite=False)
    assert packages(tmp_path, writer.write, batches(3), None) <= WRITES
    assert filled.read("Person").num_rows == 2
