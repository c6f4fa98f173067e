"""Modes over ten increments against a model, and random pipelines against pandas."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pipeline_case import SCHEMA, Case

import omnigraph
from omnigraph.spark import pipelines
from omnigraph.spark.pipelines import RunStatus

pytestmark = pytest.mark.xdist_group("spark")

MODES = """
version: 1
name: packages
graph: packages.omni
schema: packages.pg
sources:
  raw: {files: in/packages.ndjson, format: json, schema: "name STRING, version STRING, size INT"}
  needs: {files: in/requires.ndjson, format: json, schema: "a STRING, b STRING"}
targets:
  - {type: Package, from: raw, mode: NODES, map: MAP SCOPE}
  - {type: Requires, from: needs, mode: EDGES, ends: {from: a, to: b}, map: {}}
"""


def test_ten_increments_against_a_model(tmp_path: Path, spark: Any) -> None:
    """Every increment has other modes; a patch leaves `size` out, a scope spares version 9."""
    chance = random.Random(7)
    case = Case(tmp_path, MODES)
    nodes: dict[str, dict[str, Any]] = {}
    edges: set[tuple[str, str]] = set()
    for number in range(10):
        mode = ["merge", "patch", "mirror", "overwrite", "mirror scoped"][number % 5]
        edge_mode = chance.choice(["merge", "mirror", "patch"])
        rows = {
            name: {
                "name": name,
                "version": chance.choice(["1", "2", "9"]),
                "size": chance.choice([None, 1, 2]),
            }
            for name in chance.sample("abcdefgh", chance.randint(2, 6))
        }
        patched = mode == "patch"
        text = MODES.replace("NODES", mode.split()[0]).replace("EDGES", edge_mode)
        columns = "{name: name, version: version}"
        if not patched:
            columns = "{name: name, version: version, size: size}"
        text = text.replace("MAP", columns)
        case.file.write_text(
            text.replace(" SCOPE", ", scope: 'version != \"9\"'" if "scoped" in mode else "")
        )
        after = {} if mode in ("mirror", "overwrite") else dict(nodes)
        if "scoped" in mode:
            after = {n: row for n, row in nodes.items() if row["version"] == "9"}
        for name, row in rows.items():
            old = nodes.get(name, {"size": None}) if patched else row
            after[name] = {**row, "size": old["size"]}
        pairs = {(a, b) for a in after for b in after if chance.random() < 0.15}
        (tmp_path / "in/packages.ndjson").write_text(
            "".join(f"{json.dumps(row)}\n" for row in rows.values())
        )
        (tmp_path / "in/requires.ndjson").write_text(
            "".join(f"{json.dumps({'a': a, 'b': b})}\n" for a, b in pairs)
        )
        case.run(spark).raise_if_failed()
        left = set() if edge_mode == "mirror" else {(a, b) for a, b in edges if {a, b} <= {*after}}
        nodes, edges = after, left | pairs
        with case.graph() as graph:
            stored = graph.read("Package").to_pylist()
        assert {r["id"]: (r["version"], r["size"]) for r in stored} == {
            name: (row["version"], row["size"]) for name, row in nodes.items()
        }
        assert case.pairs() == sorted(a + b for a, b in edges)
        assert case.run(spark).status is RunStatus.EMPTY, "a repeated run changes nothing"
    assert len(case.commits()) <= 10


def test_many_files_keep_commits_small(tmp_path: Path, spark: Any) -> None:
    case = Case(tmp_path)
    for number in range(150):
        case.packages(f"p{number},1,1", file=f"many-{number}")
    first = case.run(spark).raise_if_failed()
    assert first.sources[0].files == 150
    case.packages("one,1,1", file="more")
    assert case.run(spark).raise_if_failed().sources[0].files == 1
    assert case.run(spark).status is RunStatus.EMPTY
    with case.graph() as graph:
        newest, oldest = graph.commits.list(pipeline="packages")
        recorded = newest.details["pipeline"]
        assert recorded["sources"]["raw"]["processed"]["count"] == 151
        assert recorded["lists"] == oldest.details["pipeline"]["lists"]
        assert len(json.dumps(newest.details)) < 4000
        graph.cleanup(keep=1, confirm=True)
    assert case.run(spark).status is RunStatus.EMPTY, "cleanup keeps the list of files"


# Random pipelines

Step = tuple[str, Any]
NAMES = st.sampled_from(["a", "b", "c", "d", "e", None, "", " A", "f'"])
ROWS = st.lists(st.tuples(NAMES, st.sampled_from([None, 0, 1, 2, 7])), min_size=0, max_size=8)
STEPS = st.lists(
    st.sampled_from(["clean", "positive", "largest", "known", "both", "twice"]), max_size=4
)
CHECKS = st.sampled_from([None, "name IS NOT NULL", "size > 0", "size > 0 OR name = 'a'"])

SQL = {
    "clean": "SELECT lower(trim(name)) AS name, size FROM {0}",
    "positive": "SELECT * FROM {0} WHERE size > 0",
    "largest": "SELECT name, max(size) AS size FROM {0} GROUP BY name",
    "known": "SELECT l.name, l.size FROM {0} l LEFT SEMI JOIN other r ON l.name = r.name",
    "both": "SELECT name, size FROM {0} UNION ALL SELECT name, size FROM other",
    "twice": "SELECT x.name, coalesce(x.size, 0) + coalesce(y.size, 0) AS size "
    "FROM {0} x JOIN {0} y ON x.name = y.name",
}


def frame(rows: list[Any]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["name", "size"]).astype({"name": object, "size": "Int64"})


def masked(rows: pd.DataFrame, test: Any) -> pd.Series:
    return pd.Series([test(n) for n in rows["name"]], index=rows.index, dtype=bool)


def evaluated(step: str, left: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    match step:
        case "clean":
            names = [None if n is None else n.strip(" ").lower() for n in left["name"]]
            return left.assign(name=pd.Series(names, index=left.index, dtype=object))
        case "positive":
            return left[(left["size"] > 0).fillna(False)]
        case "largest":
            return left.groupby("name", dropna=False, as_index=False)["size"].max()
        case "known":
            known = {n for n in other["name"] if n is not None}
            return left[masked(left, lambda n: n in known)]
        case "both":
            return pd.concat([left, other], ignore_index=True)
        case _:
            named = left[masked(left, lambda n: n is not None and not pd.isna(n))]
            pairs = named.merge(named, on="name")
            total = pairs["size_x"].fillna(0) + pairs["size_y"].fillna(0)
            return pd.DataFrame({"name": pairs["name"], "size": total})


def passing(check: str | None, rows: pd.DataFrame) -> pd.DataFrame:
    if check is None:
        return rows
    positive = (rows["size"] > 0).fillna(False)
    named = masked(rows, lambda n: n is not None and not pd.isna(n))
    is_a = masked(rows, lambda n: n == "a")
    masks = {
        "name IS NOT NULL": named,
        "size > 0": positive,
        "size > 0 OR name = 'a'": positive | is_a,
    }
    return rows[masks[check].astype(bool)]


def random_pipeline_case(
    folder: Path, spark: Any, rows: Any, others: Any, steps: Any, check: Any
) -> None:
    case = Case(folder, schema=SCHEMA.replace("version: String?  ", ""))
    for name, data in (("raw", rows), ("other", others)):
        lines = [json.dumps({"name": n, "size": s}) for n, s in data]
        (folder / f"in/{name}.ndjson").write_text("".join(f"{line}\n" for line in lines))
    declared, expected, last = {}, frame(rows), "raw"
    for number, step in enumerate([*steps, "largest"]):
        declared[f"s{number}"] = {"sql": SQL[step].format(last)}
        expected, last = evaluated(step, expected, frame(others)), f"s{number}"
    before = len(expected)
    if check is not None:
        declared[last]["expect"] = [{"check": check, "on_fail": "quarantine"}]
        expected = passing(check, expected)
    declared["named"] = {"sql": f"SELECT * FROM {last} WHERE name IS NOT NULL"}
    wanted = {
        n: None if pd.isna(s) else int(s)
        for n, s in zip(expected["name"], expected["size"], strict=True)
        if n is not None and not pd.isna(n)
    }
    body = {
        "version": 1,
        "name": "packages",
        "graph": "packages.omni",
        "schema": "packages.pg",
        "sources": {
            name: {
                "files": f"in/{name}.ndjson",
                "format": "json",
                "schema": "name STRING, size BIGINT",
            }
            for name in ("raw", "other")
        },
        "steps": declared,
        "targets": [{"type": "Package", "from": "named", "mode": "mirror"}],
    }
    case.file.write_text(json.dumps(body))
    run = case.run(spark).raise_if_failed()
    with case.graph() as graph:
        stored = {row["id"]: row["size"] for row in graph.read("Package").to_pylist()}
    assert stored == wanted
    if check is not None:
        assert run.expectations[0].failed == before - len(expected)
        assert len(case.loaded().quarantine()) == before - len(expected)
    assert case.run(spark).status is RunStatus.EMPTY


@settings(
    max_examples=4,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rows=ROWS, others=ROWS, steps=STEPS, check=CHECKS)
def test_random_pipelines_equal_pandas(
    tmp_path_factory: pytest.TempPathFactory,
    spark: Any,
    rows: Any,
    others: Any,
    steps: Any,
    check: Any,
) -> None:
    random_pipeline_case(tmp_path_factory.mktemp("random"), spark, rows, others, steps, check)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, others=ROWS, steps=STEPS, check=CHECKS)
def test_more_random_pipelines_equal_pandas(
    tmp_path_factory: pytest.TempPathFactory,
    spark: Any,
    rows: Any,
    others: Any,
    steps: Any,
    check: Any,
) -> None:
    random_pipeline_case(tmp_path_factory.mktemp("random"), spark, rows, others, steps, check)


def test_python_objects_are_the_same(tmp_path: Path, spark: Any) -> None:
    omnigraph.init(tmp_path / "g.omni", SCHEMA)
    (tmp_path / "a.csv").write_text("name\na\n")
    made = pipelines.Pipeline(
        name="objects",
        graph=str(tmp_path / "g.omni"),
        sources={
            "raw": pipelines.PipelineSource(
                name="raw",
                files=(str(tmp_path / "a.csv"),),
                format="csv",
                options={"header": "true"},
            )
        },
        targets=(pipelines.PipelineTarget(type="Package", origin="raw"),),
        folder=str(tmp_path),
    )
    run = pipelines.LoadedPipeline(made).run(spark).raise_if_failed()
    assert run.targets[0].inserted == 1
