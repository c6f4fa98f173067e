"""Wrong texts, plans and backfills: a typed error that says where and why, and nothing changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from omnigraph.errors import (
    InvalidArgument,
    LanguageError,
    NotFound,
    OmnigraphError,
    PreconditionFailed,
    SchemaRefused,
    ValidationFailed,
)
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph_testing.graph_helpers import meanwhile, rival_of
from omnigraph_testing.invariants import assert_at_rest, content
from omnigraph_testing.workloads import settings

OLD = "node P { name: String @key  x: I64? }"
NEW = "node P { name: String @key  x: I64?  y: String? }"


@pytest.fixture
def people(uri: str) -> Graph:
    graph = init(uri, OLD, settings=settings())
    graph.apply({"P": {"insert": [{"name": "a", "x": 1}, {"name": "b"}]}})
    return graph


@pytest.fixture(autouse=True)
def _nothing_changes(request: pytest.FixtureRequest) -> Iterator[None]:
    if "people" not in request.fixturenames:
        yield
        return
    graph: Graph = request.getfixturevalue("people")
    before, head = content(graph), graph.commits.list()[0].graph_commit_id
    text = graph.schema.show().source
    yield
    graph.refresh()
    assert (content(graph), graph.schema.show().source) == (before, text)
    assert graph.commits.list()[0].graph_commit_id == head
    assert_at_rest(graph)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("node P {\n  name String\n}", 2, 3),
        ("node P {\n  name: Strong @key\n}", 2, 9),
        ("node P { name: String @key }\nedge E: P -> Nobody", 2, 14),
        ("node P { name: String @key\n  name: I64 }", 2, 3),
        ("node P { name: String @key }\nnode P { name: String }", 2, 6),
        ('node P { name: String @key }\nnode Q { e: enum(a) @rename_value("a") }', 2, 21),
        ("node P { name: String @key\n @range(nothing, 0..1) }", 2, 9),
    ],
)
@pytest.mark.parametrize("verb", ["plan", "apply"])
def test_a_wrong_text_has_a_position(
    people: Graph, verb: str, text: str, line: int, column: int
) -> None:
    with pytest.raises(LanguageError) as caught:
        getattr(people.schema, verb)(text)
    first = caught.value.diagnostics[0]
    assert (first["line"], first["column"]) == (line, column)
    assert f"{line}:{column}" in str(caught.value)


def test_a_file_that_is_not_there(people: Graph) -> None:
    with pytest.raises(InvalidArgument, match=r"no-such\.pg"):
        people.schema.plan("no-such.pg")


def test_a_branch_that_is_not_there(people: Graph) -> None:
    for verb in (people.schema.plan, people.schema.apply):
        with pytest.raises(NotFound, match="nowhere"):
            verb(NEW, branch="nowhere")


@pytest.mark.parametrize(
    ("backfill", "says"),
    [
        ({"P.z": 1}, "no property P.z"),
        ({"Q.x": 1}, "no property Q.x"),
        ({"P": 1}, "no property P"),
        ({"P.name": "x"}, "P.name needs no backfill"),
        ({"P.y": "1 +"}, "P.y"),
        ({"P.y": "nothing + name"}, "nothing"),
        ({"P.y": "x"}, "P.y"),
        ({"P.y": "name }} delete P {{"}, "P.y"),
        ({"P.y": '"a", x: 3'}, "P.y"),
        ({"P.y": 3}, "P.y"),
        ({"P.y": [1]}, "P.y"),
    ],
    ids=str,
)
def test_a_wrong_backfill(people: Graph, backfill: dict[str, Any], says: str) -> None:
    new = NEW.replace("y: String?", "y: String")
    plan = people.schema.plan(new, backfill={"P.y": "name"} | backfill)
    assert not plan.supported
    assert any(says in f"{r.entity} {r.reason}" for r in plan.refusals), plan
    with pytest.raises(SchemaRefused):
        people.schema.apply(new, backfill={"P.y": "name"} | backfill)


@pytest.mark.parametrize(
    ("declared", "value"),
    [("y: I32", 2**40), ("y: I64", 1.5), ("y: enum(p, q)", '"r"'), ("y: Date", '"soon"')],
)
def test_a_backfill_that_does_not_fit_the_type(people: Graph, declared: str, value: Any) -> None:
    new = OLD.replace("}", f"{declared} }}")
    plan = people.schema.plan(new, backfill={"P.y": value})
    assert not plan.supported
    with pytest.raises((SchemaRefused, ValidationFailed)) as caught:
        people.schema.apply(new, backfill={"P.y": value})
    assert "y" in str(caught.value)


@pytest.mark.parametrize("mark", ["", "?"])
@pytest.mark.parametrize(
    ("declared", "expression"),
    [("y: I32", "x * 4294967296"), ("y: U32", "x - 5"), ("y: I64", "1 / (x - 1)")],
)
def test_a_backfill_whose_values_do_not_fit(
    people: Graph, declared: str, expression: str, mark: str
) -> None:
    """The type checker accepts it; the rows tell."""
    new, backfill = OLD.replace("}", f"{declared}{mark} }}"), {"P.y": expression}
    assert not people.schema.plan(new, backfill=backfill).supported
    with pytest.raises((SchemaRefused, ValidationFailed), match="y"):
        people.schema.apply(new, backfill=backfill)


def test_a_backfill_out_of_range_names_the_entities(people: Graph) -> None:
    new = OLD.replace("}", "y: I64  @range(y, 0..9) }")
    plan = people.schema.plan(new, backfill={"P.y": 10})
    assert [(v.code, v.count, v.sample_ids) for v in plan.violations] == [
        ("OG-MF-102", 2, ("a", "b"))
    ]


def test_a_plan_of_another_graph(people: Graph, tmp_path: Any) -> None:
    other = init(tmp_path / "other", OLD, settings=settings())
    with pytest.raises(PreconditionFailed, match="another graph") as caught:
        people.schema.apply(plan=other.schema.plan(NEW))
    assert caught.value.expected != caught.value.actual


def test_a_plan_of_another_branch(people: Graph) -> None:
    people.branches.create("review")
    with pytest.raises(PreconditionFailed, match="'review', not 'main'"):
        people.schema.apply(plan=people.schema.plan(NEW, branch="review"))


@pytest.mark.parametrize(
    "garbage",
    [
        {},
        {"format": 1},
        {"format": 99},
        {"format": "x", "steps": []},
        {"format": 1, "graph_id": None},
        {"schema_source": NEW},
    ],
    ids=str,
)
def test_a_plan_that_is_no_plan(people: Graph, garbage: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="plan"):
        people.schema.apply(plan=garbage)


@pytest.mark.parametrize("field", ["schema_source", "backfill", "allow_data_loss", "reembed"])
@pytest.mark.parametrize("value", [None, 3, "x", []])
def test_a_plan_with_a_wrong_field(people: Graph, field: str, value: Any) -> None:
    plan = json.loads(json.dumps(people.schema.plan(NEW).to_dict())) | {field: value}
    if field in ("allow_data_loss", "reembed") and value is None:
        plan[field] = "no"
    with pytest.raises((InvalidArgument, LanguageError)):
        people.schema.apply(plan=plan)


def test_neither_or_both(people: Graph) -> None:
    with pytest.raises(InvalidArgument, match="either"):
        people.schema.apply()
    with pytest.raises(InvalidArgument, match="either"):
        people.schema.apply(NEW, plan=people.schema.plan(NEW))


class TestPlansThatAreApplied:
    """With their own graph, because it changes."""

    @pytest.fixture
    def graph(self, uri: str) -> Graph:
        graph = init(uri, OLD, settings=settings())
        graph.apply({"P": {"insert": [{"name": "a", "x": 1}]}})
        return graph

    def test_a_saved_plan_is_applied_with_its_grants(self, graph: Graph) -> None:
        new = "node P { name: String @key  y: String }"
        plan = graph.schema.plan(new, allow_data_loss=True, backfill={"P.y": "name"})
        saved = json.loads(json.dumps(plan.to_dict()))
        graph.apply({"P": {"insert": [{"name": "later"}]}})  # rows may change, the schema may not
        result = graph.schema.apply(plan=saved)
        assert result.applied
        assert graph.schema.show().source == new
        assert sorted(graph.read("P").column("y").to_pylist()) == ["a", "later"]
        assert not graph.schema.apply(new).applied
        with pytest.raises(PreconditionFailed, match="plan again"):
            graph.schema.apply(plan=saved)

    def test_a_plan_after_the_schema_moved(self, graph: Graph) -> None:
        plan = graph.schema.plan(NEW)
        graph.schema.apply(OLD.replace("}", "z: I64? }"))
        with pytest.raises(PreconditionFailed, match="plan again"):
            graph.schema.apply(plan=plan)
        assert "z: I64?" in graph.schema.show().source

    def test_the_schema_moves_while_a_plan_is_applied(
        self, graph: Graph, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A merge moves it, because a second `apply` is refused meanwhile."""
        rival, plan = rival_of(graph), graph.schema.plan(NEW)
        other = OLD.replace("}", "z: I64? }")
        graph.branches.create("review")
        graph.schema.apply(other, branch="review")
        meanwhile(monkeypatch, "commit.after_stage", lambda: rival.merge("review"))
        with pytest.raises(PreconditionFailed, match="plan again"):
            graph.schema.apply(plan=plan)
        assert graph.schema.show().source == other
        assert_at_rest(graph)

    def test_a_backfill_of_a_nullable_property(self, graph: Graph) -> None:
        graph.schema.apply(NEW, backfill={"P.y": 'name + "!"'})
        assert graph.read("P").column("y").to_pylist() == ["a!"]

    def test_a_read_only_graph_plans_and_does_not_apply(self, graph: Graph, uri: str) -> None:
        reader = open_graph(uri, read_only=True)
        assert reader.schema.plan(NEW).supported
        with pytest.raises(OmnigraphError, match="read"):
            reader.schema.apply(NEW)
