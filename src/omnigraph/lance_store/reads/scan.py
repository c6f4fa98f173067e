"""Read rows of one dataset version as Arrow: all of them, or some fragments in a worker process.

The number, the size and the width of stored rows come from metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.lance_store.blobs import scan_options
from omnigraph.lance_store.objects.storage_errors import snapshot_errors, storage_errors
from omnigraph.lance_store.reads.filters import lance_filter
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store, VersionAddress
from omnigraph.values.conditions import Condition

_ROWS_PER_BATCH = 16 * 1024
# A guess, because the metadata of a fragment does not count the bytes of blobs.
_BLOB = 64 * 1024
_VALUE = 16


def read_table(
    dataset: Dataset, columns: Sequence[str] | None = None, conditions: Sequence[Condition] = ()
) -> pa.Table:
    """All rows, or those for which every condition is true."""
    with snapshot_errors("reading rows"):
        wanted = list(columns) if columns is not None else None
        options = scan_options(dataset)
        return dataset.scanner(
            columns=wanted, filter=lance_filter(conditions), **options
        ).to_table()


def read_batches(
    dataset: Dataset,
    columns: Sequence[str],
    conditions: Sequence[Condition] = (),
    *,
    located: bool = False,
    batch_rows: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of `read_table` a batch at a time; `located` adds their `_rowid` and `_rowaddr`."""
    with snapshot_errors("reading rows"):
        scan = dataset.scanner(
            columns=list(columns),
            filter=lance_filter(conditions),
            batch_size=batch_rows,
            with_row_id=located,
            with_row_address=located,
            **scan_options(dataset),
        )
        yield from scan.to_batches()


def read_ids(dataset: Dataset) -> list[str]:
    ids: list[str] = read_table(dataset, ["id"]).column("id").to_pylist()
    return ids


def id_batches(dataset: Dataset) -> Iterator[pa.Array]:
    """Every id of the dataset, a batch at a time."""
    with snapshot_errors("reading ids"):
        for batch in dataset.scanner(columns=["id"]).to_batches():
            yield batch.column("id")


def read_row_addresses(dataset: Dataset) -> npt.NDArray[np.uint64]:
    """The address of every row in the order of `read_table`, from metadata and thus cheap."""
    with snapshot_errors("reading row addresses"):
        table = dataset.scanner(columns=[], with_row_address=True).to_table()
    addresses: npt.NDArray[np.uint64] = table.column("_rowaddr").to_numpy()
    return addresses


def read_row_ids(dataset: Dataset) -> pa.Table:
    """`_rowid` and `_rowaddr` of every row, from metadata, too."""
    with snapshot_errors("reading row ids"):
        return dataset.scanner(columns=[], with_row_id=True, with_row_address=True).to_table()


ROWS_PER_TASK = 1024 * 1024
"""How many rows a task reads, unless a single fragment has more."""

FragmentGroups = tuple[tuple[int, ...], ...]
"""Ids of fragments; each group is for one task."""


def fragment_groups(
    store: Store, at: DatasetVersion, rows_per_group: int = ROWS_PER_TASK
) -> FragmentGroups:
    """Neighbouring fragments in groups of at most so many rows; a larger fragment is alone."""
    with snapshot_errors(f"listing fragments of {at.location}"):
        fragments = store.open(at).get_fragments()
        counted = sorted((f.fragment_id, f.count_rows()) for f in fragments)
    groups: list[list[int]] = []
    held = 0
    for fragment_id, rows in counted:
        if not groups or held + rows > rows_per_group:
            groups.append([])
            held = 0
        groups[-1].append(fragment_id)
        held += rows
    return tuple(map(tuple, groups))


def read_fragments(
    target: VersionAddress,
    fragments: Sequence[int],
    columns: Sequence[str],
    conditions: Sequence[Condition] = (),
) -> Iterator[pa.Table]:
    """Live rows of these fragments that meet the conditions, blobs as bytes, a batch at a time."""
    with snapshot_errors(f"reading {target.uri}"):
        dataset = target.open()
        scanner = dataset.scanner(
            columns=list(columns),
            filter=lance_filter(conditions),
            fragments=[dataset.get_fragment(number) for number in fragments],
            batch_size=_ROWS_PER_BATCH,
            **scan_options(dataset),
        )
        for batch in scanner.to_batches():
            yield pa.Table.from_batches([batch])


@dataclass(frozen=True, slots=True)
class TableShape:
    """How a version is laid out. `deleted_rows` are still stored; `stored_bytes` is a guess."""

    fragments: int
    small_fragments: int
    deleted_rows: int
    stored_rows: int
    stored_bytes: int


def table_shape(dataset: Dataset, small: int) -> TableShape:
    """Fragments below `small` rows count as small."""
    with storage_errors("reading fragments"):
        found = dataset.get_fragments()
        stored = sum(f.physical_rows for f in found)
        return TableShape(
            fragments=len(found),
            small_fragments=sum(f.physical_rows < small for f in found),
            deleted_rows=sum(f.num_deletions for f in found),
            stored_rows=stored,
            stored_bytes=stored * bytes_per_row(dataset),
        )


def bytes_per_row(dataset: Dataset) -> int:
    """A guess at the memory of a row, good enough to bound memory.

    It is the larger of the bytes on disk and the width of the types.
    """
    with snapshot_errors("reading fragment metadata"):
        fragment_ids = dataset.fragment_ids()
        sampled = {min(fragment_ids), max(fragment_ids)} if len(fragment_ids) else set()
        stored = [_stored(dataset.get_fragment(number).metadata) for number in sampled]
    declared = sum(_declared(field.type) for field in dataset.schema)
    return max(declared, *stored, 0)


def _stored(fragment: Any) -> int:
    size = sum(int(file.file_size_bytes or 0) for file in fragment.files)
    return size // max(int(fragment.physical_rows), 1)


def _declared(kind: pa.DataType) -> int:
    if isinstance(kind, pa.ExtensionType):
        return _BLOB
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * 4
    return _VALUE
