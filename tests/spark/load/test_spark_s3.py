"""Inputs and graphs in a bucket, on both engines."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store

from omnigraph import init, open
from omnigraph.errors import InvalidArgument, NotFound, ValidationFailed
from omnigraph_testing.graph_helpers import with_parts
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.load_engines import SCHEMA, SMALL_PIECES, masked, new_graph

pytestmark = [
    pytest.mark.s3,
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark"),
]

PEOPLE = [f'{{"type":"Person","data":{{"name":"p{i}","age":{i}}}}}' for i in range(30)]
EDGES = "id,from,to\n" + "".join(f"k{i},p{i},q{i}\n" for i in range(20))

Put = Callable[[str, bytes], str]


def parquet() -> bytes:
    sink = io.BytesIO()
    rows = pa.table({"name": [f"q{i}" for i in range(40)], "age": list(range(40))})
    pq.write_table(rows, sink, row_group_size=15)
    return sink.getvalue()


@pytest.fixture
def put(s3: Any) -> Put:
    s3.create_bucket("pipeline")
    store = S3Store(
        "pipeline",
        endpoint=s3.endpoint,
        access_key_id="test",
        secret_access_key="test",
        region="us-east-1",
        client_options={"allow_http": True},
    )

    def put(key: str, data: bytes) -> str:
        obstore.put(store, key, data)
        return f"s3://pipeline/{key}"

    return put


@pytest.fixture
def folder(put: Put) -> str:
    put("in/a.ndjson", "\n".join(PEOPLE[:20]).encode())
    put("in/b.jsonl.gz", gzip.compress("\n".join(PEOPLE[20:]).encode()))
    put("in/Person.0.parquet", parquet())
    put("in/Knows.csv", EDGES.encode())
    put("in/notes.txt", b"not data")
    put("in/deeper/c.ndjson", b"rubbish")
    return "s3://pipeline/in"


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_folder_of_a_bucket_loads_into_a_graph_in_it(
    folder: str, tmp_path: Path, engine: str
) -> None:
    graph = init(f"s3://pipeline/graph-{engine}", SCHEMA, settings=SMALL_PIECES)
    assert graph.load(folder, engine=engine).total_entities == 90
    assert_at_rest(graph)
    again = open(f"s3://pipeline/graph-{engine}", settings=SMALL_PIECES)
    assert again.load(f"{folder}/*.parquet", "merge", engine=engine).commit is None
    local = new_graph(tmp_path / "local")
    local.load([f"{folder}/a.ndjson", f"{folder}/b.jsonl.gz", f"{folder}/*.[pc]*"], engine=engine)
    assert masked(local) == masked(again)


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_mistakes_name_the_object(folder: str, put: Put, tmp_path: Path, engine: str) -> None:
    graph = new_graph(tmp_path / "g")
    bad = put("bad.ndjson", "\n".join([*PEOPLE, "rubbish"]).encode())
    with pytest.raises(ValidationFailed, match=r"s3://pipeline/bad\.ndjson:31: not JSON"):
        graph.load(bad, engine=engine)
    with pytest.raises(NotFound, match=r"s3://pipeline/none\.ndjson: no such object"):
        graph.load("s3://pipeline/none.ndjson", engine=engine)
    with pytest.raises(NotFound, match="no such object"):
        graph.load("s3://pipeline/in/*.feather", engine=engine)
    with pytest.raises(InvalidArgument, match="unknown kind of file"):
        graph.load(f"{folder}/notes.txt", engine=engine)
    with pytest.raises(InvalidArgument, match="Parquet"):
        graph.load(put("Person.9.parquet", b"rubbish" * 9), engine=engine)
    assert graph.read("Person").num_rows == 0
    assert_at_rest(graph)


def test_a_branch_is_merged_and_indexed_in_a_bucket(put: Put) -> None:
    made = init("s3://pipeline/merged", SCHEMA, settings=SMALL_PIECES)
    merger = replace(made.engine.spark_merger, ids_per_task=9, few_ids=0)
    upkeep = replace(made.engine.spark_upkeep, rows_per_part=1)
    graph = with_parts(made, spark_merger=merger, spark_upkeep=upkeep)
    people = [{"name": f"p{i}", "age": i} for i in range(30)]
    graph.apply({"Person": {"insert": people[:20]}})
    graph.branches.create("b")
    graph.apply({"Person": {"insert": people[20:], "delete": ["p3"]}}, "b")
    graph.apply({"Person": {"upsert": [{"name": "p4", "age": 99}]}})
    assert graph.merge("b", engine="spark").outcome == "merged"
    ages = {row["id"]: row["age"] for row in graph.read("Person").to_pylist()}
    assert (len(ages), ages["p4"], ages["p29"]) == (29, 99, 29)
    assert graph.optimize(engine="spark") == []
    assert all(row.pending_rows == 0 for row in graph.index_status())
    assert graph.verify(full=True).ok
    assert_at_rest(graph)
