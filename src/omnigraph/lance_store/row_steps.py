"""Several versions of a dataset, one for each of several appends, that share one data file.

The appended rows are one fragment. Lance commits the first version, in which a deletion file hides
the rows of the later appends. Each further version is the same manifest with its own number and a
deletion file that hides fewer rows; the last version hides none. So a version costs two small files
instead of a data file, a transaction and a commit.

A version is put only if its number is free and after the version below it, so a writer that was
stopped, and whose table was restored meanwhile, cannot add one. All these versions name the
transaction of the first one, so every writer that conflicts with that one conflicts with them.

`tests/lance_store/test_row_steps.py` pins what this module takes from the format of Lance.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from lance.fragment import DeletionFile

from omnigraph.errors import StorageFailure
from omnigraph.lance_store.advance import HeadMoved, advance
from omnigraph.lance_store.dataset_files import version_file
from omnigraph.lance_store.objects.manifest_files import ManifestFile, read_manifest
from omnigraph.lance_store.objects.protobuf import (
    fields,
    length_delimited,
    number_field,
    number_in,
)
from omnigraph.lance_store.reads.recent_fragments import remember_successor
from omnigraph.lance_store.staging.deletion_files import bitmap_of
from omnigraph.lance_store.staging.stage import RowEdit, stage_update, write_edit
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store, lineage_folder

MOST_ROWS = 4096
"""Each version has a deletion file of its own, so a fragment of more rows would need much space."""

# Numbers of fields in messages of Lance.
_FRAGMENT, _VERSION, _MAX_FRAGMENT_ID = 2, 3, 11
_ID, _DELETION_FILE = 1, 3
_DELETION_ID, _DELETED_ROWS = 3, 4


@dataclass(frozen=True, slots=True)
class RowSteps:
    """Rows of one new fragment, and how many of them each version shows, first to last."""

    rows: pa.Table
    shown: Sequence[int]
    replaced: int | None = None
    """A fragment whose rows come first in `rows`, and which goes with the first version."""


@dataclass(frozen=True, slots=True)
class StepTaken:
    """The version that shows the rows of one more step. `fragment` holds them."""

    at: DatasetVersion
    fragment: int


def advance_in_steps(
    store: Store, at: DatasetVersion, steps: RowSteps
) -> Iterator[StepTaken | HeadMoved]:
    """Make the versions one by one, as strictly as `advance` does.

    The data file is written at once. The caller gives up by not asking for the next version.
    """
    hidden = _HiddenRows(_next_fragment(store.open(at)), at.version, secrets.randbits(62), steps)
    (new,) = write_edit(store, at, RowEdit(steps.rows, None, None)).new
    store.files.put_many(hidden.files(lineage_folder(at.location, at.branch)))
    new = replace(new, deletion_file=hidden.in_first_version())
    first = advance(store, stage_update(store, at, [new], [], steps.replaced))
    if isinstance(first, HeadMoved):
        yield first
        return
    fragment = store.open(first).get_fragment(hidden.fragment)
    if fragment is None or fragment.count_rows() != steps.shown[0]:
        raise StorageFailure(f"Lance gave the new rows of {first} another fragment than expected")
    yield StepTaken(first, hidden.fragment)
    if len(steps.shown) > 1:
        yield from _further_steps(store, first, hidden)


def _further_steps(
    store: Store, first: DatasetVersion, hidden: _HiddenRows
) -> Iterator[StepTaken | HeadMoved]:
    manifest = _SteppedManifest.read(store, first, hidden.fragment)
    last = first
    for step in range(1, len(hidden.steps.shown)):
        following = replace(first, version=first.version + step)
        data = manifest.of_version(following.version, hidden.stored_id(step), hidden.count(step))
        if not store.files.put(version_file(following), data, synced=False):
            yield HeadMoved(last, following.version, landed_on_top=False)
            return
        last = following
        yield StepTaken(last, hidden.fragment)
    handle = store.open(last)
    store.remember_successor(first, last, handle)
    remember_successor(store.open(first), handle)


def _next_fragment(dataset: Dataset) -> int:
    """The id that Lance gives to the next new fragment."""
    message = dataset._ds.serialized_manifest()  # noqa: SLF001 - the ids of removed ones count, too
    used = (number_in(raw) for number, raw, _ in fields(message) if number == _MAX_FRAGMENT_ID)
    return max(used, default=-1) + 1


@dataclass(frozen=True, slots=True)
class _HiddenRows:
    """The deletion files of the versions that do not show all rows of the fragment."""

    fragment: int
    read_version: int
    first_id: int
    """Random, because a group that died may have left files for the same fragment."""
    steps: RowSteps

    def count(self, step: int) -> int:
        return int(self.steps.rows.num_rows) - self.steps.shown[step]

    def stored_id(self, step: int) -> int:
        return self.first_id + step

    def in_first_version(self) -> DeletionFile | None:
        return self._file(0) if self.count(0) else None

    def files(self, folder: str) -> dict[str, bytes]:
        """Paths and bytes of the files."""
        hiding = [step for step in range(len(self.steps.shown)) if self.count(step)]
        return {
            f"{folder}/{self._file(step).path(self.fragment)}": self._bitmap(step)
            for step in hiding
        }

    def _file(self, step: int) -> DeletionFile:
        return DeletionFile(
            self.read_version, self.stored_id(step), "bitmap", self.count(step), None
        )

    def _bitmap(self, step: int) -> bytes:
        shown, rows = self.steps.shown[step], self.steps.rows.num_rows
        return bitmap_of(np.arange(shown, rows, dtype=np.uint64))


@dataclass(frozen=True, slots=True)
class _SteppedManifest:
    """The manifest of the first version, in parts of which the other versions replace two."""

    file: ManifestFile
    parts: list[bytes]
    """All fields of the message."""
    version: int
    """The position of the number of the version in `parts`."""
    fragment: int
    """The position of the fragment with the new rows."""

    @staticmethod
    def read(store: Store, first: DatasetVersion, fragment_id: int) -> _SteppedManifest:
        path = version_file(first)
        data = store.files.get(path)
        if data is None:
            raise StorageFailure(f"{path} is gone", file=path)
        file = read_manifest(data, path)
        parts, version, fragment = [], -1, -1
        for position, (number, raw, body) in enumerate(fields(file.message)):
            parts.append(raw)
            if number == _VERSION:
                version = position
            elif number == _FRAGMENT and body is not None and _id_of(body) == fragment_id:
                fragment = position
        if version < 0 or fragment < 0:
            raise StorageFailure(f"{path} is no manifest that this release can continue", file=path)
        return _SteppedManifest(file, parts, version, fragment)

    def of_version(self, version: int, deletion_id: int, deleted_rows: int) -> bytes:
        parts = self.parts.copy()
        parts[self.version] = number_field(_VERSION, version)
        parts[self.fragment] = _with_deletions(parts[self.fragment], deletion_id, deleted_rows)
        return self.file.with_message(b"".join(parts))


def _id_of(fragment: bytes) -> int:
    """Fields with the value 0 are not stored."""
    return next((number_in(raw) for number, raw, _ in fields(fragment) if number == _ID), 0)


def _with_deletions(fragment: bytes, deletion_id: int, deleted_rows: int) -> bytes:
    ((_, _, body),) = fields(fragment)
    assert body is not None
    parts = []
    for number, raw, deletion in fields(body):
        if number != _DELETION_FILE or deletion is None:
            parts.append(raw)
        elif deleted_rows:
            changed = {
                _DELETION_ID: number_field(_DELETION_ID, deletion_id),
                _DELETED_ROWS: number_field(_DELETED_ROWS, deleted_rows),
            }
            inner = b"".join(changed.get(number, raw) for number, raw, _ in fields(deletion))
            parts.append(length_delimited(_DELETION_FILE, inner))
    return length_delimited(_FRAGMENT, b"".join(parts))
