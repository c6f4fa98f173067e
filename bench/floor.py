"""The least that a one-row graph commit can cost: raw Lance, no graph."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
from lance import LanceDataset
from lance.fragment import write_fragments


class LanceFloor:
    """Stage + commit of one row to one dataset, plus a strict one-row manifest commit."""

    def __init__(self, folder: Path) -> None:
        self._table = lance.write_dataset(
            _row("seed"), folder / "table", enable_stable_row_ids=True, data_storage_version="2.2"
        )
        self._manifest = lance.write_dataset(_row("0"), folder / "manifest")

    def commit(self, entity_id: str) -> None:
        self._table = _commit(self._table, entity_id, "append")
        self._manifest = _commit(self._manifest, entity_id, "overwrite")


def _commit(dataset: LanceDataset, entity_id: str, mode: str) -> LanceDataset:
    staged = write_fragments(_row(entity_id), dataset, mode=mode, return_transaction=True)
    return LanceDataset.commit(dataset, staged, max_retries=0)


def _row(entity_id: str) -> pa.Table:
    return pa.table({"id": [entity_id], "text": [entity_id]})
