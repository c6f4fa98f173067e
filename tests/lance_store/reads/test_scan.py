from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.lance_store.objects.storage_location import parse_location
from omnigraph.lance_store.reads.scan import fragment_groups
from omnigraph.lance_store.store import DatasetVersion, Store


@pytest.mark.parametrize(
    ("fragments", "rows_per_group", "groups"),
    [
        ([], 5, ()),
        ([3], 5, ((0,),)),
        ([9], 5, ((0,),)),
        ([2, 3], 5, ((0, 1),)),
        ([2, 3, 1], 5, ((0, 1), (2,))),
        ([9, 1, 9], 5, ((0,), (1,), (2,))),
        ([1, 1, 1, 1, 1], 2, ((0, 1), (2, 3), (4,))),
        ([1, 2, 3], 1, ((0,), (1,), (2,))),
    ],
)
def test_fragments_are_grouped_up_to_so_many_rows(
    tmp_path: Path, fragments: list[int], rows_per_group: int, groups: tuple[tuple[int, ...], ...]
) -> None:
    path = str(tmp_path / "t.lance")
    schema = pa.schema([("id", pa.string())])
    dataset = lance.write_dataset(schema.empty_table(), path)
    for rows in fragments:
        table = pa.table({"id": [str(n) for n in range(rows)]}, schema)
        dataset = lance.write_dataset(table, path, mode="append")
    at = DatasetVersion("t.lance", None, dataset.version)
    found = fragment_groups(Store(parse_location(tmp_path, {})), at, rows_per_group)
    assert found == groups


def test_deleted_rows_do_not_count(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    for number in range(3):
        table = pa.table({"id": [f"{number}-{n}" for n in range(4)]})
        dataset = lance.write_dataset(table, path, mode="append" if number else "create")
    dataset.delete("id IN ('0-0', '0-1', '1-0', '1-1')")
    at = DatasetVersion("t.lance", None, dataset.version)
    assert fragment_groups(Store(parse_location(tmp_path, {})), at, 4) == ((0, 1), (2,))
