"""Small writes that wait for each other share one intent and one publication, and nothing else."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from omnigraph import failpoints
from omnigraph.commit import group, group_advances, staging
from omnigraph.commit.intents import IntentKind
from omnigraph.commit.request import CommitTerms, WriteReceipt, WriteRequest
from omnigraph.errors import (
    ExpectedVersionMismatch,
    IdempotencyConflict,
    KeyConflict,
    OutcomeUnknown,
    PreconditionFailed,
    StorageFailure,
    ValidationFailed,
)
from omnigraph.graph.edits import apply_edits
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph, restore_graph
from omnigraph.lance_store import row_steps
from omnigraph.lance_store.advance import advance
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.settings.models import HistorySettings, MaintenanceSettings, Settings, WriteSettings
from omnigraph.values.identifiers import node_table
from omnigraph.writes.changeset import ChangeSet
from omnigraph_testing import workloads
from omnigraph_testing.graph_helpers import meanwhile, rival_of, together
from omnigraph_testing.invariants import assert_at_rest, assert_history_readable, content

NOTE = node_table("Note")
SEED_NOTES = {"n0"}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group takes all writes that wait, also on a busy machine."""
    monkeypatch.setattr(group, "_LONGEST_SECONDS", 60.0)


def note(graph: Graph, entity_id: str, **terms: Any) -> Callable[[], WriteReceipt]:
    return partial(
        graph.apply, {"Note": {"insert": [{"id": entity_id, "text": entity_id}]}}, **terms
    )


def keyed_note(
    graph: Graph, entity_id: str, key: str, asked: str | None = None
) -> Callable[[], WriteReceipt]:
    """`note` without what a process remembers of its running requests.

    So the request of another process looks, if the store has no locks.
    """
    edit = {"Note": {"insert": [{"id": entity_id, "text": entity_id}]}}
    details = {"request": {"fingerprint": asked or entity_id}}
    terms = CommitTerms(actor=graph.actor, idempotency_key=key, details=details)
    return partial(apply_edits, graph.engine, edit, terms)


def notes_in(graph: Graph, at: str | None = None) -> set[str]:
    return set(content(graph, at=at).get("Note", {}))


def commit_ids(outcomes: list[Any]) -> list[str]:
    for outcome in outcomes:
        assert isinstance(outcome, WriteReceipt), repr(outcome)
        assert outcome.commit is not None
    return [outcome.commit.graph_commit_id for outcome in outcomes]


def publications(outcomes: list[Any]) -> set[int]:
    """The manifest versions: a group has one, writes that were made alone have one each."""
    commit_ids(outcomes)
    return {outcome.commit.graph_manifest_version for outcome in outcomes}


def test_each_write_keeps_its_commit_and_its_moment(graph: Graph) -> None:
    people = [Graph(graph.engine, name, read_only=False) for name in ("ann", "ben", "cleo", "dan")]
    head = graph.commits.list()[0].graph_commit_id
    outcomes = together(graph, *(note(p, f"of-{p.actor}", message=f"by {p.actor}") for p in people))
    ids = commit_ids(outcomes)
    assert len(publications(outcomes)) == 1
    commits = graph.commits.list(limit=4)[::-1]
    assert [c.graph_commit_id for c in commits] == ids == sorted(ids)
    assert [c.actor_id for c in commits] == ["ann", "ben", "cleo", "dan"]
    assert [c.message for c in commits] == [f"by {p.actor}" for p in people]
    assert [c.parent_commit_id for c in commits] == [head, *ids[:-1]]
    seen = set(SEED_NOTES)
    for commit in commits:
        seen = seen | {f"of-{commit.actor_id}"}
        assert notes_in(graph, commit.graph_commit_id) == seen
        assert notes_in(graph, commit.created_at_rfc3339) == seen
    assert notes_in(graph, head) == SEED_NOTES
    assert_at_rest(graph)


def test_what_others_make_of_grouped_commits(graph: Graph) -> None:
    """Diff, feed, revert, tags, merge, cherry-pick, backup, verify and cleanup."""
    graph.branches.create("side")
    outcomes = together(
        graph,
        partial(graph.apply, {"Note": {"delete": ["n0"]}, "Person": {"upsert": [{"name": "eve"}]}}),
        partial(graph.apply, {"Person": {"upsert": [{"name": "ada", "age": 7}]}}),
        note(graph, "a"),
        note(graph, "b"),
    )
    ids = commit_ids(outcomes)
    assert len(publications(outcomes)) == 1
    before = outcomes[0].commit.parent_commit_id
    blocks = graph.changes(start=f"after:{before}").blocks
    assert [b.commit.graph_commit_id for b in blocks] == ids
    assert [[c.id for c in b.changes] for b in blocks] == [["n0", "eve"], ["ada"], ["a"], ["b"]]
    assert {c.id for c in graph.diff(ids[0], ids[2])} == {"ada", "a"}
    graph.tags.create("middle", ids[2])
    graph.cherry_pick(ids[2], "side")
    assert set(content(graph, "side")["Note"]) == {"n0", "a"}
    graph.revert(ids[0])
    assert notes_in(graph) == {"a", "b", "n0"}
    assert "eve" not in content(graph)["Person"]
    graph.merge("side", "main")
    assert notes_in(graph) == {"a", "b", "n0"}
    assert graph.verify(full=True).ok
    target = f"{graph.uri}-backup"
    graph.backup(target)
    restore_graph(target, f"{graph.uri}-again")
    again = open_graph(f"{graph.uri}-again")
    assert [notes_in(again, i) for i in ids] == [set(), set(), {"a"}, {"a", "b"}]
    graph.cleanup(1, confirm=True)
    assert graph.verify(full=True).ok
    assert notes_in(graph, "middle") == {"a"}
    assert_at_rest(graph)


def test_the_life_of_versions_that_share_a_file(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every moment is compared with a model: at once, from a branch, after upkeep, in a copy."""
    monkeypatch.setattr(staging, "_LOOKUPS_BEFORE_SCAN", 0)
    model: dict[str, set[str]] = {}
    seen, before = {"n0"}, fragments_of_notes(graph)
    for round_number in range(2):
        if round_number == 1:
            graph.branches.create("early")
        names = [f"r{round_number}-{n}" for n in range(5)]
        outcomes = together(graph, *(note(graph, name) for name in names))
        assert len(publications(outcomes)) == 1
        for name, commit_id in zip(names, commit_ids(outcomes), strict=True):
            model[commit_id] = seen = seen | {name}
    assert fragments_of_notes(graph) == before + 2
    assert {i: notes_in(graph, i) for i in model} == model

    graph.apply({"Note": {"delete": ["r0-1"], "upsert": [{"id": "r0-2", "text": "new"}]}}, "early")
    together(graph, *(note(graph, f"e{n}", branch="early") for n in range(3)), branch="early")
    early = {"n0", "r0-0", "r0-2", "r0-3", "r0-4", "e0", "e1", "e2"}
    assert set(content(graph, "early")["Note"]) == early
    graph.apply({"Note": {"delete": ["r0-0"]}})
    graph.optimize()
    assert {i: notes_in(graph, i) for i in model} == model
    assert graph.verify(full=True).ok

    copy = f"{graph.uri}-copy"
    graph.backup(copy)
    restore_graph(copy, f"{graph.uri}-again")
    again = open_graph(f"{graph.uri}-again")
    assert {i: notes_in(again, i) for i in model} == model
    again.cleanup(1, confirm=True)
    assert set(content(again, "early")["Note"]) == early
    assert notes_in(again) == seen - {"r0-0"}
    assert again.verify(full=True).ok
    graph.merge("early", "main")
    assert notes_in(graph) == (seen | early) - {"r0-0", "r0-1"}
    assert {i: notes_in(graph, i) for i in model} == model
    assert_at_rest(graph)


def failing_build(_: Snapshot) -> ChangeSet:
    raise ZeroDivisionError("a fault of the caller")


def run_with(graph: Graph, build: Callable[[Snapshot], ChangeSet]) -> WriteReceipt:
    request = WriteRequest("main", "apply", (NOTE,), small=True)
    return graph.engine.transaction.run(request, build)


def test_a_bad_write_fails_alone(graph: Graph) -> None:
    stale = graph.commits.list()[-1].graph_commit_id
    nothing = {"Note": {"delete": ["unknown"]}}
    outcomes = together(
        graph,
        note(graph, "a"),
        partial(
            graph.apply,
            {
                "Note": {"insert": [{"id": "x", "text": "x"}]},
                "Knows": {"insert": [{"from": "ada", "to": "missing"}]},
            },
        ),
        note(graph, "a"),
        note(graph, "b", if_commit=stale),
        partial(run_with, graph, failing_build),
        partial(graph.apply, nothing),
        note(graph, "c"),
    )
    good = [outcomes[0], outcomes[6]]
    assert len(publications(good)) == 1
    found = [type(outcome) for outcome in outcomes[1:5]]
    assert found == [ValidationFailed, KeyConflict, PreconditionFailed, ZeroDivisionError]
    assert outcomes[2].ids == ["a"]
    assert outcomes[3].actual == outcomes[0].commit.graph_commit_id
    assert outcomes[5].commit is None
    assert notes_in(graph) == {"n0", "a", "c"}
    assert [c.graph_commit_id for c in graph.commits.list(limit=2)] == commit_ids(good)[::-1]
    assert_at_rest(graph)


def test_only_bad_writes_publish_nothing(graph: Graph) -> None:
    before = graph.snapshot()
    outcomes = together(graph, *(note(graph, "n0") for _ in range(3)))
    assert [type(outcome) for outcome in outcomes] == [KeyConflict] * 3
    assert graph.snapshot() == before
    assert_at_rest(graph)


def fragments_of_notes(graph: Graph, at: str | None = None) -> int:
    pin = graph.snapshot(at=at).pin(NOTE)
    return len(graph.engine.store.open(pin.at).fragment_ids())


def test_inserts_of_a_group_share_a_fragment(graph: Graph) -> None:
    """Each moment keeps its rows; changes and deletes in between begin another fragment."""
    before = fragments_of_notes(graph)
    changed = {"Note": {"upsert": [{"id": "b", "text": "changed"}]}}
    outcomes = together(
        graph,
        *(note(graph, i) for i in "abc"),
        partial(graph.apply, changed),
        note(graph, "d"),
        partial(graph.apply, {"Note": {"delete": ["d", "n0"]}}),
        *(note(graph, i) for i in "ef"),
    )
    ids = commit_ids(outcomes)
    assert len(publications(outcomes)) == 1
    shown = [notes_in(graph, at) for at in ids]
    abc = {"n0", "a", "b", "c"}
    assert shown[:4] == [{"n0", "a"}, {"n0", "a", "b"}, abc, abc]
    assert shown[4:] == [abc | {"d"}, abc - {"n0"}, set("abce"), set("abcef")]
    texts = [content(graph, at=at)["Note"]["b"]["text"] for at in ids[1:]]
    assert texts == ["b", "b", *["changed"] * 5]
    # "abc", the changed row, "ef"; the fragments of "n0" and "d" have no row any more.
    assert fragments_of_notes(graph) == before + 2
    assert fragments_of_notes(graph, ids[2]) == before + 1
    assert graph.verify(full=True).ok
    assert_at_rest(graph)


@pytest.mark.parametrize(("size", "fragments"), [(1000, 1), (group_advances._RUN_BYTES // 5, 2)])
def test_large_rows_of_a_group_are_written_once(
    graph: Graph, size: int, fragments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_advances, "_REFILL_BYTES", 0)
    monkeypatch.setattr(staging, "_LOOKUPS_BEFORE_SCAN", 0)
    before, large = fragments_of_notes(graph), "x" * size
    writes = [{"Note": {"insert": [{"id": f"w{n}", "text": large}]}} for n in range(6)]
    outcomes = together(graph, *(partial(graph.apply, write) for write in writes))
    assert len(publications(outcomes)) == 1
    assert fragments_of_notes(graph) == before + fragments
    for number, at in enumerate(commit_ids(outcomes)):
        assert notes_in(graph, at) == {"n0", *(f"w{n}" for n in range(number + 1))}
    assert_at_rest(graph)


def test_a_later_write_sees_the_earlier_ones(graph: Graph) -> None:
    older = 'query q() { update Person set { age: age + 1 } where name = "ada" }'
    outcomes = together(
        graph,
        partial(graph.mutate, older),
        partial(graph.apply, {"Person": {"insert": [{"name": "new"}]}}),
        partial(graph.apply, {"Knows": {"insert": [{"id": "k1", "from": "new", "to": "ada"}]}}),
        partial(graph.mutate, older),
        partial(graph.mutate, 'query q() { delete Person where name = "new" }'),
    )
    assert len({o.commit.graph_manifest_version for o in outcomes}) == 1
    assert outcomes[4].affected_edges == 1, "the edge of the third write goes with its node"
    assert content(graph)["Person"]["ada"]["age"] == 3
    assert set(content(graph)["Knows"]) == {"k0"}
    assert_history_readable(graph)
    assert_at_rest(graph)


def test_an_idempotency_key_is_used_once(graph: Graph) -> None:
    first = keyed_note(graph, "a", "k")()
    outcomes = together(
        graph,
        note(graph, "b"),
        keyed_note(graph, "a", "k"),
        keyed_note(graph, "c", "new"),
        keyed_note(graph, "c", "new"),
    )
    assert len(publications([outcomes[0], outcomes[2]])) == 1
    assert [o.repeated for o in outcomes] == [False, True, False, True]
    assert outcomes[1].commit == first.commit
    assert outcomes[3].commit == outcomes[2].commit
    again = together(graph, note(graph, "d"), keyed_note(graph, "c", "new"))
    assert again[1].repeated
    assert again[1].commit == outcomes[2].commit
    assert notes_in(graph) == {"n0", "a", "b", "c", "d"}
    assert_at_rest(graph)


def test_a_key_belongs_to_an_actor_and_to_one_request(graph: Graph) -> None:
    ann, ben = (Graph(graph.engine, name, read_only=False) for name in ("ann", "ben"))

    outcomes = together(
        graph,
        keyed_note(ann, "a", "k", "1"),
        keyed_note(ben, "b", "k", "1"),
        keyed_note(ann, "a", "k", "1"),
        keyed_note(ann, "c", "k", "2"),
    )
    assert len(publications(outcomes[:2])) == 1
    assert [o.repeated for o in outcomes[:3]] == [False, False, True]
    assert isinstance(outcomes[3], IdempotencyConflict)
    assert notes_in(graph) == {"n0", "a", "b"}
    assert_at_rest(graph)


def test_of_writes_on_the_same_head_one_wins(graph: Graph) -> None:
    head = graph.commits.list()[0].graph_commit_id
    outcomes = together(graph, *(note(graph, f"w{n}", if_commit=head) for n in range(4)))
    assert [isinstance(o, WriteReceipt) for o in outcomes] == [True, False, False, False]
    assert all(isinstance(o, PreconditionFailed) for o in outcomes[1:])
    assert notes_in(graph) == {"n0", "w0"}
    assert_at_rest(graph)


def test_a_group_on_a_branch_forks_its_tables_first(graph: Graph) -> None:
    graph.branches.create("review")
    writes = [note(graph, f"w{n}", branch="review") for n in range(3)]
    outcomes = together(graph, *writes, branch="review")
    assert len(publications(outcomes)) == 1
    assert set(content(graph, "review")["Note"]) == {"n0", "w0", "w1", "w2"}
    assert notes_in(graph) == SEED_NOTES
    assert_at_rest(graph)


def test_a_large_write_is_made_alone(uri: str) -> None:
    workloads.create_small_graph(uri)
    graph = open_graph(uri, settings=Settings(history=HistorySettings(inline_ids=2)))
    rows = [{"id": f"r{n}", "text": "x"} for n in range(3)]
    outcomes = together(
        graph,
        note(graph, "a"),
        note(graph, "b"),
        partial(graph.mutate, 'query q() { update Note set { text: "y" } where text != "x" }'),
        partial(graph.apply, {"Note": {"insert": rows}}),
        note(graph, "c"),
    )
    versions = [o.commit.graph_manifest_version for o in outcomes]
    assert versions[0] == versions[1]
    assert len({versions[0], *versions[2:4]}) == 3
    assert notes_in(graph) == {"n0", "a", "b", "c", "r0", "r1", "r2"}
    assert [r["text"] for r in content(graph)["Note"].values()].count("y") >= 3
    assert_at_rest(graph)


def test_a_group_ends_in_time(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "_LONGEST_SECONDS", 0.0)
    outcomes = together(graph, *(note(graph, f"w{n}") for n in range(3)))
    assert len(publications(outcomes)) == 3, "each group had time for one write"
    made = [c.graph_commit_id for c in graph.commits.list(limit=3)]
    assert made[::-1] == commit_ids(outcomes), "the others kept their places"
    assert_at_rest(graph)


def test_a_long_group_keeps_its_lease(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds may take longer than a lease; the intent is renewed, and a rival does not take it."""
    graph = workloads.create_small_graph(uri, lease=0.4)
    rival = rival_of(graph)
    waited: list[WriteReceipt] = []

    def slow(_: Snapshot) -> ChangeSet:
        thread = threading.Thread(target=lambda: waited.append(note(rival, "rival")()))
        thread.start()
        thread.join(1.2)
        assert thread.is_alive(), "the rival waits for the group"
        return ChangeSet(())

    outcomes = together(graph, note(graph, "a"), partial(run_with, graph, slow), note(graph, "b"))
    assert outcomes[1].commit is None
    pause = threading.Event()
    while not waited:
        pause.wait(0.02)
    assert notes_in(graph) >= {"n0", "a", "rival"}
    assert isinstance(outcomes[2], WriteReceipt)
    assert graph.recoveries() == []
    assert_at_rest(graph)


# --- the group fails as a whole, and every write is made alone


def broken_once(original: Callable[..., Any], error: BaseException, on: int) -> Callable[..., Any]:
    calls = itertools.count(1)

    def call(*arguments: Any) -> Any:
        if next(calls) == on:
            raise error
        return original(*arguments)

    return call


def four(graph: Graph) -> list[Callable[[], WriteReceipt]]:
    return [note(graph, f"w{n}", message=f"w{n}") for n in range(4)]


def expect_all_once(graph: Graph, outcomes: list[Any]) -> None:
    ids = commit_ids(outcomes)
    assert notes_in(graph) == {"n0", "w0", "w1", "w2", "w3"}
    made = {c.graph_commit_id: c.message for c in graph.commits.list(limit=None)}
    assert [made[i] for i in ids] == ["w0", "w1", "w2", "w3"]
    assert sorted(m for m in made.values() if m and m.startswith("w")) == ["w0", "w1", "w2", "w3"]
    for commit_id in ids:
        content(graph, at=commit_id)
    assert_at_rest(graph)


def changing_four(graph: Graph) -> list[Callable[[], WriteReceipt]]:
    """As `four`, but each write changes a row, too, so they share no file."""
    return [
        partial(
            graph.apply,
            {"Note": {"insert": [{"id": i, "text": i}], "upsert": [{"id": "n0", "text": i}]}},
            message=i,
        )
        for i in ("w0", "w1", "w2", "w3")
    ]


@pytest.mark.parametrize("on", [1, 3])
def test_a_table_that_cannot_be_advanced(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, on: int
) -> None:
    refused = StorageFailure("no answer")
    monkeypatch.setattr(group_advances, "advance", broken_once(advance, refused, on))
    outcomes = together(graph, *changing_four(graph))
    assert len(publications(outcomes)) == 4
    expect_all_once(graph, outcomes)
    assert graph.recoveries() == []


def on_manifests(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, on: int, then: Callable[[str], bool]
) -> None:
    """Have `then` called instead of the put of a manifest, with its key."""
    # A build that looks up an id in the table needs the versions of the builds before it.
    monkeypatch.setattr(staging, "_LOOKUPS_BEFORE_SCAN", 0)
    files, calls = graph.engine.store.files, itertools.count(1)
    original = files.put

    def put(key: str, data: bytes, **options: Any) -> bool:
        if key.endswith(".manifest") and next(calls) == on:
            return then(key)
        return original(key, data, **options)

    monkeypatch.setattr(files, "put", put)


@pytest.mark.parametrize("on", [0, 1, 3])
def test_a_shared_file_whose_versions_cannot_be_made(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, on: int
) -> None:
    refused = StorageFailure("no answer")
    monkeypatch.setattr(row_steps, "advance", broken_once(advance, refused, 1 if on == 0 else -1))

    def refuse(_: str) -> bool:
        raise refused

    on_manifests(graph, monkeypatch, on, refuse)
    outcomes = together(graph, *four(graph))
    assert len(publications(outcomes)) == 4
    expect_all_once(graph, outcomes)
    assert graph.recoveries() == []


@pytest.mark.parametrize("on", [1, 3])
def test_a_version_of_a_group_that_another_program_made(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, on: int
) -> None:
    def taken(_: str) -> bool:
        workloads.leave_orphan_head(graph)
        return False

    on_manifests(graph, monkeypatch, on, taken)
    outcomes = together(graph, *four(graph))
    assert len(publications(outcomes)) == 4
    expect_all_once(graph, outcomes)


@pytest.mark.parametrize("on", [1, 3])
@pytest.mark.parametrize("error", [StorageFailure("disk full"), ValueError("a column of no kind")])
def test_files_that_cannot_be_written(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, error: Exception, on: int
) -> None:
    """Several writes have their files written at once, so the group does not know whose it was."""
    monkeypatch.setattr(staging, "write_edit", broken_once(staging.write_edit, error, on))
    outcomes = together(graph, *changing_four(graph))
    assert len(publications(outcomes)) == 4
    expect_all_once(graph, outcomes)
    assert graph.recoveries() == []


@pytest.mark.parametrize("error", [StorageFailure("disk full"), ValueError("a column of no kind")])
def test_a_shared_file_that_cannot_be_written(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(row_steps, "write_edit", broken_once(staging.write_edit, error, 1))
    outcomes = together(graph, *four(graph))
    assert len(publications(outcomes)) == 4
    expect_all_once(graph, outcomes)
    assert graph.recoveries() == []


def test_an_orphan_head_does_not_leak_into_a_group(graph: Graph) -> None:
    workloads.leave_orphan_head(graph)
    expect_all_once(graph, together(graph, *four(graph)))


def test_a_head_moved_under_a_group(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, "group.after_stage", lambda: workloads.leave_orphan_head(graph))
    expect_all_once(graph, together(graph, *four(graph)))


def publish_that(graph: Graph, monkeypatch: pytest.MonkeyPatch, fail: Callable[..., Any]) -> None:
    publisher = graph.engine.publisher
    original = publisher.publish

    def publish(ref: Any, publication: Any) -> Any:
        if publication.group:
            return fail(original, ref, publication)
        return original(ref, publication)

    monkeypatch.setattr(publisher, "publish", publish)


def test_a_refused_publication(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise ExpectedVersionMismatch("moved", table="node:Note", expected=1, actual=2)

    publish_that(graph, monkeypatch, refuse)
    outcomes = together(graph, *four(graph))
    assert len(publications(outcomes)) == 4
    expect_all_once(graph, outcomes)


def test_a_lost_answer_of_the_publication(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = iter([True, False])

    def lose(original: Any, ref: Any, publication: Any) -> Any:
        published = original(ref, publication)
        if next(lost, False):
            raise StorageFailure("the answer was lost")
        return published

    publish_that(graph, monkeypatch, lose)
    outcomes = together(graph, *four(graph))
    assert len(publications(outcomes)) == 1
    expect_all_once(graph, outcomes)


@pytest.mark.parametrize("landed", [True, False])
def test_an_unknown_outcome_names_the_commit_of_each(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    def silent(original: Any, ref: Any, publication: Any) -> Any:
        if landed:
            original(ref, publication)
        raise StorageFailure("no answer")

    publish_that(graph, monkeypatch, silent)
    monkeypatch.setattr("omnigraph.commit.settling._PUBLISH_PAUSE_SECONDS", 0.001)
    outcomes = together(graph, *four(graph))
    monkeypatch.undo()
    assert all(isinstance(o, OutcomeUnknown) for o in outcomes)
    named = [o.commit_id for o in outcomes]
    assert len(set(named)) == 4
    assert graph.refresh() == 1
    made = [c.graph_commit_id for c in graph.commits.list(limit=4)][::-1]
    assert (made == named) is landed
    assert len(notes_in(graph)) == (5 if landed else 1)
    assert [a.recovery_kind for a in graph.recoveries()] == ([] if landed else ["rolled_back"])
    assert_at_rest(graph)


@pytest.mark.parametrize("point", [*failpoints.GROUP_POINTS, *failpoints.PUBLISH_POINTS])
def test_a_fault_of_the_leader_is_not_passed_on(graph: Graph, point: str) -> None:
    """An unforeseen error at any point: the writes are made once, by the group or alone."""
    failpoints.arm(point, "raise", 2 if point == "group.after_member" else 1)
    expect_all_once(graph, together(graph, *four(graph)))


@pytest.mark.parametrize("point", ["group.after_arm", "group.after_stage", "group.before_publish"])
def test_an_interrupted_leader(graph: Graph, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    original, hits = failpoints.hit, itertools.count()

    def hit(name: str) -> None:
        original(name)
        if name == point and next(hits) == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(failpoints, "hit", hit)
    outcomes = together(graph, *four(graph))
    assert isinstance(outcomes[0], KeyboardInterrupt)
    commit_ids(outcomes[1:])
    assert notes_in(graph) == {"n0", "w1", "w2", "w3"}
    assert_at_rest(graph)


def test_a_key_that_another_process_used_meanwhile(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = Graph(rival_of(graph).engine, graph.actor, read_only=False)
    elsewhere = {"Knows": {"delete": ["k0"]}}
    meanwhile(
        monkeypatch, "group.before_publish", lambda: rival.apply(elsewhere, idempotency_key="k")
    )
    outcomes = together(graph, note(graph, "a"), keyed_note(graph, "b", "k"))
    assert isinstance(outcomes[1], IdempotencyConflict), "it asked for something else"
    commit_ids(outcomes[:1])
    assert notes_in(graph) == {"n0", "a"}
    assert_at_rest(graph)


# --- other writers at the same time


def test_a_disjoint_writer_publishes_in_between(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = rival_of(graph)
    meanwhile(
        monkeypatch, "group.before_publish", lambda: rival.apply({"Knows": {"delete": ["k0"]}})
    )
    outcomes = together(graph, *four(graph))
    assert len(publications(outcomes)) == 1
    assert "Knows" not in content(graph)
    expect_all_once(graph, outcomes)


def test_nothing_is_visible_before_the_publication(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = open_graph(graph.uri, read_only=True)
    seen: list[set[str]] = []
    meanwhile(
        monkeypatch,
        "group.before_publish",
        lambda: seen.extend([notes_in(graph), notes_in(other)]),
    )
    together(graph, *four(graph))
    assert seen == [SEED_NOTES, SEED_NOTES]
    assert len(notes_in(other)) == 5


def test_a_schema_change_before_the_group_arms(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = rival_of(graph)
    wider = workloads.small_catalog(extra_types=1)
    meanwhile(monkeypatch, "commit.before_arm", lambda: rival.schema.apply(wider))
    expect_all_once(graph, together(graph, *four(graph)))


def test_cleanup_leaves_the_versions_of_a_group_in_flight(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = workloads.create_small_graph(uri)
    at_once = Settings(
        write=WriteSettings(lease_seconds=workloads.LEASE),
        maintenance=MaintenanceSettings(minimum_age_seconds=0, automatic=False),
    )
    cleaner = open_graph(uri, settings=at_once)
    assert [s.intent.kind for s in cleaner.engine.board.others()] == []
    kinds: list[IntentKind] = []
    removed: list[int] = []

    def clean() -> None:
        kinds.extend(s.intent.kind for s in cleaner.engine.board.others())
        removed.append(cleaner.cleanup(1, confirm=True).files)

    meanwhile(monkeypatch, "group.before_publish", clean)
    outcomes = together(graph, *four(graph))
    assert kinds == [IntentKind.GROUP]
    assert len(removed) == len(publications(outcomes)) == 1
    expect_all_once(graph, outcomes)


def test_many_threads_give_the_result_of_some_order(uri: str) -> None:
    """Random writes of threads: each commit is its operation on the state of the commit before."""
    graph = workloads.create_small_graph(uri)
    people = content(graph)["Person"]

    def work(worker: int) -> int:
        chance, done = random.Random(worker), 0
        for number in range(6):
            name, age = f"p{chance.randrange(4)}", worker * 100 + number
            row = {"name": name, "age": age}
            kind = chance.choice(["insert", "upsert", "delete"])
            edit = {kind: [name] if kind == "delete" else [row]}
            try:
                receipt = graph.apply({"Person": edit}, message=f"{kind} {name} {age}")
            except KeyConflict:
                continue
            done += receipt.commit is not None
        return done

    with ThreadPoolExecutor(8) as pool:
        done = sum(pool.map(work, range(8)))
    commits = [c for c in graph.commits.list(limit=None) if (c.message or "seed") != "seed"][::-1]
    assert len(commits) == done
    assert len({c.graph_manifest_version for c in commits}) < done, "no group was formed"
    for commit in commits:
        kind, name, age = str(commit.message).split()
        assert (kind == "insert") <= (name not in people), "an insert of an id that existed"
        if kind == "delete":
            del people[name]
        else:
            people[name] = {"id": name, "name": name, "age": int(age)}
        assert content(graph, at=commit.graph_commit_id)["Person"] == people
    assert_at_rest(graph)


def test_long_histories_of_groups_find_their_commits(uri: str) -> None:
    """A publication looks for its own commit, although groups push many commits out of the head."""
    workloads.create_small_graph(uri)
    graph = open_graph(uri, settings=Settings(history=HistorySettings(window_low=2, window_high=4)))
    based_on = graph.snapshot().graph_manifest_version
    outcomes = together(graph, *(note(graph, f"w{n}") for n in range(12)))
    ids = commit_ids(outcomes)
    _, state = graph.engine.reader.branch("main")
    assert len(state.commits) == 2
    for commit_id in ids:
        found = graph.engine.publisher.find_commit(state, commit_id, based_on)
        assert found is not None
        assert found.graph_commit_id == commit_id
    assert graph.engine.publisher.find_commit(state, "0" * 26, based_on) is None
    assert notes_in(graph, ids[4]) == {"n0", "w0", "w1", "w2", "w3", "w4"}
    assert_at_rest(graph)
