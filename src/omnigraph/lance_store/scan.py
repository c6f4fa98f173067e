"""Read rows of one dataset version as Arrow."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from omnigraph.lance_store.blobs import scan_options
from omnigraph.lance_store.storage_errors import storage_errors
from omnigraph.lance_store.store import Dataset


def read_ids(dataset: Dataset) -> list[str]:
    ids: list[str] = read_table(dataset, ["id"]).column("id").to_pylist()
    return ids


def read_table(
    dataset: Dataset, columns: Sequence[str] | None = None, row_filter: str | None = None
) -> pa.Table:
    """All rows, or those that pass a Lance filter."""
    with storage_errors("reading rows"):
        wanted = list(columns) if columns is not None else None
        options = scan_options(dataset)
        return dataset.scanner(columns=wanted, filter=row_filter, **options).to_table()
