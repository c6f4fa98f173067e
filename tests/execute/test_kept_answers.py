"""Answers that are kept until the next commit: found again, never old, never of other rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph.handle import Graph
from omnigraph.ir.data_scope import DataScope, TypeScope
from omnigraph.settings.models import ReadSettings, Settings

BYTES = 64 * 1024
SCHEMA = "node Person { name: String @key  age: I64? }"
OLDER = (
    "query older($age: I64) { match { $p: Person  $p.age > $age } "
    "return { $p.name as name } order { $p.name } }"
)


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    settings = Settings(read=ReadSettings(answer_bytes=BYTES))
    with omnigraph.init(str(tmp_path / "graph.omni"), SCHEMA, settings=settings) as opened:
        insert(opened, "ada", 36)
        yield opened


def insert(graph: Graph, name: str, age: int, branch: str = "main") -> None:
    graph.apply({"Person": {"insert": [{"name": name, "age": age}]}}, branch)


def names(graph: Graph, age: object = 30, branch: str = "main") -> list[str]:
    return [row["name"] for row in graph.query(OLDER, params={"age": age}, branch=branch)]


def test_a_query_that_comes_again_gets_the_same_answer_until_the_next_commit(
    graph: Graph,
) -> None:
    assert graph.kept_answer(OLDER, params={"age": 30}) is None
    assert names(graph) == ["ada"]
    assert graph.kept_answer(OLDER, params={"age": 30}) is None
    second = graph.query(OLDER, params={"age": 30})
    assert graph.query(OLDER, params={"age": 30}) is second
    assert graph.kept_answer(OLDER, params={"age": 30}) is second
    assert graph.kept_answer(OLDER, params={"age": 31}) is None
    insert(graph, "bea", 40)
    assert graph.kept_answer(OLDER, params={"age": 30}) is None
    assert names(graph) == ["ada", "bea"]
    assert graph.kept_answer(OLDER, params={"age": 30}) is not None  # known to come again


def test_queries_that_come_once_push_nothing_out(graph: Graph) -> None:
    for _ in range(2):
        kept = graph.query(OLDER, params={"age": 30})
    for age in range(1000, 1300):
        names(graph, age)
    assert graph.kept_answer(OLDER, params={"age": 30}) is kept
    assert graph.kept_answer(OLDER, params={"age": 1299}) is None


def test_a_commit_of_another_process_ends_it(graph: Graph) -> None:
    for _ in range(2):
        assert names(graph) == ["ada"]
    with omnigraph.open(graph.uri) as other:
        insert(other, "bea", 40)
    assert names(graph) == ["ada", "bea"]


def test_branches_and_older_states_do_not_mix(graph: Graph) -> None:
    for _ in range(2):
        assert names(graph) == ["ada"]
    before = graph.snapshot().graph_commit_id
    graph.branches.create("work")
    insert(graph, "bea", 40, "work")
    for _ in range(2):
        assert names(graph, branch="work") == ["ada", "bea"]
        assert names(graph) == ["ada"]
    insert(graph, "cy", 50)
    old = graph.query(OLDER, params={"age": 30}, at=before)
    assert [row["name"] for row in old] == ["ada"]
    assert old.target == {"snapshot": before}
    assert names(graph) == ["ada", "cy"]


def test_parameters_of_other_types_are_other_parameters(graph: Graph) -> None:
    for _ in range(2):
        assert names(graph, 1) == ["ada"]
    with pytest.raises(omnigraph.OmnigraphError):
        names(graph, True)  # equal to 1 in Python


def test_a_query_of_the_time_is_computed_each_time(graph: Graph) -> None:
    text = "match { $p: Person } return { now() as moment }"
    first, second = graph.query(text), graph.query(text)
    assert second is not first
    assert graph.query(text) is not second
    assert graph.kept_answer(text) is None


def test_actors_with_other_rules_get_their_own_answers(graph: Graph) -> None:
    text = "match { $p: Person } return { $p.name as name  $p.age as age }"
    for _ in range(2):
        plain = graph.query("match { $p: Person } return { $p.name as name }")
        assert graph.query(text).to_pylist() == [{"name": "ada", "age": 36}]
    hidden = graph.as_actor("guest", gate=HidesAge())
    with pytest.raises(omnigraph.OmnigraphError):
        hidden.query(text)
    with pytest.raises(omnigraph.OmnigraphError):
        hidden.kept_answer(text)
    seen = hidden.query("match { $p: Person } return { $p.name as name }")
    assert seen is not plain
    assert seen.to_pylist() == plain.to_pylist()
    denied = graph.as_actor("none", gate=DeniesReads())
    with pytest.raises(omnigraph.PolicyDenied):
        denied.kept_answer("match { $p: Person } return { $p.name as name }")


class HidesAge:
    """A gate whose rules hide one property."""

    def require(
        self,
        actor: str | None,
        action: str,
        branch: str | None,
        target: str | None,
        query: str | None = None,
    ) -> None:
        return

    def allows(self, *_: object) -> bool:
        return True

    def scope(
        self, actor: str | None, action: str, branch: str | None, catalog: object
    ) -> DataScope | None:
        return DataScope("no age", {"Person": TypeScope(hidden=frozenset({"age"}))})


class DeniesReads(HidesAge):
    """A gate that allows nothing."""

    def require(
        self,
        actor: str | None,
        action: str,
        branch: str | None,
        target: str | None,
        query: str | None = None,
    ) -> None:
        raise omnigraph.PolicyDenied(f"{actor} may not {action}", action=action, actor_id=actor)


def test_the_memory_is_bounded(graph: Graph) -> None:
    runner = graph.engine.queries
    for age in [age for age in range(300) for _ in range(2)]:
        graph.query(OLDER, params={"age": age})
    found = [(age, graph.kept_answer(OLDER, params={"age": age})) for age in range(300)]
    kept = [age for age, answer in found if answer is not None]
    assert 0 < len(kept) <= BYTES // 1024
    assert kept[-1] == 299
    assert runner.kept_bytes <= BYTES


def test_encoded_forms_count(graph: Graph) -> None:
    runner = graph.engine.queries
    for _ in range(2):
        result = graph.query(OLDER, params={"age": 30})
    before = runner.kept_bytes
    assert result.forms is not None
    result.forms.put("text/csv", b"x" * 100)  # small ones are in the weight of every answer
    assert runner.kept_bytes == before
    result.forms.put("application/json", b"x" * 1000)
    assert before < runner.kept_bytes <= before + 1000
    weighed = runner.kept_bytes
    result.forms.put("application/x-ndjson", b"x" * 1000)
    assert runner.kept_bytes == weighed + 1000
    assert result.forms.get("application/json") == b"x" * 1000


def test_nothing_is_kept_without_the_setting(tmp_path: Path) -> None:
    with omnigraph.init(str(tmp_path / "graph.omni"), SCHEMA) as opened:
        insert(opened, "ada", 36)
        for _ in range(2):
            assert opened.query(OLDER, params={"age": 1}).forms is None
        assert opened.kept_answer(OLDER, params={"age": 1}) is None


def test_long_texts_and_parameters_leave_nothing_behind(graph: Graph) -> None:
    """What is kept is bounded in bytes, and each of these could be asked for with small changes."""
    runner = graph.engine.queries
    named = "query one($name: String) { match { $p: Person { name: $name } } return { $p.age } }"
    for number in range(5):
        padded = f"{OLDER} // {number} {'x' * 1_000_000}"
        for _ in range(2):
            assert len(graph.query(padded, params={"age": 30})) == 1
            assert len(graph.query(named, params={"name": f"{number}" * 10_000})) == 0
    assert runner.kept_bytes == 0
    head = runner._at(graph.snapshot())
    assert max(runner._plans.weight, head.bound.weight) <= 4_000_000
