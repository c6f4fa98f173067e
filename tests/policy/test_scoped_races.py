"""Scopes of writes that wait for each other, lose a race, or come from an earlier state."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Edit
from omnigraph.errors import OmnigraphError, PolicyDenied, PolicyInvalid
from omnigraph.graph.handle import Graph
from omnigraph.policy.policy import Policy
from omnigraph_testing.scoped_gate import ScopedGate

SCHEMA = "node Person { name: String @key  dept: String  memo: String? }\n"
MINE = ScopedGate({"Person": ([], 'dept = "a"')})


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraph.init(tmp_path / "g", schema=SCHEMA, actor="root") as made:
        made.apply({"Person": Edit(insert=[{"name": "ada", "dept": "a"}])})
        yield made


def test_a_refused_write_does_not_harm_those_that_wait_with_it(graph: Graph) -> None:
    part = graph.as_actor("reader", gate=MINE)
    together = threading.Barrier(12)

    def write(number: int) -> bool:
        dept = "a" if number % 2 else "b"
        together.wait()
        try:
            part.mutate(f'insert Person {{ name: "p{number}", dept: "{dept}" }}')
        except PolicyDenied:
            return False
        return True

    with ThreadPoolExecutor(12) as pool:
        made = list(pool.map(write, range(12)))
    assert made == [bool(n % 2) for n in range(12)]
    names = set(graph.read("Person").column("name").to_pylist())
    assert names == {"ada", *(f"p{n}" for n in range(1, 12, 2))}


def test_a_write_is_judged_again_on_the_state_that_it_is_made_on(graph: Graph) -> None:
    """Another writer takes the row out of scope after the load was planned."""
    part = graph.as_actor("reader", gate=MINE)

    def meanwhile(_: object) -> None:
        graph.mutate('update Person set { dept: "b" } where name = "ada"')

    row = {"type": "Person", "data": {"name": "ada", "dept": "a", "memo": "mine"}}
    with pytest.raises(PolicyDenied):
        part.load([row], mode="merge", before_commit=meanwhile)
    assert graph.read("Person", ids=["ada"]).to_pylist()[0]["dept"] == "b"


def test_a_state_from_before_the_property_of_a_rule_shows_nothing(
    graph: Graph, tmp_path: Path
) -> None:
    before = graph.snapshot().graph_commit_id
    graph.schema.apply(SCHEMA.replace("dept: String", "dept: String  secrecy: String?"))
    file = tmp_path / "policy.yaml"
    file.write_text(
        """
version: 1
groups: {readers: [reader]}
rules:
  - id: part
    allow:
      actors: {group: readers}
      actions: [read, export]
      where: {Person: 'secrecy = "low"'}
"""
    )
    part = graph.as_actor("reader", gate=Policy.load(file))
    assert part.read("Person").num_rows == 0
    for call in (
        lambda: part.read("Person", at=before),
        lambda: part.diff(before, "main"),
        lambda: part.query("match { $p: Person } return { $p.name }", at=before),
        lambda: part.export(tmp_path / "out", at=before),
        lambda: part.changes(start="beginning"),
        lambda: part.schema.show(at=before),
    ):
        with pytest.raises(PolicyInvalid) as refused:
            call()
        assert "secrecy" not in str(refused.value)
        assert "ada" not in str(refused.value)
    assert part.commits.show(before).changes == ()


def answer(call: Callable[[], object]) -> str:
    try:
        return str(call())
    except OmnigraphError as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", [" secret", "secret ", "SECRET", "ſecret", "./secret", "secret~0"])
def test_other_spellings_of_a_branch_do_not_pass(graph: Graph, tmp_path: Path, name: str) -> None:
    graph.branches.create("secret")
    file = tmp_path / "policy.yaml"
    file.write_text(
        """
version: 1
groups: {readers: [reader]}
protected_branches: [secret]
rules:
  - id: open
    allow: {actors: {group: readers}, actions: [read, export, change], branch_scope: unprotected}
"""
    )
    part = graph.as_actor("reader", gate=Policy.load(file))
    graph.mutate('insert Person { name: "zed", dept: "a" }', branch="secret")
    for call in (
        lambda: part.read("Person", name).to_pylist(),
        lambda: part.snapshot(at=name).graph_branch,
        lambda: part.diff("main", name),
        lambda: part.baseline(name),
        lambda: part.mutate('insert Person { name: "x", dept: "a" }', branch=name),
    ):
        found = answer(call)
        assert "zed" not in found
        assert found != "secret"
