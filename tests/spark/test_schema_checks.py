"""One table of checks: Spark finds the same violations of a schema change as this process."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from omnigraph.errors import ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.progress import ProgressStep, heard_by
from omnigraph.spark.schema_checks import SparkChecks
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.workloads import settings

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark"),
    pytest.mark.timeout(900),
]

P = (
    "node P { name: String @key  x: I64?  u: U64?  f: F64?  kind: String?  tags: [String]? "
    "  at: DateTime?  day: Date?  yes: Bool? }\n"
)
Q = "node Q { name: String @key }\n"
LIKES = "edge Likes: P -> P { n: I64? }\n"
OLD = P + Q + LIKES
HUGE = 2**63 + 5


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Five fragments of each type, with deleted rows; `x` repeats over fragments."""
    graph = init(tmp_path_factory.mktemp("checks") / "g", OLD, settings=settings())
    for part in range(5):
        rows: list[dict[str, Any]] = [
            {
                "name": f"p{part}{n}",
                "x": None if n == 3 else n + 7 * (part % 2),
                "u": HUGE + part * 10 + (n if n else 1),
                "f": [0.0, -0.0, 1.5, 1.5, 4.5 + part, 2.5, 3.5][n],
                "kind": ["a", "b", "c", "A-B"][n % 4],
                "tags": [["a"], ["a", "b"], [], None][n % 4],
                "at": f"2026-01-0{n + 1}T00:00:00Z" if n else None,
                "day": f"2026-01-0{n + 1}",
                "yes": n % 2 == 0,
            }
            for n in range(7)
        ]
        graph.apply({"P": {"insert": rows}})
        graph.apply({"Q": {"insert": [{"name": f"p{part}0"}]}})
        edges = [{"src": f"p{part}{n}", "dst": f"p0{n % 5}", "n": n} for n in range(1, part + 2)]
        graph.apply({"Likes": {"insert": edges}})
    graph.apply({"P": {"delete": ["p46"]}})
    return graph


@dataclass(frozen=True)
class Case:
    """A new schema, and its violations: constraint, count, first sample."""

    schema: str
    found: tuple[tuple[str, int, str | None], ...]
    options: dict[str, Any] = field(default_factory=dict)


def changed(**columns: str) -> str:
    """`P` with other declarations of some properties, and new ones."""
    text = P
    for name, declared in columns.items():
        old = re.search(rf"\b{name}: \S+", text)
        text = text.replace(old[0] if old else "yes:", declared if old else f"{declared}  yes:", 1)
    return text


CASES = {
    "rules of single rows": Case(
        changed(x="x: I64?  @range(x, 0..5)", kind="kind: enum(a, b, c)?", at="at: DateTime")
        + Q
        + LIKES,
        (("P.kind", 5, "p03"), ("P.at", 5, "p00"), ("@range(x, 0..5)", 14, "p06")),
    ),
    "values that do not convert": Case(
        changed(x="x: I64", kind="kind: I64?") + Q + LIKES,
        (("P.x", 5, "p03"), ("P.kind", 34, "p00")),
        {"backfill": {"P.x": "x + 1"}},
    ),
    "unique values of every kind": Case(
        changed(
            x="x: I64? @unique",
            u="u: U64? @unique",
            f="f: F64? @unique",
            at="at: DateTime? @unique  @unique(kind, tags)",
            y='y: I64? @unique  @check(kind, "^[a-z]+$")',
        )
        + Q
        + LIKES,
        (
            ("@unique(y)", 34, "p00"),
            ("@unique(x)", 29, "p00"),
            ("@unique(u)", 10, "p00"),
            ("@unique(f)", 29, "p00"),
            ("@unique(at)", 29, "p01"),
            ("@unique(kind, tags)", 29, "p00"),
            ("@check(kind, '^[a-z]+$')", 5, "p03"),
        ),
        {"backfill": {"P.y": "1"}},
    ),
    "edges": Case(
        P + Q + LIKES.replace("P -> P", "P -> Q @card(1..2)"),
        (("P -> Q", 14, None), ("@card(1..2)", 19, "p00")),
    ),
    "nothing is wrong": Case(changed(day="day: Date") + Q + LIKES, ()),
}


def violations(graph: Graph, case: Case, engine: str) -> list[dict[str, Any]]:
    plan = graph.schema.plan(case.schema, engine=engine, **case.options)
    assert not plan.refusals, plan
    return [violation.to_dict() for violation in plan.violations]


@pytest.mark.parametrize("name", CASES)
def test_spark_finds_what_this_process_finds(
    checked: Graph, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    case = CASES[name]
    in_small_tasks = SparkChecks(checked.engine.settings.pipeline, rows_per_task=10)
    monkeypatch.setitem(checked.engine.__dict__, "spark_checks", in_small_tasks)
    here = violations(checked, case, "local")
    # The ids of edges are generated.
    firsts = [
        v["sample_ids"][0] if v["property"] or "->" not in v["constraint"] else None for v in here
    ]
    counts = [(v["constraint"], v["count"]) for v in here]
    assert [(*c, first) for c, first in zip(counts, firsts, strict=True)] == list(case.found)
    assert violations(checked, case, "spark") == here


def test_a_refused_change_tells_its_progress_and_changes_nothing(checked: Graph) -> None:
    steps: list[ProgressStep] = []
    before = checked.schema.show().source
    with heard_by(steps.append), pytest.raises(ValidationFailed) as caught:
        checked.schema.apply(
            changed(x="x: I64", u="u: U64? @unique") + Q + LIKES, engine="spark", message="no"
        )
    assert [(v["constraint"], v["count"]) for v in caught.value.violations] == [
        ("P.x", 5),
        ("@unique(u)", 10),
    ]
    assert {(step.stage, step.unit) for step in steps} == {("check", "rows"), ("check", "tasks")}
    assert [step.what for step in steps if step.unit == "rows"] == [
        "checking P: P.x",
        "checking P: @unique(u)",
    ]
    assert checked.schema.show().source == before
    assert_at_rest(checked)
