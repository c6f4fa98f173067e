"""Random pipelines over random dirty rows equal a plain pandas evaluation of the same steps."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.spark import pipelines
from omnigraph.spark.pipelines import RunStatus

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(1800)]

SCHEMA = "node Item { name: String @key  n: I32?  g: String? }"
NAMES = [None, "", " a ", "A", "b", "B ", "cc", "ä"]
NUMBERS = [None, "1", "2", "-3", "x", "77", ""]
GROUPS = [None, "p", "q", "r"]
LABELS = {"p": "first", "q": "second"}
ROWS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NUMBERS), st.sampled_from(GROUPS)),
    max_size=12,
)
Frame = pd.DataFrame


@dataclass(frozen=True)
class Step:
    """A step in Spark SQL over `{0}`, and the same in pandas."""

    sql: str
    evaluate: Callable[[Frame], Frame]


@dataclass(frozen=True)
class Check:
    """A condition in SQL, and the rows of a frame for which it is true."""

    sql: str
    holds: Callable[[Frame], Any]


def rows_where(frame: Frame, holds: Any) -> Frame:
    return frame.loc[np.array(list(holds), bool)]


def labelled(how: str) -> Callable[[Frame], Frame]:
    def evaluate(frame: Frame) -> Frame:
        found = frame.assign(g=frame["g"].map(lambda group: LABELS.get(group)))
        return found if how == "left" else rows_where(found, found["g"].notna())

    return evaluate


def per_name(frame: Frame) -> Frame:
    """As GROUP BY: NULL is a group, and an aggregate leaves NULL out."""
    rows = []
    for name in dict.fromkeys(frame["name"].tolist()):
        same = rows_where(frame, [each == name for each in frame["name"]])
        numbers = [n for n in same["n"] if n is not None]
        groups = [g for g in same["g"] if g is not None]
        rows.append((name, max(numbers, default=None), min(groups, default=None)))
    return objects(rows)


def objects(rows: list[Any]) -> Frame:
    return pd.DataFrame(rows, columns=["name", "n", "g"], dtype=object)


def number_of(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]+", text) else None


def cleaned(frame: Frame) -> Frame:
    return objects(
        [
            (None if name is None else name.strip(" ").lower(), number_of(n), g)
            for name, n, g in frame.itertuples(index=False)
        ]
    )


CLEAN = Step(
    "SELECT lower(trim(name)) AS name, try_cast(n AS INT) AS n, g FROM raw",
    cleaned,
)
STEPS = [
    Step(
        "SELECT * FROM {0} WHERE n > 1",
        lambda f: rows_where(f, [n is not None and n > 1 for n in f["n"]]),
    ),
    Step("SELECT * FROM {0} WHERE g IS NULL OR g <> 'q'", lambda f: rows_where(f, f["g"] != "q")),
    Step(
        "SELECT name, n * 10 AS n, g FROM {0}",
        lambda f: objects(
            [(k, None if n is None else n * 10, g) for k, n, g in f.itertuples(index=False)]
        ),
    ),
    Step(
        "SELECT p.name, p.n, l.label AS g FROM {0} p LEFT JOIN labels l ON p.g = l.code",
        labelled("left"),
    ),
    Step(
        "SELECT p.name, p.n, l.label AS g FROM {0} p JOIN labels l ON p.g = l.code",
        labelled("inner"),
    ),
    Step("SELECT * FROM {0} UNION ALL SELECT * FROM {0}", lambda f: pd.concat([f, f])),
]
CHECKS = [
    Check("n IS NOT NULL", lambda f: f["n"].notna()),
    Check("n >= 0", lambda f: [n is not None and n >= 0 for n in f["n"]]),
    Check("g = 'p'", lambda f: f["g"] == "p"),
    Check("length(name) < 2", lambda f: [k is not None and len(k) < 2 for k in f["name"]]),
]
HAS_NAME = Check("name IS NOT NULL AND name <> ''", lambda f: f["name"].notna() & (f["name"] != ""))
EXPECT = st.tuples(
    st.sampled_from(CHECKS),
    st.sampled_from(["warn", "quarantine", "fail"]),
    st.sampled_from([0.0, 0.5]),
)
CHAINS = st.lists(
    st.tuples(st.sampled_from(STEPS), st.lists(EXPECT, max_size=2)), min_size=0, max_size=3
)
INCREMENTS = st.lists(ROWS, min_size=1, max_size=2)


def wanted_steps(chain: Any) -> list[tuple[str, Step, list[Any]]]:
    """The chain between cleaning and one row for each name."""
    named = (HAS_NAME, "quarantine", 0.0)
    middle = [(f"s{i}", step, expect) for i, (step, expect) in enumerate(chain)]
    return [("clean", CLEAN, []), *middle, ("items", Step(PER_NAME, per_name), [named])]


PER_NAME = "SELECT name, max(n) AS n, min(g) AS g FROM {0} GROUP BY name"


def pipeline_text(steps: list[Any], mode: str) -> str:
    told: dict[str, Any] = {}
    before = "raw"
    for name, step, expect in steps:
        told[name] = {"sql": step.sql.format(before)}
        rules = [
            {"check": check.sql, "on_fail": action}
            | ({"tolerate": share} if action == "fail" else {})
            for check, action, share in expect
        ]
        told[name]["expect"] = rules
        before = name
    columns = "name STRING, n STRING, g STRING"
    source = {"files": "in/*.ndjson", "format": "json", "schema": columns}
    labels = {"files": "labels.ndjson", "format": "json", "schema": "code STRING, label STRING"}
    return json.dumps(
        {
            "version": 1,
            "name": "items",
            "graph": "items.omni",
            "schema": "items.pg",
            "sources": {
                "raw": source if mode == "mirror" else {**source, "incremental": "files"},
                "labels": labels,
            },
            "steps": told,
            "targets": [{"type": "Item", "from": before, "mode": mode}],
        }
    )


@dataclass
class Evaluated:
    """What pandas says: the rows, or that a check fails the run."""

    rows: Frame
    failed: bool
    rows_out: dict[str, int]
    failures: list[tuple[str, str, int]]
    quarantined: int


def evaluated(steps: list[Any], rows: list[Any]) -> Evaluated:
    frame = objects(rows)
    found = Evaluated(frame, failed=False, rows_out={}, failures=[], quarantined=0)
    for name, step, expect in steps:
        frame = step.evaluate(frame)
        good = pd.Series(True, index=range(len(frame)))
        for check, action, share in expect:
            holds = pd.Series(list(check.holds(frame)), index=range(len(frame)), dtype=bool)
            failing = int((~holds).sum())
            found.failures.append((name, check.sql, failing))
            found.failed |= action == "fail" and failing > share * len(frame)
            if action == "quarantine":
                good &= holds
        found.quarantined += int((~good).sum())
        frame = rows_where(frame, good)
        found.rows_out[name] = len(frame)
    found.rows = frame
    return found


def check(spark: Any, chain: Any, increments: list[Any], mode: str) -> None:
    steps = wanted_steps(chain)
    with tempfile.TemporaryDirectory(prefix="omnigraph-random-") as folder:
        root = Path(folder)
        (root / "in").mkdir()
        (root / "items.pg").write_text(SCHEMA)
        labels = [{"code": code, "label": label} for code, label in LABELS.items()]
        (root / "labels.ndjson").write_text("".join(json.dumps(row) + "\n" for row in labels))
        (root / "items.json").write_text(pipeline_text(steps, mode))
        loaded = pipelines.load(root / "items.json")
        model: dict[str, tuple[Any, Any]] = {}
        unread: list[Any] = []  # a run without a commit advances no position
        for number, rows in enumerate(increments):
            lines = [dict(zip(("name", "n", "g"), row, strict=True)) for row in rows]
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (root / f"in/{number}.ndjson").write_text(text)
            expected = evaluated(steps, [*unread, *rows])
            run = loaded.run(spark)
            compare(run, expected)
            if expected.failed:
                (root / f"in/{number}.ndjson").unlink()
                continue
            if mode == "mirror" or run.commit is None:
                unread += rows
            else:
                unread = []
            kept = {k: (n, g) for k, n, g in expected.rows.itertuples(index=False)}
            model = {**model, **kept} if mode == "merge" else kept
            with omnigraph.open(root / "items.omni") as graph:
                stored = {r["name"]: (r["n"], r["g"]) for r in graph.read("Item").to_pylist()}
                commits = graph.commits.list(pipeline="items")
            assert stored == model
            assert len({c.details["pipeline"]["number"] for c in commits}) == len(commits)
        if mode != "mirror" and not unread:
            assert loaded.run(spark).commit is None, "a finished run that is repeated does nothing"


def compare(run: pipelines.PipelineRun, expected: Evaluated) -> None:
    if expected.failed:
        assert run.status is RunStatus.FAILED
        assert run.error is not None
        assert run.error["code"] == "expectation_failed"
        return
    assert run.status is not RunStatus.FAILED, run.error
    assert {step.name: step.rows_out for step in run.steps} == expected.rows_out
    assert [(e.step, e.check, e.failed) for e in run.expectations] == expected.failures
    assert (run.quarantine is not None) == (expected.quarantined > 0)


MODES = st.sampled_from(["merge", "mirror"])
QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@settings(max_examples=4, suppress_health_check=QUIET)
@given(CHAINS, INCREMENTS, MODES)
def test_a_few_random_pipelines(spark: Any, chain: Any, increments: Any, mode: str) -> None:
    check(spark, chain, increments, mode)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=QUIET)
@given(CHAINS, INCREMENTS, MODES)
def test_random_pipelines(spark: Any, chain: Any, increments: Any, mode: str) -> None:
    check(spark, chain, increments, mode)
