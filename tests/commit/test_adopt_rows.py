"""Rows that were written before the transaction: the same commits as rows handed over in memory."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import init
from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.commit.request import WriteRequest
from omnigraph.errors import WriterFenced
from omnigraph.graph.handle import Graph
from omnigraph.lance_store.staging.written_fragments import write_rows
from omnigraph.manifest.changed_ids import ChangeList, ChangeListWriter, Op
from omnigraph.manifest.layout import change_list_object
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.settings.models import HistorySettings, Settings, WriteSettings
from omnigraph.values.identifiers import node_table
from omnigraph.writes.changeset import AdoptRows, ChangeSet
from omnigraph_testing.invariants import assert_at_rest

PERSON = node_table("Person")


@pytest.fixture
def people(tmp_path: Path) -> Graph:
    settings = Settings(
        history=HistorySettings(inline_ids=3), write=WriteSettings(lease_seconds=0.4)
    )
    schema = "node Person { name: String @key\n age: I32?\n photo: Blob? }"
    graph = init(tmp_path / "people.omni", schema, settings=settings)
    graph.apply({"Person": {"insert": [{"name": n, "age": 1} for n in ("ada", "bob", "cy")]}})
    return graph


def rows(graph: Graph, **ages: int) -> pa.Table:
    schema = table_schema(graph.snapshot().catalog.entity_type(PERSON))
    return pa.table(
        {
            "id": list(ages),
            "name": list(ages),
            "age": list(ages.values()),
            "photo": [name.encode() for name in ages],
        },
        schema=schema,
    )


def changes(path: Path, **ids: list[str]) -> ChangeList:
    writer = ChangeListWriter(path)
    for op in Op:
        writer.add(op, pa.array(ids.get(op.name.lower(), []), pa.string()))
    return writer.finish()


def adopt(graph: Graph, table: pa.Table, listed: ChangeList) -> ChangeSet:
    pin = graph.snapshot().pin(PERSON)
    # In another process, as an executor of a cluster would.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        target = graph.engine.store.address(pin.at)
        fragments = pool.submit(write_rows, target, table).result()
    return ChangeSet((AdoptRows(PERSON, pin.location, pin.branch, fragments, listed),))


def commit(graph: Graph, made: ChangeSet, *, long_build: bool = True) -> None:
    request = WriteRequest("main", "load", (PERSON,), long_build=long_build)
    graph.engine.transaction.run(request, lambda _: made)


def ages(graph: Graph) -> dict[str, int]:
    table = graph.read("Person", columns=["id", "age"])
    return dict(zip(table["id"].to_pylist(), table["age"].to_pylist(), strict=True))


def test_append(people: Graph, tmp_path: Path) -> None:
    listed = changes(tmp_path / "c", insert=["dan", "eve"])
    commit(people, adopt(people, rows(people, dan=4, eve=5), listed))
    assert ages(people) == {"ada": 1, "bob": 1, "cy": 1, "dan": 4, "eve": 5}
    recorded = people.commits.list()[0].changes[0]
    assert recorded.ids == (("dan", "eve"), (), ())
    assert people.read("Person", ids=["eve"])["photo"].to_pylist() == [b"eve"]
    assert people.snapshot().pin(PERSON).row_count == 5
    assert_at_rest(people)


def test_upsert_removes_what_it_replaces_and_what_goes(people: Graph, tmp_path: Path) -> None:
    listed = changes(tmp_path / "c", insert=["dan"], update=["ada", "bob"], delete=["cy"])
    table = rows(people, ada=7, bob=8, dan=9)
    commit(people, adopt(people, table, listed))
    assert ages(people) == {"ada": 7, "bob": 8, "dan": 9}
    assert people.snapshot().pin(PERSON).row_count == 3
    recorded = people.commits.list()[0].changes[0]
    assert (recorded.inserted, recorded.updated, recorded.deleted) == (1, 2, 1)
    assert recorded.ids is None
    assert recorded.file is not None
    stored = tmp_path / "stored"
    data = people.engine.store.files.get(change_list_object(recorded.file))
    assert data is not None
    stored.write_bytes(data)
    kept = ChangeList(stored, recorded.inserted, recorded.updated, recorded.deleted)
    assert kept.read(Op.UPDATE).to_pylist() == ["ada", "bob"]
    assert kept.read(Op.DELETE).to_pylist() == ["cy"]


@pytest.mark.parametrize("survivors", [{"ada": 2, "zoe": 3}, {}])
def test_every_stored_row_may_go(people: Graph, tmp_path: Path, survivors: dict[str, int]) -> None:
    kept, gone = [*survivors][:1], {"ada", "bob", "cy"} - set(survivors)
    listed = changes(tmp_path / "c", update=kept, insert=[*survivors][1:], delete=sorted(gone))
    commit(people, adopt(people, rows(people, **survivors), listed))
    assert ages(people) == survivors
    people.apply({"Person": {"insert": [{"name": "later"}]}})
    assert set(ages(people)) == {*survivors, "later"}


def test_physical_movement_is_staged_again_without_writing(people: Graph, tmp_path: Path) -> None:
    listed = changes(tmp_path / "c", insert=["dan"])
    made = adopt(people, rows(people, dan=4), listed)
    people.optimize()
    commit(people, made)
    assert ages(people) == {"ada": 1, "bob": 1, "cy": 1, "dan": 4}


def test_files_of_another_physical_branch_are_refused(people: Graph, tmp_path: Path) -> None:
    made = adopt(people, rows(people, dan=4), changes(tmp_path / "c", insert=["dan"]))
    people.branches.create("other")
    calls: list[str] = []

    def build(snapshot: Snapshot) -> ChangeSet:
        calls.append(snapshot.graph_branch)
        if len(calls) > 1:
            return ChangeSet(())
        return made

    request = WriteRequest("other", "load", (PERSON,), long_build=True)
    receipt = people.engine.transaction.run(request, build)
    assert receipt.commit is None
    assert calls == ["other", "other"]


def test_nothing_changed_is_no_commit(people: Graph, tmp_path: Path) -> None:
    before = people.commits.list()
    made = adopt(people, rows(people), changes(tmp_path / "c"))
    commit(people, made)
    assert people.commits.list() == before


def test_a_long_staging_is_on_the_board_and_renewed(people: Graph, tmp_path: Path) -> None:
    board, clock = people.engine.board, people.engine.transaction._clock
    epochs: list[int] = []

    def build(_: Snapshot) -> ChangeSet:
        for _ in range(4):
            (seen,) = board.others()
            assert not board.is_dead(seen)
            epochs.append(seen.epoch)
            clock.sleep(0.25)
        people.apply({"Person": {"insert": [{"name": "meanwhile"}]}})
        return ChangeSet(())

    people.engine.transaction.run(WriteRequest("main", "load", (), long_build=True), build)
    assert max(epochs) >= 1
    assert_at_rest(people)


def test_a_hold_that_was_taken_over_stops_the_write(people: Graph) -> None:
    board, clock = people.engine.board, people.engine.transaction._clock

    def build(_: Snapshot) -> ChangeSet:
        (seen,) = board.others()
        assert board.take_over(seen) is not None
        clock.sleep(0.4)
        return ChangeSet(())

    request = WriteRequest("main", "load", (PERSON,), long_build=True)
    with pytest.raises(WriterFenced):
        people.engine.transaction.run(request, build)
