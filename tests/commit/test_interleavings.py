"""Two writers in one process, stopped exactly where the protocol could break."""

from __future__ import annotations

import threading
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph import failpoints
from omnigraph.commit import transaction
from omnigraph.commit.request import CommitTerms
from omnigraph.commit.transaction import outstayed
from omnigraph.errors import (
    ExpectedVersionMismatch,
    KeyConflict,
    NotFound,
    OmnigraphError,
    PreconditionFailed,
)
from omnigraph.graph.edits import apply_edits
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.manifest.branch_state import BranchState
from omnigraph.settings.models import MaintenanceSettings, Settings, WriteSettings
from omnigraph.values.identifiers import node_table
from omnigraph_testing import workloads
from omnigraph_testing.fakes import FakeClock
from omnigraph_testing.graph_helpers import meanwhile, rival_of
from omnigraph_testing.invariants import assert_at_rest, content

NOTE = node_table("Note")
NEW_NOTE = {"Note": {"insert": [{"id": "new", "text": "new"}]}}


def other_handle(graph: Graph) -> Graph:
    """Another process' view: nothing is shared but the storage."""
    return open_graph(graph.uri, actor="other", settings=workloads.settings())


def state(graph: Graph, branch: str = "main") -> BranchState:
    return graph.engine.reader.branch(branch)[1]


def append_behind_the_back(graph: Graph, entity_id: str) -> None:
    """A foreign writer moves HEAD without publishing: what a lost publish leaves behind."""
    pin = graph.snapshot().tables[NOTE]
    rows = pa.table({"id": [entity_id], "text": ["x"]}, schema=graph.read("Note").schema)
    lance.write_dataset(rows, f"{graph.uri}/{pin.location}", mode="append")


@pytest.mark.parametrize("point", ["commit.after_stage", "commit.before_arm"])
def test_a_commit_between_stage_and_arm_is_seen(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The other process does not hold our queue: it wins, and an upsert is prepared again."""
    rival = rival_of(graph)
    meanwhile(
        monkeypatch, point, lambda: rival.apply({"Person": {"upsert": [{"name": "ada", "age": 7}]}})
    )
    graph.apply({"Person": {"upsert": [{"name": "ada", "age": 8}, {"name": "eve"}]}})
    assert content(graph)["Person"]["ada"]["age"] == 8
    assert "eve" in content(graph)["Person"]
    assert_at_rest(graph)


def test_a_stale_delete_is_rejected(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    rival = rival_of(graph)
    before = state(graph).tables[NOTE].version
    meanwhile(monkeypatch, "commit.after_stage", lambda: rival.apply(NEW_NOTE))
    with pytest.raises(ExpectedVersionMismatch) as caught:
        graph.apply({"Note": {"delete": ["n0"]}})
    assert (caught.value.table, caught.value.expected, caught.value.actual) == (
        "node:Note",
        before,
        before + 1,
    )
    assert caught.value.retryable
    assert set(content(graph)["Note"]) == {"n0", "new"}
    assert_at_rest(graph)


def test_a_strict_insert_that_lost_the_race_is_a_key_conflict(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = rival_of(graph)
    meanwhile(monkeypatch, "commit.after_stage", lambda: rival.apply(NEW_NOTE))
    with pytest.raises(KeyConflict) as caught:
        graph.apply({"Note": {"insert": [{"id": "new", "text": "mine"}]}})
    assert caught.value.ids == ["new"]
    assert content(graph)["Note"]["new"]["text"] == "new"
    assert_at_rest(graph)


def test_disjoint_writers_on_one_branch_both_succeed(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loser of the manifest swap finds its expectations intact and swaps again."""
    rival = rival_of(graph)
    meanwhile(
        monkeypatch, "commit.before_publish", lambda: rival.apply({"Knows": {"delete": ["k0"]}})
    )
    graph.apply(NEW_NOTE)
    found = content(graph)
    assert "new" in found["Note"]
    assert "Knows" not in found
    assert_at_rest(graph)


def test_if_commit_is_judged_after_arming(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    rival = rival_of(graph)
    head = graph.commits.list()[0].graph_commit_id
    meanwhile(monkeypatch, "commit.after_stage", lambda: rival.apply(NEW_NOTE))
    with pytest.raises(PreconditionFailed) as caught:
        graph.apply({"Person": {"upsert": [{"name": "eve"}]}}, if_commit=head)
    assert caught.value.expected == head
    assert "eve" not in content(graph)["Person"]
    assert_at_rest(graph)


def test_same_idempotency_key_in_a_race_commits_once(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two hosts, which do not see the running requests of each other."""
    rival = rival_of(graph)
    receipts: list[Any] = []
    edit = {"Note": {"insert": [{"text": "once"}]}}
    terms = CommitTerms(actor=graph.actor, idempotency_key="k")  # a key belongs to an actor
    meanwhile(
        monkeypatch,
        "commit.after_stage",
        lambda: receipts.append(apply_edits(rival.engine, edit, terms)),
    )
    mine = apply_edits(graph.engine, edit, terms)
    assert mine.repeated
    assert mine.commit == receipts[0].commit
    assert [r["text"] for r in graph.read("Note").to_pylist()].count("once") == 1
    assert_at_rest(graph)


def test_two_first_writers_on_a_new_branch(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.branches.create("review")
    rival = rival_of(graph)
    meanwhile(monkeypatch, "commit.after_fork_branch", lambda: rival.apply(NEW_NOTE, "review"))
    graph.apply({"Note": {"insert": [{"id": "mine", "text": "x"}]}}, "review")
    assert set(content(graph, "review")["Note"]) == {"n0", "new", "mine"}
    assert set(content(graph)["Note"]) == {"n0"}
    assert_at_rest(graph)


def test_a_rival_fork_does_not_fail_a_delete(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forking moves no row: a delete, which is never prepared again, must not notice."""
    graph.branches.create("review")
    rival = rival_of(graph)
    meanwhile(monkeypatch, "commit.after_fork_branch", lambda: rival.apply(NEW_NOTE, "review"))
    graph.apply({"Note": {"delete": ["n0"]}}, "review")
    assert set(content(graph, "review")["Note"]) == {"new"}
    assert_at_rest(graph)


@pytest.mark.parametrize("point", ["commit.after_stage", "commit.after_fork_branch"])
def test_a_branch_deleted_while_it_is_written(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    graph.branches.create("review")
    rival = other_handle(graph)
    meanwhile(monkeypatch, point, lambda: rival.branches.delete("review"))
    with pytest.raises(NotFound):
        graph.apply(NEW_NOTE, "review")
    assert [b.name for b in graph.branches.list()] == ["main"]
    assert set(content(graph)["Note"]) == {"n0"}
    assert_at_rest(graph)


def test_a_branch_delete_waits_for_a_write_in_flight(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Armed writes hold the branch: the delete comes after them, and both are whole."""
    graph.branches.create("review")
    rival = other_handle(graph)
    deleted = threading.Thread(target=lambda: rival.branches.delete("review"))
    original = failpoints.hit

    def hit(name: str) -> None:
        original(name)
        if name == "commit.after_advance" and not deleted.ident:
            deleted.start()
            deleted.join(0.3)
            assert deleted.is_alive(), "the delete went ahead of a write that was in flight"

    monkeypatch.setattr(failpoints, "hit", hit)
    assert graph.apply(NEW_NOTE, "review").commit is not None
    deleted.join(30)
    with pytest.raises(NotFound):
        graph.read("Note", "review")
    assert_at_rest(graph)


def test_a_branch_deleted_and_recreated_between_stage_and_arm(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.branches.create("review")
    rival = other_handle(graph)

    def recreate() -> None:
        rival.branches.delete("review")
        rival.branches.create("review")

    meanwhile(monkeypatch, "commit.after_stage", recreate)
    with pytest.raises(NotFound):
        graph.apply(NEW_NOTE, "review")
    assert set(content(graph, "review")["Note"]) == {"n0"}
    graph.apply(NEW_NOTE, "review")
    assert set(content(graph, "review")["Note"]) == {"n0", "new"}
    assert_at_rest(graph)


def test_compaction_never_fails_a_write(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Physical movement under a staged delete: it is staged again and nobody notices."""
    for number in range(4):
        graph.apply({"Note": {"insert": [{"id": f"m{number}", "text": "x"}]}})
    rival = rival_of(graph)
    meanwhile(monkeypatch, "commit.after_stage", lambda: rival.optimize(types=["Note"]))
    graph.apply({"Note": {"delete": ["n0"]}})
    assert set(content(graph)["Note"]) == {f"m{n}" for n in range(4)}
    assert_at_rest(graph)


def test_a_table_that_moves_under_every_attempt_is_a_conflict_in_the_end(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []

    def hit(name: str) -> None:
        if name == "commit.after_stage":
            attempts.append(name)
            raise transaction._MovedPhysically

    monkeypatch.setattr(transaction, "_RESTAGE_LIMIT", 3)
    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "hit", hit)
        with pytest.raises(ExpectedVersionMismatch, match="maintenance kept moving"):
            graph.mutate('query q() { delete Person where name = "ada" }')
    assert len(attempts) == 4
    assert "ada" in content(graph)["Person"]
    assert_at_rest(graph)


def test_a_write_that_slept_while_cleanup_could_run_stages_again(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged, ages = [], iter([True, False])
    original = failpoints.hit

    def hit(name: str) -> None:
        original(name)
        staged.extend([name] if name == "commit.after_stage" else [])

    monkeypatch.setattr(failpoints, "hit", hit)
    monkeypatch.setattr(transaction, "outstayed", lambda *_: next(ages))
    assert graph.apply(NEW_NOTE).commit is not None
    assert len(staged) == 2
    assert_at_rest(graph)


@pytest.mark.parametrize(("slept", "too_long"), [(29, False), (31, True)])
def test_how_long_staged_files_may_wait(slept: int, too_long: bool) -> None:
    """Half the age from which cleanup takes files for nobody's, and a lease at least."""
    clock = FakeClock()
    began_at = clock.now_micros()
    clock.now += slept * 1_000_000
    by_age = Settings(WriteSettings(10.0), maintenance=MaintenanceSettings(60.0))
    by_lease = Settings(WriteSettings(30.0), maintenance=MaintenanceSettings(0.0))
    for settings in (by_age, by_lease):
        assert outstayed(began_at, clock, settings) is too_long


def test_a_write_to_old_rows_makes_a_compaction_give_up(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        graph.apply({"Note": {"insert": [{"id": f"m{number}", "text": "x"}]}})
    assert graph.ensure_indices(types=["Note"]) == [], "so the compaction is staged first"
    rival = other_handle(graph)
    meanwhile(monkeypatch, "commit.after_stage", lambda: rival.apply({"Note": {"delete": ["m0"]}}))
    assert graph.optimize(types=["Note"]) == ["main: Note"]
    assert set(content(graph)["Note"]) == {"n0", "m1", "m2", "m3"}
    assert_at_rest(graph)
    assert graph.optimize(types=["Note"]) == []
    assert_at_rest(graph)


def test_an_orphan_head_never_leaks_into_a_later_commit(graph: Graph) -> None:
    append_behind_the_back(graph, "orphan")
    graph.apply(NEW_NOTE)
    assert set(content(graph)["Note"]) == {"n0", "new"}
    pin = graph.snapshot().tables[NOTE]
    tags = lance.dataset(f"{graph.uri}/{pin.location}").tags.list()
    assert [name.startswith("orphan-") for name in tags] == [True]
    assert_at_rest(graph)


def test_a_head_moved_under_an_armed_writer_never_leaks(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain append is not refused by Lance: our transaction lands on top and must be undone."""
    meanwhile(
        monkeypatch, "commit.after_revalidate", lambda: append_behind_the_back(graph, "orphan")
    )
    graph.apply({"Note": {"insert": [{"id": "new", "text": "new"}]}, "Knows": {"delete": ["k0"]}})
    assert set(content(graph)["Note"]) == {"n0", "new"}
    assert_at_rest(graph)


def test_a_failed_publish_rolls_its_advances_back(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The branch head refuses after the tables have advanced: nothing may stay visible."""
    before, head = content(graph), graph.commits.list()[0]
    publisher = graph.engine.transaction._publisher
    original = publisher.publish

    def refuse(ref: Any, publication: Any) -> Any:
        if publication.commit is not None:
            raise ExpectedVersionMismatch("moved", table="node:Note", expected=1, actual=2)
        return original(ref, publication)

    monkeypatch.setattr(publisher, "publish", refuse)
    with pytest.raises(ExpectedVersionMismatch):
        graph.apply(NEW_NOTE)
    monkeypatch.undo()
    assert content(graph) == before
    assert graph.commits.list()[0] == head
    assert_at_rest(graph)
    graph.apply({"Note": {"upsert": [{"id": "later", "text": "x"}]}})
    assert set(content(graph)["Note"]) == {"n0", "later"}
    assert_at_rest(graph)


def test_a_zero_row_delete_moves_nothing(graph: Graph) -> None:
    before = state(graph)
    assert graph.apply({"Note": {"delete": ["nobody"]}}).commit is None
    assert graph.apply({"Person": {"upsert": [{"name": "ada", "age": 1}]}}).commit is None
    assert state(graph) == before
    assert_at_rest(graph)


def test_threads_on_overlapping_and_disjoint_tables(uri: str) -> None:
    graph = workloads.create_small_graph(uri, extra_types=4)
    errors: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for number in range(10):
                row = {"id": f"{worker}-{number}", "text": "x"}
                table = "Note" if number % 2 else f"Extra{worker}"
                graph.apply({table: {"insert": [row]}})
        except OmnigraphError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert len(content(graph)["Note"]) == 1 + 4 * 5
    assert all(len(content(graph)[f"Extra{n}"]) == 5 for n in range(4))
    assert_at_rest(graph)


def test_two_branches_adding_one_type(graph: Graph) -> None:
    """Each gets a dataset of its own; neither sees the other's rows."""
    wider = workloads.small_catalog(extra_types=1)
    graph.branches.create("a")
    graph.branches.create("b")
    for branch in ("a", "b"):
        assert graph.schema.apply(wider, branch=branch).commit is not None
        graph.apply({"Extra0": {"insert": [{"id": branch, "text": "x"}]}}, branch)
    locations = {state(graph, b).tables[node_table("Extra0")].location for b in ("a", "b")}
    assert len(locations) == 2
    assert set(content(graph, "a")["Extra0"]) == {"a"}
    assert set(content(graph, "b")["Extra0"]) == {"b"}
    with pytest.raises(NotFound):
        graph.read("Extra0")
    assert_at_rest(graph)


def test_a_schema_change_under_a_staged_write(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write was made for the old schema; it is prepared again for the new one."""
    rival = rival_of(graph)
    wider = workloads.small_catalog(extra_types=1)
    meanwhile(monkeypatch, "commit.after_stage", lambda: rival.schema.apply(wider))
    assert graph.apply(NEW_NOTE).commit is not None
    assert graph.read("Extra0").num_rows == 0
    assert set(content(graph)["Note"]) == {"n0", "new"}
    assert_at_rest(graph)
