"""Ids that a commit changed: recorded inline or in a file, and read back the same."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.lance_store.objects.control_files import LocalFiles
from omnigraph.manifest.changed_ids import (
    ChangedIds,
    ChangeListWriter,
    Op,
    record_ids,
    recorded_id_batches,
    recorded_id_sets,
    recorded_ids,
)
from omnigraph.manifest.layout import change_list_object
from omnigraph.manifest.records import TableChanges
from omnigraph.settings.models import HistorySettings
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.identifiers import node_table

PERSON = node_table("Person")
IDS = {Op.INSERT: ["b", "a"], Op.UPDATE: [], Op.DELETE: ["é", "d", "c"]}


def in_memory() -> ChangedIds:
    return ChangedIds(*(pa.array(IDS[op], pa.string()) for op in Op))


@pytest.mark.parametrize("inline_ids", [4, 5])
@pytest.mark.parametrize("listed", [False, True])
def test_every_reader_returns_what_was_recorded(
    tmp_path: Path, inline_ids: int, listed: bool
) -> None:
    files = LocalFiles(tmp_path / "g")
    writer = ChangeListWriter(tmp_path / "ids.arrow")
    for op, ids in IDS.items():
        writer.add(op, pa.array(ids, pa.string()))
    given = writer.finish() if listed else in_memory()
    recorded = record_ids(
        PERSON, given, files, HistorySettings(inline_ids=inline_ids), SYSTEM_CLOCK
    )
    assert (recorded.inserted, recorded.updated, recorded.deleted) == (2, 0, 3)
    assert (recorded.ids is None, recorded.file is None) == (inline_ids == 4, inline_ids == 5)
    found = recorded_ids(files, recorded)
    assert found is not None
    assert [part.to_pylist() for part in (found.inserted, found.updated, found.deleted)] == [
        IDS[op] for op in Op
    ]
    assert recorded_id_sets(files, recorded) == tuple(frozenset(IDS[op]) for op in Op)
    batches = recorded_id_batches(files, recorded)
    assert batches is not None
    assert [i for batch in batches for i in batch.to_pylist()] == [i for op in Op for i in IDS[op]]


def test_a_removed_list_and_a_record_without_ids_are_unknown(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path / "g")
    recorded = record_ids(PERSON, in_memory(), files, HistorySettings(inline_ids=1), SYSTEM_CLOCK)
    assert recorded.file is not None
    files.delete(change_list_object(recorded.file))
    for unknown in (recorded, TableChanges(PERSON, 0, 0, 0, ids=None)):
        assert recorded_ids(files, unknown) is None
        assert recorded_id_sets(files, unknown) is None
        assert recorded_id_batches(files, unknown) is None
