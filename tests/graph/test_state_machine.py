"""Random histories with crashes against the model graph."""

from __future__ import annotations

import copy
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from omnigraph import failpoints
from omnigraph.errors import AlreadyExists, NotFound
from omnigraph.failpoints import FailpointRaised
from omnigraph.graph.open import init, open_graph
from omnigraph.settings.models import HistorySettings, Settings, WriteSettings
from omnigraph_testing.invariants import assert_at_rest, content
from omnigraph_testing.model_graph import Content, ModelGraph
from omnigraph_testing.workloads import small_catalog

# A tiny window: a dozen commits already exercise segments and index segments.
SETTINGS = Settings(
    write=WriteSettings(lease_seconds=1.0),
    history=HistorySettings(window_low=2, window_high=4, fan_out=2, inline_ids=3),
)
NAMES = st.sampled_from(["a", "b", "review/x", "review"])
PEOPLE = st.dictionaries(
    st.sampled_from(["ada", "bob", "cy", 'it\'s "odd" \\ née']),
    st.one_of(st.none(), st.integers(-5, 5)),
    max_size=3,
)
BRANCH_CRASHES = st.sampled_from(failpoints.BRANCH_POINTS)
CRASHES = st.sampled_from(failpoints.COMMIT_POINTS + failpoints.PUBLISH_POINTS)


class GraphMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="omnigraph-machine-"))
        self.model = ModelGraph()

    @initialize()
    def create(self) -> None:
        self.uri = str(self.folder / "graph")
        self.graph = init(self.uri, small_catalog(), settings=SETTINGS)
        first = self.graph.commits.list()[0].graph_commit_id
        self.model.committed("main", first, {})

    def some_branch(self, draw: int) -> str:
        names = sorted(self.model.branches)
        return names[draw % len(names)]

    def unprotected(self, draw: int) -> str:
        names = sorted(set(self.model.branches) - {"main"})
        return names[draw % len(names)]

    def wanted(self, branch: str, people: dict[str, Any], deleted: set[str]) -> Content:
        rows = {n: {"id": n, "name": n, "age": age} for n, age in people.items()}
        return self.model.after(branch, "Person", rows, frozenset(deleted - set(people)))

    def edit(self, people: dict[str, Any], deleted: set[str]) -> dict[str, Any]:
        rows = [{"name": n, "age": age} for n, age in people.items()]
        return {"Person": {"upsert": rows, "delete": sorted(deleted - set(people))}}

    @rule(pick=st.integers(0, 9), people=PEOPLE, deleted=st.sets(st.sampled_from(["ada", "bob"])))
    def write(self, pick: int, people: dict[str, Any], deleted: set[str]) -> None:
        branch = self.some_branch(pick)
        wanted = self.wanted(branch, people, deleted)
        receipt = self.graph.apply(self.edit(people, deleted), branch)
        changed = wanted.get("Person", {}) != self.model.branches[branch].get("Person", {})
        assert (receipt.commit is not None) == changed
        if receipt.commit is not None:
            self.model.committed(branch, receipt.commit.graph_commit_id, wanted)

    @rule(
        pick=st.integers(0, 9),
        people=PEOPLE,
        deleted=st.sets(st.sampled_from(["ada"])),
        point=CRASHES,
    )
    def crash_and_reopen(
        self, pick: int, people: dict[str, Any], deleted: set[str], point: str
    ) -> None:
        branch = self.some_branch(pick)
        wanted = self.wanted(branch, people, deleted)
        failpoints.arm(point, "raise")
        try:
            self.graph.apply(self.edit(people, deleted), branch)
        except FailpointRaised:
            pass
        finally:
            failpoints.disarm_all()
        self.reopen()
        found = content(self.graph, branch)
        before = {k: v for k, v in self.model.branches[branch].items() if v}
        assert found in (before, {k: v for k, v in wanted.items() if v}), "a torn commit"
        head = self.graph.commits.list(branch, limit=1)[0].graph_commit_id
        if head != self.model.heads[branch]:
            self.model.committed(
                branch, head, wanted if found != before else self.model.branches[branch]
            )

    @rule(name=NAMES, pick=st.integers(0, 9))
    def branch(self, name: str, pick: int) -> None:
        if name not in self.model.branches:
            source = self.some_branch(pick)
            self.graph.branches.create(name, source)
            self.model.create_branch(name, source)

    @precondition(lambda self: len(self.model.branches) > 1)
    @rule(pick=st.integers(0, 9))
    def delete_branch(self, pick: int) -> None:
        name = self.unprotected(pick)
        self.graph.branches.delete(name)
        self.model.delete_branch(name)
        with pytest.raises(NotFound):
            self.graph.read("Person", name)

    @rule(name=NAMES, pick=st.integers(0, 9), by_other=st.booleans())
    def recreate_branch(self, name: str, pick: int, by_other: bool) -> None:
        """One process deletes, another makes it again; both have seen the one before."""
        if name not in self.model.branches:
            return
        other = open_graph(self.uri, settings=SETTINGS)
        assert content(other, name) == content(self.graph, name)
        source = self.some_branch(pick)
        first, second = (other, self.graph) if by_other else (self.graph, other)
        first.branches.delete(name)
        self.model.delete_branch(name)
        if source == name:
            source = "main"
        second.branches.create(name, source)
        self.model.create_branch(name, source)

    @precondition(lambda self: len(self.model.branches) > 1)
    @rule(pick=st.integers(0, 9), name=NAMES)
    def rename_branch(self, pick: int, name: str) -> None:
        old = self.unprotected(pick)
        if name == old or name not in self.model.branches:
            assert self.graph.branches.rename(old, name).name == name
            self.model.rename_branch(old, name)
        else:
            with pytest.raises(AlreadyExists):
                self.graph.branches.rename(old, name)

    @precondition(lambda self: len(self.model.branches) > 1)
    @rule(
        pick=st.integers(0, 9),
        name=NAMES,
        kind=st.sampled_from(["create", "delete", "rename"]),
        point=BRANCH_CRASHES,
    )
    def crash_in_a_branch_operation(self, pick: int, name: str, kind: str, point: str) -> None:
        """Whatever it left, the branches are those before it or those after it."""
        old = self.unprotected(pick)
        if kind != "delete" and name in self.model.branches:
            return
        wanted = copy.deepcopy(self.model)
        call = {
            "create": lambda graph: graph.branches.create(name, old),
            "delete": lambda graph: graph.branches.delete(old),
            "rename": lambda graph: graph.branches.rename(old, name),
        }[kind]
        {
            "create": lambda: wanted.create_branch(name, old),
            "delete": lambda: wanted.delete_branch(old),
            "rename": lambda: wanted.rename_branch(old, name),
        }[kind]()
        failpoints.arm(point, "raise")
        try:
            call(self.graph)
        except FailpointRaised:
            pass
        finally:
            failpoints.disarm_all()
        found = {b.name: b.head_commit_id for b in self.graph.branches.list()}
        assert found in (self.model.heads, wanted.heads)
        if found == wanted.heads:
            self.model = wanted

    @rule(name=st.sampled_from(["v1", "v2"]), pick=st.integers(0, 9))
    def tag(self, name: str, pick: int) -> None:
        if name not in self.model.tags:
            branch = self.some_branch(pick)
            tag = self.graph.tags.create(name, branch)
            assert tag.graph_commit_id == self.model.heads[branch]
            self.model.tags[name] = tag.graph_commit_id

    @rule(pick=st.integers(0, 9))
    def optimize(self, pick: int) -> None:
        branch = self.some_branch(pick)
        assert self.graph.optimize(branch) == []

    @rule()
    def reopen(self) -> None:
        self.graph = open_graph(self.uri, settings=SETTINGS)

    @rule(pick=st.integers(0, 99))
    def travel(self, pick: int) -> None:
        for branch, history in self.model.histories.items():
            commit_id = history[pick % len(history)]
            wanted = {k: v for k, v in self.model.commits[commit_id].items() if v}
            assert content(self.graph, branch, at=commit_id) == wanted

    @invariant()
    def heads_agree(self) -> None:
        if not hasattr(self, "graph"):
            return
        assert {b.name: b.head_commit_id for b in self.graph.branches.list()} == self.model.heads
        for branch, rows in self.model.branches.items():
            assert content(self.graph, branch) == {k: v for k, v in rows.items() if v}
        for name, commit_id in self.model.tags.items():
            wanted = {k: v for k, v in self.model.commits[commit_id].items() if v}
            assert content(self.graph, at=name) == wanted

    def teardown(self) -> None:
        failpoints.disarm_all()
        if hasattr(self, "graph"):
            assert_at_rest(self.graph)
            for branch, history in self.model.histories.items():
                listed = [c.graph_commit_id for c in self.graph.commits.list(branch, limit=None)]
                assert listed == history[::-1]
        shutil.rmtree(self.folder)


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        GraphMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_histories_match_the_model() -> None:
    run(examples=60, steps=30)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_long_histories_match_the_model() -> None:
    run(examples=150, steps=60)
