from __future__ import annotations

import json

import pytest
from intents_for_tests import LEASE, intent, ulid

from omnigraph.commit.intents import (
    IntentBoard,
    IntentKind,
    branch_resource,
    intent_from_bytes,
    intent_to_bytes,
    schema_resource,
    table_resource,
)
from omnigraph.errors import CorruptIntent, StorageFailure
from omnigraph.manifest.records import MAIN_REF, BranchRef
from omnigraph.values.identifiers import edge_table, node_table
from omnigraph_testing.fakes import FakeClock, FakeFiles


@pytest.mark.parametrize("kind", IntentKind)
def test_an_intent_is_complete(kind: IntentKind) -> None:
    made = intent(1, exclusive="a b", shared="c", kind=kind)
    assert intent_from_bytes(intent_to_bytes(made)) == made


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        (("a", ""), ("a", ""), True),
        (("a", ""), ("b", ""), False),
        (("a", ""), ("b", "a"), True),
        (("", "a"), ("", "a"), False),
        (("a", "s"), ("b", "s"), False),
        (("s", ""), ("b", "s"), True),
        (("", ""), ("a", "b"), False),
    ],
)
def test_overlap_is_symmetric(one: tuple, other: tuple, overlap: bool) -> None:
    a, b = intent(1, *one), intent(2, *other)
    assert a.overlaps(b) is overlap
    assert b.overlaps(a) is overlap


def test_resources_are_distinct_per_branch_incarnation() -> None:
    again = BranchRef("main", "main.02", None, 0)
    resources = [
        function(ref)
        for ref in (MAIN_REF, again)
        for function in (
            branch_resource,
            schema_resource,
            lambda r: table_resource(r, node_table("A")),
            lambda r: table_resource(r, edge_table("A")),
        )
    ]
    assert len(set(resources)) == 8


def test_every_cut_and_every_missing_field_is_refused() -> None:
    data = intent_to_bytes(intent(1))
    for length in range(0, len(data), 7):
        with pytest.raises((ValueError, KeyError, TypeError)):
            intent_from_bytes(data[:length])
    body = json.loads(data)
    for name in body:
        with pytest.raises((ValueError, KeyError, TypeError)):
            intent_from_bytes(json.dumps({k: v for k, v in body.items() if k != name}).encode())


def test_another_format_is_refused() -> None:
    body = json.loads(intent_to_bytes(intent(1)))
    with pytest.raises(ValueError, match="format 2 is not known"):
        intent_from_bytes(json.dumps({**body, "format": 2}).encode())


@pytest.fixture
def files() -> FakeFiles:
    return FakeFiles()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def board(files: FakeFiles, clock: FakeClock) -> IntentBoard:
    return IntentBoard(files, clock)


def test_others_sees_everyone_but_oneself(board: IntentBoard) -> None:
    for number in (2, 1, 3):
        board.post(intent(number))
    assert [s.intent for s in board.others(ulid(2))] == [intent(1), intent(3)]
    assert [s.epoch for s in board.others()] == [0, 0, 0]
    board.remove(intent(1))
    assert [s.intent for s in board.others()] == [intent(2), intent(3)]


def test_one_id_is_posted_once(board: IntentBoard) -> None:
    board.post(intent(1))
    with pytest.raises(StorageFailure, match="exists already"):
        board.post(intent(1, exclusive="z"))


def test_a_post_that_fails_leaves_nothing(
    board: IntentBoard, files: FakeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lands_without_an_answer(key: str, data: bytes) -> None:
        files.put(key, data)
        raise StorageFailure("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(files, "put_held", lands_without_an_answer)
        with pytest.raises(StorageFailure, match="no answer"):
            board.post(intent(1))
    assert board.others() == []


def test_a_lease_runs_from_when_it_was_first_seen(board: IntentBoard, clock: FakeClock) -> None:
    board.post(intent(1))
    clock.sleep(100)
    (seen,) = board.others()
    assert not board.is_dead(seen), "old, but seen only now"
    clock.sleep(LEASE)
    assert not board.is_dead(seen)
    clock.sleep(0.1)
    assert board.is_dead(seen)


def test_a_new_epoch_starts_a_new_lease(board: IntentBoard, clock: FakeClock) -> None:
    board.post(intent(1))
    board.others()
    clock.sleep(LEASE + 1)
    assert board.renew(intent(1), 1) is not None
    (seen,) = board.others()
    assert seen.epoch == 1
    assert not board.is_dead(seen)
    clock.sleep(LEASE + 1)
    assert board.is_dead(seen)


def test_a_released_holder_is_dead_at_once(board: IntentBoard) -> None:
    posted = board.post(intent(1))
    (seen,) = board.others()
    assert not board.is_dead(seen)
    posted.release()
    assert board.is_dead(seen)


def test_the_holder_that_counts_is_that_of_the_last_epoch(board: IntentBoard) -> None:
    posted = board.post(intent(1))
    posted.release()
    takeover = board.take_over(board.others()[0])
    assert takeover is not None
    (seen,) = board.others()
    assert not board.is_dead(seen), "somebody is recovering it"
    takeover.posted.release()
    assert board.is_dead(seen), "and that one died too"


def test_one_takes_over(files: FakeFiles, clock: FakeClock) -> None:
    one, other = IntentBoard(files, clock), IntentBoard(files, clock)
    one.post(intent(1))
    (seen,) = other.others()
    first, second = one.take_over(seen), other.take_over(seen)
    assert first is not None
    assert second is None
    assert (first.epoch, first.intent) == (1, intent(1))
    (later,) = other.others()
    third = other.take_over(later)
    assert third is not None
    assert third.epoch == 2


def test_renewal_and_takeover_compete(board: IntentBoard) -> None:
    board.post(intent(1))
    (seen,) = board.others()
    assert board.take_over(seen) is not None
    assert board.renew(intent(1), 1) is None, "the owner must stop"
    board.post(intent(2))
    assert board.renew(intent(2), 1) is not None
    seen_before = [s for s in [*board.others()] if s.intent == intent(2)]
    assert [s.epoch for s in seen_before] == [1]


def test_a_finished_intent_is_not_taken_over(board: IntentBoard, files: FakeFiles) -> None:
    board.post(intent(1))
    (seen,) = board.others()
    board.remove(intent(1))
    assert board.take_over(seen) is None
    assert files.objects == {}, "the epoch object does not stay behind"


def test_gone_or_taken(board: IntentBoard) -> None:
    board.post(intent(1))
    assert not board.is_gone_or_taken(intent(1))
    board.take_over(board.others()[0])
    assert board.is_gone_or_taken(intent(1))
    assert board.is_gone_or_taken(intent(2))


def test_removal_takes_the_epochs_along(board: IntentBoard, files: FakeFiles) -> None:
    board.post(intent(1))
    board.take_over(board.others()[0])
    takeover = board.take_over(board.others()[0])
    assert takeover is not None
    board.remove(takeover.intent, takeover.epoch)
    assert files.objects == {}


def test_stray_epochs_do_not_count_and_are_swept(board: IntentBoard, files: FakeFiles) -> None:
    files.put(f"__recovery/{ulid(1)}.epoch.3", b"")
    files.put("__recovery/README", b"")
    board.post(intent(2))
    board.renew(intent(2), 1)
    assert [s.intent for s in board.others()] == [intent(2)]
    board.remove_stray_epochs()
    assert files.list("__recovery") == [f"{ulid(2)}.epoch.1", f"{ulid(2)}.json", "README"]


def test_an_intent_is_read_once(board: IntentBoard, files: FakeFiles) -> None:
    board.post(intent(1))
    board.others()
    reads = len(files.reads)
    board.others()
    assert len(files.reads) == reads


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'{"format": 1}'])
def test_a_corrupt_intent_is_loud(board: IntentBoard, files: FakeFiles, data: bytes) -> None:
    files.put(f"__recovery/{ulid(1)}.json", data)
    with pytest.raises(CorruptIntent) as caught:
        board.others()
    assert caught.value.file == f"__recovery/{ulid(1)}.json"
    assert files.objects[f"__recovery/{ulid(1)}.json"] == data
