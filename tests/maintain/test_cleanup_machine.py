"""Random histories with cleanup, crashes and rivals: what is needed stays, orphans go."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from omnigraph import failpoints
from omnigraph.errors import SnapshotReclaimed
from omnigraph.failpoints import FailpointRaised
from omnigraph.graph.open import init, open_graph
from omnigraph.lance_store.dataset_files import lineages, needed_content
from omnigraph.lance_store.store import DatasetVersion
from omnigraph.settings.models import HistorySettings, MaintenanceSettings, Settings, WriteSettings
from omnigraph_testing.invariants import assert_at_rest, content
from omnigraph_testing.model_graph import Content, ModelGraph
from omnigraph_testing.workloads import small_catalog

SETTINGS = Settings(
    write=WriteSettings(lease_seconds=1.0),
    history=HistorySettings(window_low=2, window_high=4, fan_out=2, inline_ids=1),
    maintenance=MaintenanceSettings(minimum_age_seconds=0),
)
# What others stage while cleanup looks is younger than this.
CAREFUL = replace(SETTINGS, maintenance=MaintenanceSettings(minimum_age_seconds=60))
PICK = st.integers(0, 9)
PEOPLE = st.dictionaries(st.sampled_from(["ada", "bob", "cy"]), st.integers(0, 5), max_size=2)
CRASHES = st.sampled_from(
    (*failpoints.COMMIT_POINTS, *failpoints.PUBLISH_POINTS, *failpoints.BRANCH_POINTS)
)


class CleanupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="omnigraph-cleanup-"))
        self.model = ModelGraph()
        self.reclaimable: set[str] = set()

    @initialize()
    def create(self) -> None:
        self.uri = str(self.folder / "graph")
        self.graph = init(self.uri, small_catalog(), settings=SETTINGS)
        self.model.committed("main", self.graph.commits.list()[0].graph_commit_id, {})

    def some_branch(self, pick: int) -> str:
        names = sorted(self.model.branches)
        return names[pick % len(names)]

    def wanted(self, branch: str, people: dict[str, int], deleted: bool) -> Content:
        rows = {n: {"id": n, "name": n, "age": age} for n, age in people.items()}
        gone = frozenset({"ada"} - set(people)) if deleted else frozenset()
        return self.model.after(branch, "Person", rows, gone)

    def apply(self, branch: str, people: dict[str, int], deleted: bool) -> None:
        rows = [{"name": n, "age": age} for n, age in people.items()]
        gone = sorted({"ada"} - set(people)) if deleted else []
        wanted = self.wanted(branch, people, deleted)
        receipt = self.graph.apply({"Person": {"upsert": rows, "delete": gone}}, branch)
        if receipt.commit is not None:
            self.model.committed(branch, receipt.commit.graph_commit_id, wanted)

    @rule(pick=PICK, people=PEOPLE, deleted=st.booleans())
    def write(self, pick: int, people: dict[str, int], deleted: bool) -> None:
        self.apply(self.some_branch(pick), people, deleted)

    @rule(pick=PICK, age=st.integers(6, 99), point=CRASHES)
    def crash(self, pick: int, age: int, point: str) -> None:
        """A writer, a branch creation or a branch deletion dies; the next opener tidies up."""
        branch = self.some_branch(pick)
        failpoints.arm(point, "raise")
        try:
            if point.startswith("branch.create"):
                self.graph.branches.create("dying", branch)
            elif point.startswith("branch.delete"):
                self.graph.branches.create("dying", branch)
                self.graph.branches.delete("dying")
            else:
                self.graph.apply({"Person": {"upsert": [{"name": "cy", "age": age}]}}, branch)
        except FailpointRaised:
            pass
        finally:
            failpoints.disarm_all()
        self.graph = open_graph(self.uri, settings=SETTINGS)
        if "dying" in [b.name for b in self.graph.branches.list()]:
            self.graph.branches.delete("dying")
        head = self.graph.commits.list(branch, limit=1)[0].graph_commit_id
        if head != self.model.heads[branch]:
            self.model.committed(branch, head, content(self.graph, branch))

    @rule(name=st.sampled_from(["a", "b", "c"]), pick=PICK)
    def branch(self, name: str, pick: int) -> None:
        if name not in self.model.branches:
            source = self.some_branch(pick)
            self.graph.branches.create(name, source)
            self.model.create_branch(name, source)
        elif pick % 3 == 0:
            self.graph.branches.delete(name)
            self.model.delete_branch(name)

    @rule(name=st.sampled_from(["v1", "v2"]), pick=PICK)
    def tag(self, name: str, pick: int) -> None:
        if name in self.model.tags:
            self.graph.tags.delete(name)
            del self.model.tags[name]
        else:
            branch = self.some_branch(pick)
            self.model.tags[name] = self.graph.tags.create(name, branch).graph_commit_id

    @rule(pick=PICK)
    def optimize(self, pick: int) -> None:
        assert self.graph.optimize(self.some_branch(pick)) == []

    @rule(keep=st.sampled_from([1, 2, 4, None]), crash=st.sampled_from([None, 1, 2, 3]))
    def cleanup(self, keep: int | None, crash: int | None) -> None:
        if crash is not None:
            failpoints.arm("cleanup.after_removal", "raise", crash)
        try:
            self.graph.cleanup(keep, confirm=True)
        except FailpointRaised:
            pass
        finally:
            failpoints.disarm_all()
        if keep is not None:
            kept = {c for history in self.model.histories.values() for c in history[-keep:]}
            self.reclaimable |= set(self.model.commits) - kept

    def time_passes(self) -> None:
        for path in self.folder.rglob("*"):
            changed = path.stat().st_mtime
            os.utime(path, (changed - 3600, changed - 3600))

    @rule(pick=PICK, people=PEOPLE)
    def cleanup_beside_others(self, pick: int, people: dict[str, int]) -> None:
        """While cleanup is about to delete, others write, branch and tag."""
        branch = self.some_branch(pick)
        failpoints.arm("cleanup.after_find", "sleep:0.05")
        self.time_passes()
        rival = open_graph(self.uri, settings=CAREFUL)
        cleaner = threading.Thread(target=lambda: rival.cleanup(1, confirm=True))
        cleaner.start()
        self.apply(branch, people, False)
        if "c" not in self.model.branches:
            self.graph.branches.create("c", branch)
            self.model.create_branch("c", branch)
        if "v3" not in self.model.tags:
            self.model.tags["v3"] = self.graph.tags.create("v3", branch).graph_commit_id
        cleaner.join()
        failpoints.disarm_all()
        # Whether it looked before or after our commit is not ours to know.
        kept = {history[-1] for history in self.model.histories.values()}
        self.reclaimable |= set(self.model.commits) - kept

    @invariant()
    def everything_needed_is_there(self) -> None:
        if not hasattr(self, "graph"):
            return
        reader = open_graph(self.uri, read_only=True, settings=SETTINGS)
        for branch, rows in self.model.branches.items():
            assert content(reader, branch) == {k: v for k, v in rows.items() if v}
        for name, commit_id in self.model.tags.items():
            wanted = {k: v for k, v in self.model.commits[commit_id].items() if v}
            assert content(reader, at=name) == wanted
        for branch, history in self.model.histories.items():
            for commit_id in history[-5:]:
                wanted = {k: v for k, v in self.model.commits[commit_id].items() if v}
                try:
                    assert content(reader, branch, at=commit_id) == wanted
                except SnapshotReclaimed:
                    assert commit_id in self.reclaimable

    def teardown(self) -> None:
        failpoints.disarm_all()
        if hasattr(self, "graph"):
            self.graph.cleanup(1, confirm=True)
            self.no_orphans_are_left()
            assert_at_rest(self.graph)
        shutil.rmtree(self.folder)

    def no_orphans_are_left(self) -> None:
        store, reader = self.graph.engine.store, self.graph.engine.reader
        states = [reader.branch(name)[1] for name in self.model.branches]
        pins = {pin.at for state in states for pin in state.tables.values()}
        for name in self.model.tags:
            tag = reader.tag_refs.find(name)
            assert tag is not None
            pins |= {pin.at for pin in tag.tables}
        for commit_id in self.forks():
            pins |= {pin.at for pin in self.graph.snapshot(at=commit_id).tables.values()}
        for location in {pin.location for pin in pins}:
            lines = lineages(location, store.files.walk(location))
            heads = {DatasetVersion(location, None, lines[None].head or 0)}
            heads |= {
                DatasetVersion(location, branch, line.head or 0)
                for branch, line in lines.items()
                if branch in {pin.branch for pin in pins if pin.location == location}
            }
            here = {pin for pin in pins if pin.location == location} | heads
            needed = frozenset().union(*(needed_content(store, at) for at in here))
            stored = {name for line in lines.values() for name in line.content}
            assert stored == needed

    def forks(self) -> set[str]:
        """Where each two branches parted: they may be merged."""
        found = set()
        for one, other in combinations(self.model.histories.values(), 2):
            shared = [a for a, b in zip(one, other, strict=False) if a == b]
            found.add(shared[-1])
        return found


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        CleanupMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_cleanup_keeps_what_is_needed_and_nothing_else() -> None:
    run(examples=12, steps=20)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_cleanup_over_long_histories() -> None:
    run(examples=150, steps=50)
