"""Deletion files: the rows of a fragment that a version does not show.

Lance deletes rows of a fragment by reading the fragment's deletion file and writing a larger one,
which takes several times as long as the write. Here the rows of deletion files are kept in memory,
because a deletion file never changes, and the new one is written as a roaring bitmap, which Lance
reads faster than its list of numbers.

`tests/lance_store/staging/test_deletion_files.py` pins what this module takes from the format of
Lance.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.fragment import DeletionFile, FragmentMetadata

from omnigraph.lance_store.reads.row_lookup import distinct_sorted
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store, lineage_folder
from omnigraph.values.bounded_cache import BoundedCache

Offsets = npt.NDArray[np.uint64]
"""Positions of rows in a fragment, ascending and distinct."""

# A roaring bitmap: how many containers, what each of them holds, where it begins, the containers.
_NO_RUNS = 12346
_HEAD = struct.Struct("<II")
_HEAD_OF_ONE = struct.Struct("<IIHHI")
_CONTAINER_ROWS = 65_536
_LISTED = 4096
"""A container of more rows has a bit for each row, otherwise a list."""

_FILES = 16_384
_CACHE_BYTES = 64 * 1024**2
_rows: BoundedCache[str, Offsets] = BoundedCache(_FILES, _CACHE_BYTES)
"""The rows of deletion files, by address. Their names are random, so none is used again."""


def delete_rows(
    store: Store, at: DatasetVersion, gone: Iterable[tuple[int, Offsets]]
) -> tuple[list[FragmentMetadata], list[int]]:
    """(fragments with a new deletion file, ids of fragments left without a row).

    `gone` has the rows by fragment. HEAD does not move.
    """
    dataset = store.open(at)
    folder = lineage_folder(at.location, at.branch)
    touched: list[FragmentMetadata] = []
    emptied: list[int] = []
    files: dict[str, bytes] = {}
    for fragment_id, offsets in gone:
        fragment = dataset.get_fragment(fragment_id).metadata
        earlier = _deleted_rows(store, folder, fragment)
        if earlier is None:
            found = _deleted_by_lance(dataset, fragment_id, offsets)
            touched += [] if found is None else [found]
            emptied += [fragment_id] if found is None else []
            continue
        rows = distinct_sorted(np.concatenate((earlier, offsets))) if len(earlier) else offsets
        if len(rows) == fragment.physical_rows:
            emptied.append(fragment_id)
            continue
        deletion = DeletionFile(at.version, secrets.randbits(62), "bitmap", len(rows), None)
        path = f"{folder}/{deletion.path(fragment_id)}"
        files[path] = bitmap_of(rows)
        _remember(store, path, rows)
        touched.append(replace(fragment, deletion_file=deletion))
    store.files.put_many(files)
    return touched, emptied


def bitmap_of(offsets: Offsets) -> bytes:
    """The content of a deletion file that names these rows, of which there is at least one."""
    if len(offsets) <= _LISTED and offsets[-1] < _CONTAINER_ROWS:  # most files; saves 10 us
        head = _HEAD_OF_ONE.pack(_NO_RUNS, 1, 0, len(offsets) - 1, _HEAD_OF_ONE.size)
        return head + offsets.astype("<u2").tobytes()
    numbers = (offsets // _CONTAINER_ROWS).astype(np.int64)
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    low = (offsets % _CONTAINER_ROWS).astype("<u2")
    bodies = [_container(low[a:b]) for a, b in pairwise([*starts.tolist(), len(low)])]
    sizes = np.diff(np.append(starts, len(low)))
    described = np.column_stack((numbers[starts], sizes - 1)).astype("<u2").tobytes()
    position = _HEAD.size + 8 * len(bodies)
    positions = []
    for body in bodies:
        positions.append(position)
        position += len(body)
    head = _HEAD.pack(_NO_RUNS, len(bodies)) + described
    return b"".join((head, np.array(positions, "<u4").tobytes(), *bodies))


def rows_of_bitmap(data: bytes) -> Offsets | None:
    """The rows that a deletion file names; None for a form that `bitmap_of` does not write."""
    form, count = _HEAD.unpack_from(data)
    if form != _NO_RUNS:
        return None
    described = np.frombuffer(data, "<u2", 2 * count, _HEAD.size).reshape(count, 2)
    position = _HEAD.size + 8 * count
    parts = [np.empty(0, np.uint64)]
    for number, last in described.tolist():
        size = last + 1
        if size > _LISTED:
            bits = np.frombuffer(data, np.uint8, _CONTAINER_ROWS // 8, position)
            low = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
            position += len(bits)
        else:
            low = np.frombuffer(data, "<u2", size, position)
            position += 2 * size
        parts.append(low.astype(np.uint64) + np.uint64(number * _CONTAINER_ROWS))
    return np.concatenate(parts)


def _container(low: npt.NDArray[np.uint16]) -> bytes:
    if len(low) <= _LISTED:
        return low.tobytes()
    bits = np.zeros(_CONTAINER_ROWS, np.uint8)
    bits[low] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def _deleted_rows(store: Store, folder: str, fragment: FragmentMetadata) -> Offsets | None:
    """The deleted rows of a fragment; None when only Lance can tell."""
    deletion = fragment.deletion_file
    if deletion is None:
        return np.empty(0, np.uint64)
    if deletion.base_id is not None:
        return None  # the file is in another lineage
    path = f"{folder}/{deletion.path(fragment.id)}"
    known = _rows.get(_address(store, path))
    if known is not None:
        return known
    rows = _read(store, path, deletion)
    if rows is None or len(rows) != deletion.num_deleted_rows:
        return None
    _remember(store, path, rows)
    return rows


def _read(store: Store, path: str, deletion: Any) -> Offsets | None:
    data = store.files.get(path)
    if data is None:
        return None
    if deletion.file_type == "bitmap":
        return rows_of_bitmap(data)
    listed = pa.ipc.open_file(pa.py_buffer(data)).read_all().column(0)
    return distinct_sorted(listed.to_numpy().astype(np.uint64))


def _deleted_by_lance(
    dataset: Dataset, fragment_id: int, offsets: Offsets
) -> FragmentMetadata | None:
    """The fragment with a new deletion file; None when no row is left."""
    fragment = dataset.get_fragment(fragment_id)
    is_emptied = len(offsets) == fragment.count_rows()
    return None if is_emptied else fragment.delete_rows(offsets.tolist())


def _remember(store: Store, path: str, rows: Offsets) -> None:
    _rows.put(_address(store, path), rows, rows.nbytes)


def _address(store: Store, path: str) -> str:
    return store.location.child(path)
