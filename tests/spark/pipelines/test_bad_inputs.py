"""Inputs that cannot be processed: a typed error that says where, and nothing published."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pipeline_case import FILE, Case, touch

import omnigraph
from omnigraph import NotFound, PipelineFailed, PipelineInvalid
from omnigraph.spark.pipelines import RunStatus

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def case(tmp_path: Path) -> Case:
    case = Case(tmp_path)
    case.packages("a,1,1", "b,2,2", file="first")
    return case


def edited(case: Case, old: str, new: str) -> None:
    text = case.file.read_text()
    assert old in text
    case.file.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "fields", "message"),
    [
        ("AS name, version", "AS name, versionn", {"step": "packages"}, "versionn"),
        ("FROM raw", "FROM (raw", {"step": "packages"}, "PARSE_SYNTAX_ERROR"),
        ("name IS NOT NULL AND", "nam IS NOT NULL AND", {"step": "packages"}, "`nam`"),
        ("size FROM", "CAST(version || 'x' AS INT) AS size FROM", {"step": "packages"}, "1x"),
        ("size FROM", "'many' AS size FROM", {}, "many"),
        ("in/packages/*.csv", "in/none.csv", {"source": "raw"}, "no such file"),
        ("mode: merge}\n", "map: {name: nme}}\n", {"target": "Package"}, "nme"),
    ],
)
def test_a_run_fails_with_its_place(
    case: Case, spark: Any, old: str, new: str, fields: dict[str, str], message: str
) -> None:
    edited(case, old, new)
    failed = case.run(spark)
    assert failed.status is RunStatus.FAILED
    assert isinstance(failed.failure, PipelineFailed), failed.failure
    assert message in failed.failure.message
    assert {name: failed.failure.fields.get(name) for name in fields} == fields
    assert case.names() == []
    with case.graph() as graph:
        assert [b.name for b in graph.branches.list()] == ["main"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("type: Package", "type: Pakage", "Pakage"),
        ("map: {range:", "map: {rang:", "no property 'rang'; did you mean 'range'"),
        ("type: Package, from", "type: Package, ends: {from: a, to: b}, from", "node type"),
        ("mode: merge}\n", "mode: mirror}\n", "needs all rows, and source raw is incremental"),
        ("mode: merge}\n", "map: {version: version}}\n", "required property 'name' has no column"),
        ("sql: SELECT lower", "python: own_steps:f\n    inputs: [packages]\n    #", "a cycle"),
        ("sql: SELECT lower", "python: none_here:f\n    inputs: [raw]\n    #", "none_here"),
        ("schema: packages.pg", "schema: none.pg", "there is no file"),
        ("in/packages/*.csv", "in/none.csv", r"pipeline.yaml:7:\d+: source raw: .*no such file"),
    ],
)
def test_what_validate_refuses(case: Case, old: str, new: str, message: str) -> None:
    edited(case, old, new)
    with pytest.raises(PipelineInvalid, match=message):
        case.loaded().validate()
    assert not Path(case.uri).exists()


def test_files_that_are_not_in_the_encoding_of_their_source(case: Case, spark: Any) -> None:
    """Spark would read other bytes as U+FFFD and say nothing."""
    (empty,) = case.loaded().validate()
    assert empty == f"source needs: no file matches {case.folder}/in/requires/**/*.ndjson"
    file = case.packages()
    file.write_bytes("name,version,size\na,1,1\nJürgen,1,1\n".encode("cp1252"))
    problem = f"source raw: {file}: line 3: the byte 0xfc is not UTF-8"
    with pytest.raises(PipelineInvalid, match=f"pipeline.yaml:7:\\d+: {re.escape(problem)}"):
        case.loaded().validate()
    failed = case.run(spark)
    assert isinstance(failed.failure, PipelineFailed)
    assert failed.failure.message.startswith(problem)
    assert (failed.failure.source, failed.failure.file) == ("raw", str(file))
    edited(case, "{header: true}", "{header: true, encoding: windows-1252}")
    assert case.loaded().validate() == (empty,)
    case.run(spark).raise_if_failed()
    assert case.names() == ["a", "b", "jürgen"]


def test_functions_of_python_steps_that_raise(case: Case, spark: Any) -> None:
    """On executors, too, where the step is known by the file of its module."""
    edited(case, "sql: SELECT lower(trim(name))", "python: own:f\n    inputs: [raw]\n    #")
    failed = case.run(spark)
    assert failed.failure is not None
    assert failed.failure.message.startswith("step packages: own cannot be imported: ")
    (case.folder / "own.py").write_text(
        "def raising(name):\n    raise ValueError('no ' + name)\n"
        "def f(spark, inputs):\n    from pyspark.sql.functions import udf\n"
        "    return inputs['raw'].withColumn('name', udf(raising)('name'))\n"
    )
    failed = case.run(spark)
    assert isinstance(failed.failure, PipelineFailed)
    assert failed.failure.step == "packages"
    assert "no a" in failed.failure.message


def test_an_empty_file_has_no_rows_and_tells_no_columns(case: Case, spark: Any) -> None:
    case.run(spark).raise_if_failed()
    (case.folder / "in/packages/nothing.csv").write_text("")
    quiet = case.run(spark)
    assert (quiet.status, quiet.error, quiet.messages) == (RunStatus.EMPTY, None, ())
    case.packages("c,3,3")
    assert case.run(spark).raise_if_failed().targets[0].inserted == 1


def test_a_graph_without_schema_must_exist(case: Case, spark: Any) -> None:
    edited(case, "schema: packages.pg\n", "")
    failed = case.run(spark)
    assert isinstance(failed.failure, NotFound)


def test_a_source_that_changed(case: Case, spark: Any) -> None:
    case.run(spark).raise_if_failed()
    changed = case.packages("c,3", file="changed", header="name,version")
    failed = case.run(spark)
    assert isinstance(failed.failure, PipelineFailed)
    assert failed.failure.fields["source"] == "raw"
    assert failed.failure.fields["file"] == str(changed)
    assert failed.failure.fields["column"] == "size"
    other = case.packages("d,4,4", file="other")
    mixed = case.run(spark)
    assert mixed.failure is not None
    assert (mixed.failure.fields["source"], mixed.failure.fields["column"]) == ("raw", "size")
    odd = f"source raw: {other}: there is the new column 'size', unlike in {changed}; "
    assert mixed.failure.message.startswith(odd)
    assert "`evolve: true`" in mixed.failure.message
    assert [(each.rows, each.position) for each in mixed.sources] == [(None, None)] * 2
    changed.unlink()
    case.packages("5,e,5", file="other", header="size,name,version")
    assert case.run(spark).raise_if_failed().targets[0].inserted == 1
    with case.graph() as graph:
        row = graph.read("Package", ids=["e"]).to_pylist()[0]
    assert (row["version"], row["size"]) == ("5", 5)


def test_evolve_applies_the_schema(case: Case, spark: Any) -> None:
    case.run(spark).raise_if_failed()
    edited(case, "schema: packages.pg", "schema: packages.pg\nevolve: true")
    schema = case.folder / "packages.pg"
    schema.write_text(schema.read_text().replace("size: I32?", "size: I32?  home: String?"))
    (waits,) = case.run(spark).messages
    assert "home" in waits
    assert waits.endswith(", with the next rows")
    edited(case, "version, size FROM raw", "version, size, home FROM raw")
    case.packages("c,3,3,http://c", file="more", header="name,version,size,home")
    assert any("home" in step for step in case.loaded().plan().schema_steps)
    done = case.run(spark).raise_if_failed()
    assert any("home" in message for message in done.messages)
    with case.graph() as graph:
        assert graph.read("Package", ids=["c"]).to_pylist()[0]["home"] == "http://c"
        assert [b.name for b in graph.branches.list()] == ["main"]
    schema.write_text(schema.read_text().replace("home: String?", "home: String?  more: String?"))
    edited(case, "size, home FROM raw", "size, home, x FROM raw")
    case.packages("d,4,4,http://d", file="last", header="name,version,size,home")
    assert case.run(spark).status is RunStatus.FAILED
    with case.graph() as graph:
        names = [p.name for p in graph.snapshot().catalog.resolve("Package").properties]
        assert "more" not in names, "a failed run changes no schema"


def test_broken_files(tmp_path: Path, spark: Any) -> None:
    case = Case(tmp_path)
    edited(
        case, 'files: "in/packages/*.csv", format: csv', 'files: "in/*.parquet", format: parquet'
    )
    (tmp_path / "in/broken.parquet").write_bytes(b"PAR1 this is no Parquet file")
    failed = case.run(spark)
    assert isinstance(failed.failure, PipelineFailed)
    assert failed.failure.fields["source"] == "raw"
    assert "broken.parquet" in failed.failure.fields["file"]
    assert case.names() == []


def test_a_lost_session(case: Case, spark: Any) -> None:
    class Lost:
        def newSession(self) -> Any:
            raise ConnectionRefusedError("the JVM is gone")

    failed = case.run(Lost())
    assert failed.status is RunStatus.FAILED
    assert failed.error is not None
    assert failed.error["code"] == "spark_unavailable"
    case.run(spark).raise_if_failed()
    assert case.names() == ["a", "b"]


def test_an_empty_increment_of_one_source(case: Case, spark: Any) -> None:
    case.requires("ab")
    case.run(spark).raise_if_failed()
    case.requires("ba")
    only_edges = case.run(spark).raise_if_failed()
    assert {s.name: s.rows for s in only_edges.sources} == {"raw": 0, "needs": 1}
    empty = case.packages(file="empty")
    touch(empty, 5)
    assert case.run(spark).status is RunStatus.EMPTY
    assert case.pairs() == ["ab", "ba"]


DATABASE = """
version: 1
name: packages
graph: packages.omni
schema: packages.pg
sources:
  raw: {format: jdbc, options: {url: "URL", dbtable: PACKAGES}}
targets:
  - {type: Package, from: raw, mode: mirror, map: {name: NAME, size: SIZE}}
"""


def test_a_database(tmp_path: Path, spark: Any) -> None:
    """Spark brings the driver of Derby; the tables are in the memory of its JVM."""
    # Otherwise Derby writes its log into the current folder.
    spark._jvm.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    url = f"jdbc:derby:memory:{tmp_path.name};create=true"
    case = Case(tmp_path, DATABASE.replace("URL", url))

    def store(*rows: tuple[str, int]) -> None:
        frame = spark.createDataFrame(rows, "NAME STRING, SIZE INT")
        frame.write.format("jdbc").mode("overwrite").options(url=url, dbtable="PACKAGES").save()

    store(("a", 1), ("b", 2))
    assert case.run(spark).raise_if_failed().sources[0].rows == 2
    store(("b", 3), ("c", 4))
    done = case.run(spark).raise_if_failed().targets[0]
    assert (done.inserted, done.updated, done.removed) == (1, 1, 1)
    assert case.names() == ["b", "c"]


@pytest.mark.parametrize(
    ("source", "package"),
    [
        ("{format: jdbc, options: {url: 'jdbc:h2:mem:x', dbtable: t}}", "com.h2database:h2"),
        (
            "{format: jdbc, options: {url: 'jdbc:postgresql://h/d', dbtable: t, driver: "
            "org.postgresql.Driver}}",
            "org.postgresql:postgresql",
        ),
        ("{format: kafka, options: {subscribe: t}}", "org.apache.spark:spark-sql-kafka-0-10"),
        ("{format: kafka, options: {subscribe: t}, incremental: stream}", "spark-sql-kafka-0-10"),
        ("{format: strange}", "the package that has it"),
    ],
)
def test_a_format_whose_jar_is_missing(
    tmp_path: Path, spark: Any, source: str, package: str
) -> None:
    text = DATABASE.replace('{format: jdbc, options: {url: "URL", dbtable: PACKAGES}}', source)
    case = Case(tmp_path, text.replace("mirror", "merge"))
    failed = case.run(spark)
    assert isinstance(failed.failure, PipelineFailed)
    assert failed.failure.message.startswith("source raw: Spark has no ")
    assert package in failed.failure.message
    assert failed.failure.fields["source"] == "raw"
    assert case.names() == []


def test_a_full_disk(tmp_path: Path, spark: Any) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a tmpfs is not permitted here")
    try:
        case = Case(tmp_path, FILE.replace("graph: packages.omni", "graph: disk/packages.omni"))
        case.packages("a,1,1", file="first")
        case.run(spark).raise_if_failed()
        case.packages(*(f"{os.urandom(400).hex()},1,1" for _ in range(8000)), file="large")
        failed = case.run(spark)
        assert failed.status is RunStatus.FAILED
        assert isinstance(failed.failure, PipelineFailed)
        assert "no space" in failed.failure.message.casefold()
        with omnigraph.open(disk / "packages.omni") as graph:
            assert graph.read("Package")["id"].to_pylist() == ["a"]
        assert len(case.commits_of(disk / "packages.omni")) == 1
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
