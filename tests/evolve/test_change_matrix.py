"""Every row of the change matrix: on an empty type, on rows that keep it, on rows that do not.

Each is planned, applied on a branch, merged into a branch that wrote rows in the old schema, and
applied on main.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matrix_rows import LOSE, MATRIX, Case, Change, Rows

from omnigraph.catalog.identity import shape_hash
from omnigraph.errors import MergeConflicts, OmnigraphError, SchemaRefused, ValidationFailed
from omnigraph.evolve.plan import SchemaPlan
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.schema.build import catalog_from_text
from omnigraph_testing.invariants import assert_at_rest, content
from omnigraph_testing.workloads import settings

CASES = [
    pytest.param(change, case, state, id=f"{change.name} [{state}]".replace(" ", "_"))
    for change in MATRIX
    for state, case in (
        ("empty", change.empty),
        ("valid", change.valid),
        ("violating", change.violating),
    )
    if case is not None
]


def files_of(uri: str) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(Path(uri).rglob("*")) if p.is_file()}


def head(graph: Graph, branch: str = "main") -> str:
    return graph.commits.list(branch)[0].graph_commit_id


def insert(graph: Graph, rows: Rows, branch: str = "main") -> None:
    if rows:
        graph.apply(
            {name: {"insert": [dict(r) for r in some]} for name, some in rows.items()}, branch
        )


def read(graph: Graph, type_name: str, branch: str = "main") -> list[dict[str, Any]]:
    table = graph.read(type_name, branch)
    return [
        {k: _plain(v) for k, v in row.items()}
        for row in sorted(table.to_pylist(), key=lambda row: row["id"])
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return pytest.approx(value)
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


def steps_of(plan: SchemaPlan) -> list[str]:
    return [
        " ".join([step.kind, step.step_class.value, *step.codes])
        for step in plan.steps
        if step.is_supported
    ]


def expect_plan(plan: SchemaPlan, change: Change, case: Case) -> None:
    assert steps_of(plan) == list(change.steps if case.steps is None else case.steps)
    found = [(r.entity, r.code) for r in plan.refusals]
    assert found == [(r.entity, r.code) for r in case.refused]
    for refusal, wanted in zip(plan.refusals, case.refused, strict=True):
        assert wanted.reason in refusal.reason
    assert list(plan.requires) == [r.requires for r in case.refused if r.requires]
    assert [(v.type_name, v.property, v.code, v.count, v.sample_ids) for v in plan.violations] == [
        (b.type_name, b.property, b.code, len(b.ids) if b.count is None else b.count, b.ids)
        for b in case.broken
    ]
    assert plan.supported is not bool(case.refused or case.broken)
    assert plan.to_dict()["supported"] is plan.supported


def expect_refusal(graph: Graph, change: Change, case: Case, plan: SchemaPlan, branch: str) -> None:
    before, at = content(graph, branch), head(graph, branch)
    error: type[OmnigraphError] = SchemaRefused if case.refused else ValidationFailed
    with pytest.raises(error) as caught:
        graph.schema.apply(change.new, branch=branch, **change.grants)
    if isinstance(caught.value, ValidationFailed):
        assert caught.value.violations == plan.to_dict()["violations"]
        assert caught.value.total == sum(v.count for v in plan.violations)
    else:
        assert [r["entity"] for r in caught.value.refusals] == [r.entity for r in plan.refusals]
        assert caught.value.requires == list(plan.requires)
    assert head(graph, branch) == at
    assert content(graph, branch) == before
    assert catalog_from_text(graph.schema.show(branch).source) == catalog_from_text(change.old)


def expect_rows(graph: Graph, change: Change, case: Case, branch: str) -> None:
    wanted = case.rows if case.after is None else case.after
    catalog = graph.schema.show(branch).catalog
    for entity in catalog.entity_types():
        rows = read(graph, entity.name, branch)
        expected = list(wanted.get(entity.name, ()))
        names = {p.name for p in entity.properties}
        for row, given in zip(rows, expected, strict=True):
            assert row.keys() - {"id", "src", "dst"} == names
            same = {{"from": "src", "to": "dst"}.get(k, k): v for k, v in given.items()}
            assert {k: row[k] for k in same} == same
        if entity in catalog.nodes and names:
            listed = sorted(names)
            shown = ", ".join(f"$p.{name} as {name}" for name in listed)
            query = (
                f"query q() {{ match {{ $p: {entity.name} }} return {{ $p.id as i, {shown} }} }}"
            )
            found = sorted(graph.query(query, branch=branch).to_pylist(), key=lambda r: r["i"])
            assert [{k: _plain(v) for k, v in r.items() if k != "i"} for r in found] == [
                {k: r[k] for k in listed} for r in rows
            ]


def expect_applied(graph: Graph, change: Change, case: Case, branch: str) -> None:
    at = head(graph, branch)
    plan = graph.schema.plan(change.new, branch=branch, **change.grants)
    result = graph.schema.apply(change.new, branch=branch, **change.grants)
    assert result.applied is bool(plan.steps)
    assert steps_of(result.plan) == steps_of(plan)
    assert (head(graph, branch) != at) is result.applied
    if result.commit is not None:
        assert result.commit.operation == "schema_apply"
        assert result.commit.graph_commit_id == head(graph, branch)
        assert [s["kind"] for s in graph.schema.history(branch)[0].steps] == [
            s.kind for s in plan.steps
        ]
    assert graph.schema.show(branch).source == change.new
    assert shape_hash(graph.schema.show(branch).catalog) == plan.target_schema_hash
    expect_rows(graph, change, case, branch)
    again = graph.schema.apply(change.new, branch=branch, **_without_backfill(change.grants))
    assert not again.applied
    assert again.plan.steps == ()


def _without_backfill(grants: Any) -> dict[str, Any]:
    return {name: value for name, value in grants.items() if name != "backfill"}


@pytest.fixture(scope="module")
def new_graph(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Graph]:
    """Makes a graph with a schema; the second one is a copy of the first."""
    templates: dict[str, Path] = {}

    def make(uri: str, schema: str) -> Graph:
        if schema not in templates:
            templates[schema] = tmp_path_factory.mktemp("template") / "graph.omni"
            init(templates[schema], schema, settings=settings(), actor="tester")
        shutil.copytree(templates[schema], uri)
        return open_graph(uri, settings=settings(), actor="tester")

    return make


def merge_outcome(graph: Graph, target: str) -> str:
    """What a merge of `review` does; a target that is not merged does not change."""
    before, at = content(graph, target), head(graph, target)
    decided: list[dict[str, str]] = []
    for outcome in ("merged", "decided"):
        try:
            graph.merge("review", target, resolutions=decided)
        except (MergeConflicts, SchemaRefused) as error:
            assert (head(graph, target), content(graph, target)) == (at, before)
            if isinstance(error, SchemaRefused):
                return "refused"
            if any(c.kind != "SchemaDivergence" for c in error.conflicts):
                return "conflict" if all(c.entity_id for c in error.conflicts) else "mixed"
            decided = [
                {"type_name": c.type_name, "take": "theirs"}
                | ({"property": c.property} if c.property else {})
                for c in error.conflicts
            ]
        else:
            return outcome
    raise AssertionError("decided, and in conflict again")


def expect_merge(graph: Graph, change: Change, late: Rows, label: str) -> None:
    """Write `late` in the old schema, and merge `review`, which has the new one.

    The result is what applying the change after the write gives.
    """
    graph.branches.create(label)
    insert(graph, late, label)
    merged = f"{label}-merged"
    graph.branches.create(merged, label)
    outcome = merge_outcome(graph, merged)
    if outcome in ("merged", "decided"):
        assert outcome == change.merges.get(label, "merged")
        grants = change.grants if outcome == "merged" else change.grants | LOSE
        done = graph.schema.apply(change.new, branch=label, **grants)
        assert content(graph, merged) == content(graph, label)
        accepted = graph.schema.show(merged)
        assert accepted.source == graph.schema.show("review").source
        assert shape_hash(accepted.catalog) == done.plan.target_schema_hash
        graph.branches.delete(label)
        return
    plan = graph.schema.plan(change.new, branch=label, **change.grants)
    if label in change.merges:
        assert outcome == change.merges[label]
    else:
        assert not plan.supported, outcome


def late_copy(rows: Rows) -> Rows:
    """One more row like the first one."""
    name = next(name for name, some in rows.items() if some)
    row = {"name": "late", "id": "late"}
    return {name: [{k: row.get(k, v) for k, v in rows[name][0].items()}]}


@pytest.mark.parametrize(("change", "case", "state"), CASES)
def test_plan_apply_and_merge(
    new_graph: Callable[[str, str], Graph], uri: str, change: Change, case: Case, state: str
) -> None:
    graph = new_graph(uri, change.old)
    insert(graph, case.rows)
    graph.tags.create("before")
    graph.branches.create("review")
    before, stored = content(graph), files_of(uri)

    plan = graph.schema.plan(change.new, **change.grants)

    assert files_of(uri) == stored, "a plan wrote something"
    expect_plan(plan, change, case)
    if not plan.supported:
        expect_refusal(graph, change, case, plan, "main")
        expect_refusal(graph, change, case, plan, "review")
    else:
        at = head(graph)
        expect_applied(graph, change, case, "review")
        assert (head(graph), content(graph)) == (at, before), "main changed with the branch"
        if state == "empty":
            expect_merge(graph, change, change.valid.rows, "new")
            if change.violating is not None:
                expect_merge(graph, change, change.violating.rows, "violating")
        elif case.rows:
            label = "late" if state == "valid" else "more"
            expect_merge(graph, change, change.late or late_copy(case.rows), label)
        applied = ["review"]
        if state != "empty":
            expect_applied(graph, change, case, "main")
            applied.append("main")
        for branch in applied:
            insert(graph, change.insert, branch)
            if change.rejects:
                with pytest.raises(OmnigraphError):
                    insert(graph, change.rejects, branch)
    reopened = open_graph(uri, settings=settings())
    assert content(reopened, at="before") == before, "the tag reads other rows"
    assert catalog_from_text(reopened.schema.show(at="before").source) == catalog_from_text(
        change.old
    )
    if plan.supported:
        report = reopened.verify()
        assert report.ok, report
    assert_at_rest(reopened)
