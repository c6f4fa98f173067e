"""Inputs that cannot be processed: a typed error that says where, and nothing published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pipeline_case import Case, touch

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
        ("graph: packages.omni", "graph: http://host/graphs/x", "address"),
    ],
)
def test_what_validate_refuses(case: Case, old: str, new: str, message: str) -> None:
    edited(case, old, new)
    with pytest.raises(PipelineInvalid, match=message):
        case.loaded().validate()
    assert not Path(case.uri).exists()


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
    case.packages("d,4,4", file="other")
    mixed = case.run(spark)
    assert mixed.failure is not None
    assert (mixed.failure.fields["source"], mixed.failure.fields["column"]) == ("raw", "size")
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
