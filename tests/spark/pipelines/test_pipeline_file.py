"""Pipeline files: what they may say, and the place of every mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omnigraph import NotFound, PipelineInvalid
from omnigraph.spark import pipelines
from omnigraph.spark.pipelines.flow import flow_of, tables_in
from omnigraph.spark.pipelines.model import Incremental, OnFail, PublishVia, TargetMode
from omnigraph.spark.pipelines.parse import parse_text

WHOLE = """
version: 1
name: packages
graph: packages.omni
schema: packages.pg
evolve: true
sources:
  raw_packages: {files: "in/packages/*.csv", format: csv, options: {header: true}, incremental: files}
  raw_requires: {files: "in/requires/**/*.ndjson", format: json}
  people:       {format: jdbc, options: {url: "${PG_URL:-none}", dbtable: people}}
  reviewed:     {graph: other.omni, type: Note, branch: main, incremental: commits}
steps:
  packages:
    sql: SELECT lower(trim(name)) AS name, version FROM raw_packages
    expect:
      - {check: "name IS NOT NULL", on_fail: quarantine}
      - {check: "version RLIKE '^[0-9]'", on_fail: fail, tolerate: 0.01}
  requires:
    python: my_steps:requires
    inputs: [raw_requires, packages]
  authors:
    resolve:
      input: people
      block: ["lower(email)", "soundex(name)"]
      compare:
        - {column: name, by: jaro_winkler, weight: 0.6}
        - {column: email, by: exact, weight: 0.4}
      threshold: 0.85
      id: author_id
targets:
  - {type: Package, from: packages, mode: merge, map: {name: name, version: version}}
  - {type: Requires, from: requires, mode: mirror, ends: {from: package, to: dependency}, map: {range: spec}}
publish: {branch: main, via: merge, review: false, message: "nightly packages", actor: etl}
quarantine: out/quarantine
spark: {master: "local[*]", conf: {spark.sql.shuffle.partitions: 4}, packages: []}
"""  # noqa: E501 - as in the contract


def parsed(text: str, variables: dict[str, str] | None = None) -> Any:
    return parse_text(text, Path("/place/pipeline.yaml"), variables or {})


def test_everything_that_a_file_may_say() -> None:
    found = parsed(WHOLE, {"PG_URL": "jdbc:x"})
    assert found.name == "packages"
    assert found.graph == "/place/packages.omni"
    assert found.sources["raw_packages"].files == ("/place/in/packages/*.csv",)
    assert found.sources["raw_packages"].options == {"header": "true"}
    assert found.sources["raw_packages"].incremental is Incremental.FILES
    assert found.sources["people"].options["url"] == "jdbc:x"
    assert found.sources["reviewed"].graph == "/place/other.omni"
    assert [e.on_fail for e in found.steps["packages"].expect] == [OnFail.QUARANTINE, OnFail.FAIL]
    assert found.targets[1].mode is TargetMode.MIRROR
    assert found.targets[1].ends == {"from": "package", "to": "dependency"}
    assert found.publish.via is PublishVia.MERGE
    assert found.spark.conf == {"spark.sql.shuffle.partitions": "4"}
    flow = flow_of(found)
    assert flow.order == ("packages", "requires")
    assert flow.inputs["requires"] == ("raw_requires", "packages")
    assert flow.needed_sources == ("raw_packages", "raw_requires")


def test_json_is_the_same(tmp_path: Path) -> None:
    body = {
        "version": 1,
        "name": "x",
        "graph": "g",
        "sources": {"a": {"files": "*.csv"}},
        "targets": [{"type": "T", "from": "a"}],
    }
    file = tmp_path / "pipeline.json"
    file.write_text(json.dumps(body, indent="\t"))
    found = pipelines.load(file, store="s3://bucket/graph", master="sc://host").pipeline
    assert (found.graph, found.spark.master) == ("s3://bucket/graph", "sc://host")
    assert found.sources["a"].format == "csv"
    with pytest.raises(NotFound):
        pipelines.load(tmp_path / "none.yaml")


MINIMAL = """version: 1
name: x
graph: g
sources:
  a: {files: "*.csv"}
targets:
  - {type: T, from: a}
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("name: x", "nam: x", 2, "unknown key `nam`; did you mean 'name'"),
        ("name: x", "name: x\nname: y", 3, "the key `name` is there twice"),
        ("name: x", "name: X!", 2, "has only a-z"),
        ("name: x", "name: [x]", 2, "must be a text"),
        ("name: x\n", "", 1, "needs the key `name`"),
        ("version: 1", "version: 2", 1, "`version` must be 1"),
        ("graph: g", "graph: ${NOT_SET}", 3, "needs the variable NOT_SET"),
        ("graph: g", "graph: ${", 3, "has `${` that is not"),
        ('{files: "*.csv"}', '{files: "*.xyz"}', 5, "needs `format`"),
        ('{files: "*.csv"}', '{files: "*.csv", format: cvs}', 5, "did you mean 'csv'"),
        ('{files: "*.csv"}', '{files: "*.csv", incremental: file}', 5, "did you mean 'files'"),
        ('{files: "*.csv"}', '{files: "*.csv", incremental: commits}', 5, "of files is `files`"),
        ('{files: "*.csv"}', '{files: "*.csv", type: T}', 5, "`type` is for a source with `graph`"),
        ('{files: "*.csv"}', "{graph: g}", 5, "needs `type`"),
        ('{files: "*.csv"}', "{graph: g, type: T, tag: v, branch: b}", 5, "several states"),
        ('{files: "*.csv"}', "{}", 5, "needs `files`, `graph` or `format`"),
        ('{files: "*.csv"}', '{files: "*.csv", options: {a: [1]}}', 5, "a text, a number"),
        ("  a:", "  a-b:", 5, "must be a name of letters"),
        ("from: a}", "from: a, mode: replace}", 7, "must be one of append, merge"),
        ("from: a}", "from: a, scope: 'x = 1'}", 7, "is for `mode: mirror`"),
        ("from: a}", "from: a, ends: {from: x}}", 7, "needs the key `to`"),
        ("from: a}", "form: a}", 7, "unknown key `form`; did you mean 'from'"),
        ("targets:\n  - {type: T, from: a}", "targets: []", 6, "would write nothing"),
        ("targets:\n  - {type: T, from: a}", "targets: {a: 1}", 6, "must be a list"),
        ("targets:", "steps: {b: {sql: SELECT 1, python: 'm:f'}}\ntargets:", 6, "exactly one of"),
        ("targets:", "steps: {b: {}}\ntargets:", 6, "and has none"),
        ("targets:", "steps: {b: {python: m}}\ntargets:", 6, "is `module:function`"),
        ("targets:", "steps: {a: {sql: SELECT 1}}\ntargets:", 6, "a source has this name"),
        ("targets:", "steps: {A: {sql: SELECT 1}}\ntargets:", 1, "differ only in case"),
        (
            "targets:",
            "steps:\n  b:\n    sql: SELECT 1\n    expect: [{check: x, tolerate: 2}]\ntargets:",
            9,
            "must be from 0 to 1",
        ),
        ("targets:", "publish: {via: comit}\ntargets:", 6, "did you mean 'commit'"),
        ("targets:", "publish: {via: commit, review: true}\ntargets:", 6, "needs `via: merge`"),
        ("targets:", "publish: {max_errors: 3}\ntargets:", 6, "is for `on_error: skip`"),
        ("targets:", "publish: {branch: 'a b'}\ntargets:", 6, "no name of a branch"),
        ("targets:", "evolve: 1\ntargets:", 6, "must be true or false"),
        ("targets:", "\tx: [\ntargets:", 6, ""),
    ],
)
def test_a_mistake_has_its_place(old: str, new: str, line: int, message: str) -> None:
    assert old in MINIMAL
    with pytest.raises(PipelineInvalid) as caught:
        parsed(MINIMAL.replace(old, new, 1))
    error = caught.value
    assert message in error.message
    assert error.message.startswith(f"/place/pipeline.yaml:{error.line}:{error.column}: ")
    assert line in [problem["line"] for problem in error.problems]


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(PipelineInvalid) as caught:
        parsed(MINIMAL.replace("name: x", "name: X").replace("from: a", "from: 7"))
    assert [problem["line"] for problem in caught.value.problems] == [2, 7]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("b: {sql: SELECT * FROM c}\n  c: {sql: SELECT * FROM b}", "cycle: b -> c -> b"),
        ("b: {sql: SELECT * FROM b}", "cycle: b -> b"),
        ("b: {python: 'm:f', inputs: [aa]}", "there is no source or step 'aa'; did you mean 'a'"),
    ],
)
def test_steps_that_cannot_be_ordered(steps: str, message: str) -> None:
    with pytest.raises(PipelineInvalid, match=message):
        flow_of(parsed(MINIMAL.replace("targets:", f"steps:\n  {steps}\ntargets:")))


def test_a_target_without_its_step() -> None:
    with pytest.raises(PipelineInvalid, match="target T: there is no source or step 'b'"):
        flow_of(parsed(MINIMAL.replace("from: a", "from: b")))


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT * FROM a", ["a"]),
        ("select x from `a` join B on a.x = B.x left join (select 1 from c) d", ["a", "B", "c"]),
        ("SELECT a, b FROM x, y z, w WHERE a IN (SELECT p, q FROM r)", ["x", "y", "w", "r"]),
        ("SELECT 'from a' -- from b\n FROM c /* join d */", ["c"]),
        ("WITH t AS (SELECT * FROM a) SELECT * FROM t UNION SELECT * FROM b", ["a", "t", "b"]),
        ("SELECT f(x, y) FROM a LATERAL VIEW explode(z) t AS u", ["a"]),
    ],
)
def test_the_tables_of_a_query(sql: str, tables: list[str]) -> None:
    assert tables_in(sql) == tables


def test_the_bases_of_external_blobs() -> None:
    text = WHOLE + "external_blobs: [s3://pictures/packages]\n"
    assert parsed(text).external_blobs == ("s3://pictures/packages",)
    assert parsed(WHOLE).external_blobs == ()
    with pytest.raises(PipelineInvalid, match="credentials"):
        parsed(WHOLE + "external_blobs: https://user:pw@host/a\n")
