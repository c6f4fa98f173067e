"""Executors import only what a task needs, and nothing that opens a graph.

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
from pyspark.sql.types import StructType

from omnigraph.graph.handle import Graph
from omnigraph.ir.expressions import STRING
from omnigraph.spark.column_types import spark_arrow_schema, spark_schema
from omnigraph.spark.query import spark_values
from omnigraph.spark.query.answers import _packed
from omnigraph.spark.query.graph_tables import read_tasks
from omnigraph.spark.query.rows import Output
from omnigraph.spark.query.spark_values import TypedColumn
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
READS = {
    "catalog",
    "errors",
    "lance_store",
    "progress",
    "settings",
    "settings.machine_memory",
    "spark",
    "spark.column_types",
    "spark.failures",
    "spark.source",
    "values",
}
QUERY_READS = READS - {"spark.failures", "spark.source"}
HASHES = {"load", "spark.query", "writes"}
ANSWERS = {"catalog", "errors", "execute", "ir", "progress", "values"} | {
    "plan",
    "spark",
    "spark.column_types",
    "spark.query",
}
FUNCTIONS = ANSWERS - {"plan", "spark", "spark.column_types", "spark.query"}
WRITES = READS | {
    "embed",
    "failpoints",
    "integrity",
    "ir",  # with "scoping": what rejected rows may tell to an actor with rules
    "load",
    "manifest",
    "scoping",
    "settings.models",
    "spark.load",
    "writes",
}


def packages(folder: Path, task: Callable[..., Any], given: Any, rows: int | None) -> set[str]:
    """Packages of ours that a worker has imported when the task is done.

    The parts of `omnigraph.settings` and `omnigraph.spark` are listed one by one.
    """
    file = folder / "task"
    file.write_bytes(cloudpickle.dumps((task, given, rows is not None)))
    done = subprocess.run(
        [sys.executable, "-c", WORKER, str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found, modules = json.loads(done.stdout)
    assert found == (rows or 0)
    assert "omnigraph.spark.session" not in modules
    return {_package(name) for name in modules if "." in name}


def _package(module: str) -> str:
    parts = module.split(".")[1:]
    return ".".join(parts[:2] if parts[0] in ("settings", "spark") else parts[:1])


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


@pytest.mark.parametrize(("hashed", "imported"), [((), set()), (("id",), HASHES)])
def test_a_query(
    filled: Graph, tmp_path: Path, hashed: tuple[str, ...], imported: set[str]
) -> None:
    snapshot, store = filled.snapshot(), filled.engine.store
    entity = snapshot.catalog.resolve("Person")
    schema = spark_schema(entity)
    target = store.address(snapshot.pin(entity.table_key).at)
    read = read_tasks(
        target=target,
        columns=tuple(schema.names),
        conditions=(),
        tasks=((0,),),
        wanted=spark_arrow_schema(schema),
        hashed=hashed,
    )
    numbers = iter([pa.record_batch({"id": [0]})])
    assert packages(tmp_path, read, numbers, 2) <= QUERY_READS | imported


def test_an_answer(tmp_path: Path) -> None:
    pack = _packed((Output("name", pa.string()),), pa.schema({"name": pa.string()}))
    assert packages(tmp_path, pack, batches(3), 1) <= ANSWERS


@pytest.mark.parametrize("name", ["lower", "search"])
def test_a_function_of_a_query(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_values, "_udf", lambda compute, kind: lambda *columns: compute)
    if name == "search":
        compute = spark_values.match_local(None, "search", "a", None)
    else:
        compute = spark_values.call_local(name, [TypedColumn(None, STRING)], STRING)
    given = pa.array(["A", "b"])
    assert packages(tmp_path, compute, given, None) <= FUNCTIONS


def test_a_save(filled: Graph, tmp_path: Path) -> None:
    writer = OmnigraphSource({"path": filled.uri, "type": "Person"}).writer(
        StructType(), overwrite=False
    )
    assert packages(tmp_path, writer.write, batches(3), None) <= WRITES
    assert filled.read("Person").num_rows == 2
