"""Prepare one Lance transaction for one dataset without moving its HEAD.

Every data write is a hand-built `Update` that names the first fragment even when it does not change
it. Two such updates always conflict, so the later commit fails; otherwise Lance would rebase it
silently. An empty dataset has no fragment to name. There the intents, the fencing restore and the
version check of `advance` protect the commit, and a plain `Append` is used because it is cheaper:
an `Update` looks up every new row in the old ones, which takes 75 ns a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.lance_store.blobs import to_lance_rows
from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.reads.recent_fragments import remember_written
from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS, addresses_by_fragment
from omnigraph.lance_store.staging.deletion_files import delete_rows
from omnigraph.lance_store.store import DatasetVersion, Store

ROWS_PER_FILE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """A transaction that is ready to commit on exactly `at`. Its commit makes `steps` versions."""

    at: DatasetVersion
    transaction: Any
    uuid: str | None
    row_count: int
    steps: int = 1

    @property
    def result_version(self) -> int:
        return self.at.version + self.steps


@dataclass(frozen=True, slots=True)
class RowEdit:
    """The change of the rows of one dataset.

    `written` has the new contents of rewritten rows, and the new rows. `rewritten` and `deleted`
    are the stored rows that are removed, as tables with `_rowaddr`.

    A rewritten row gets a new row id of Lance, because keeping the old one would make Lance go
    through the row ids of the whole table. No code keeps row ids from one version to the next.
    """

    written: pa.Table | None
    rewritten: pa.Table | None
    deleted: pa.Table | None

    @property
    def added(self) -> int:
        """How many rows the dataset has more afterwards; negative when it has fewer."""
        tables = (self.written, self.rewritten, self.deleted)
        new, *gone = (0 if table is None else int(table.num_rows) for table in tables)
        return new - sum(gone)


def stage_edit(store: Store, at: DatasetVersion, edit: RowEdit) -> StagedWrite:
    """Appends, rewrites and deletes of one dataset in one transaction."""
    return stage_written(store, at, write_edit(store, at, edit))


@dataclass(frozen=True, slots=True)
class WrittenEdit:
    """An edit whose new rows are in files. The files fit every version of the lineage."""

    new: tuple[Any, ...]
    gone: tuple[pa.ChunkedArray, ...]
    """Addresses of the rows that go."""


def write_edit(store: Store, at: DatasetVersion, edit: RowEdit) -> WrittenEdit:
    """Write the new rows of an edit. `at` is any version of the lineage with these columns."""
    new: list[Any] = []
    if edit.written is not None:
        rows, dataset = to_lance_rows(edit.written), store.open(at)
        with storage_errors(f"writing rows for {at.location}"):
            new = write_fragments(rows, dataset, mode="append", max_rows_per_file=ROWS_PER_FILE)
        remember_written(new, edit.written)
    gone = [t.column(ROW_ADDRESS) for t in (edit.rewritten, edit.deleted) if t is not None]
    return WrittenEdit(tuple(new), tuple(gone))


def stage_written(store: Store, at: DatasetVersion, written: WrittenEdit) -> StagedWrite:
    """The transaction of a written edit, on the version in which its rows were addressed."""
    return stage_update(store, at, list(written.new), list(written.gone))


def stage_update(
    store: Store,
    at: DatasetVersion,
    new: list[Any],
    gone: list[pa.ChunkedArray],
    replaced: int | None = None,
) -> StagedWrite:
    """New fragments and deleted row addresses of one dataset as one strict transaction.

    `replaced` is the id of a fragment whose rows the new ones hold again.
    """
    dataset = store.open(at)
    removed = sum(len(column) for column in gone)
    with storage_errors(f"staging {at.location}"):
        touched, emptied = _delete_addresses(store, at, gone)
        if replaced is not None:
            emptied.append(replaced)
            removed += dataset.get_fragment(replaced).count_rows()
        first = store.first_fragment(at)
        if first is not None and first.id not in {*emptied, *(f.id for f in touched)}:
            # Unchanged, but every writer of this version names it, so any two of them conflict.
            touched.append(first)
        operation: LanceOperation.BaseOperation = LanceOperation.Update(
            removed_fragment_ids=emptied,
            updated_fragments=touched,
            new_fragments=new,
            fields_modified=[],
            fields_for_preserving_frag_bitmap=[f.id() for f in dataset.lance_schema.fields()],
            update_mode="rewrite_rows",
        )
        if first is None and new:
            operation = LanceOperation.Append(new)
    transaction = Transaction(at.version, operation)
    added = sum(fragment.physical_rows - fragment.num_deletions for fragment in new)
    return StagedWrite(at, transaction, transaction.uuid, dataset.count_rows() + added - removed)


def stage_overwrite(store: Store, at: DatasetVersion, rows: pa.Table) -> StagedWrite:
    """Replace all rows, which drops the indexes. Lance never rebases an Overwrite."""
    dataset = store.open(at)
    with storage_errors(f"writing rows for {at.location}"):
        transaction = write_fragments(
            to_lance_rows(rows), dataset, mode="overwrite", return_transaction=True
        )
    return StagedWrite(at, transaction, transaction.uuid, rows.num_rows)


def preview_edit(store: Store, at: DatasetVersion, edit: RowEdit) -> DatasetVersion:
    """A detached version with the edit applied, which no other process finds.

    HEAD does not move. `drop_preview` removes the version.
    """
    staged = stage_edit(store, at, edit)
    with storage_errors(f"previewing {at.location}"):
        handle = LanceDataset.commit(store.open(at), staged.transaction, detached=True)
    preview = DatasetVersion(at.location, at.branch, int(handle.version))
    store.remember(preview, handle)
    return preview


def drop_preview(store: Store, preview: DatasetVersion) -> None:
    store.forget(preview)
    store.forget_detached(preview, preview.version)


def _delete_addresses(
    store: Store, at: DatasetVersion, columns: list[Any]
) -> tuple[list[FragmentMetadata], list[int]]:
    """(fragments with a new deletion file, ids of fragments left without a row)."""
    if not columns:
        return [], []
    addresses = pa.chunked_array(
        [chunk for column in columns for chunk in column.chunks], type=pa.uint64()
    )
    return delete_rows(store, at, addresses_by_fragment(addresses))
