"""Read rows of one dataset version as Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.lance_store.blobs import scan_options
from omnigraph.lance_store.objects.storage_errors import snapshot_errors
from omnigraph.lance_store.store import Dataset


def read_ids(dataset: Dataset) -> list[str]:
    ids: list[str] = read_table(dataset, ["id"]).column("id").to_pylist()
    return ids


def id_batches(dataset: Dataset) -> Iterator[pa.Array]:
    """Every id of the dataset, a batch at a time."""
    with snapshot_errors("reading ids"):
        for batch in dataset.scanner(columns=["id"]).to_batches():
            yield batch.column("id")


def read_row_addresses(dataset: Dataset) -> npt.NDArray[np.uint64]:
    """Address of every row in the order of `read_table`; metadata only, so nearly free."""
    with snapshot_errors("reading row addresses"):
        table = dataset.scanner(columns=[], with_row_address=True).to_table()
    addresses: npt.NDArray[np.uint64] = table.column("_rowaddr").to_numpy()
    return addresses


def read_table(
    dataset: Dataset, columns: Sequence[str] | None = None, row_filter: str | None = None
) -> pa.Table:
    """All rows, or those that pass a Lance filter."""
    with snapshot_errors("reading rows"):
        wanted = list(columns) if columns is not None else None
        options = scan_options(dataset)
        return dataset.scanner(columns=wanted, filter=row_filter, **options).to_table()


def read_batches(
    dataset: Dataset,
    columns: Sequence[str],
    row_filter: str | None = None,
    *,
    located: bool = False,
    batch_rows: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of `read_table` a batch at a time; `located` adds their `_rowid` and `_rowaddr`."""
    with snapshot_errors("reading rows"):
        scan = dataset.scanner(
            columns=list(columns),
            filter=row_filter,
            batch_size=batch_rows,
            with_row_id=located,
            with_row_address=located,
            **scan_options(dataset),
        )
        yield from scan.to_batches()
