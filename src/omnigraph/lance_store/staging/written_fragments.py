"""Rows that are written before their transaction is staged, by this process or by workers.

`write_rows` needs only a `VersionAddress`, so it runs in any process. Its fragments are invisible
until a transaction that names them is committed (`stage_adoption`). Until then they can be read by
their metadata (`written_batches`) or as a detached version (`written_dataset`).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation
from lance.dataset import Transaction
from lance.file import LanceFileReader
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.errors import StorageFailure, WriterFenced
from omnigraph.lance_store.blobs import to_lance_rows
from omnigraph.lance_store.objects.storage_errors import is_gone, storage_errors
from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS, find_rows
from omnigraph.lance_store.staging.stage import ROWS_PER_FILE, StagedWrite, stage_update
from omnigraph.lance_store.store import (
    Dataset,
    DatasetVersion,
    Store,
    VersionAddress,
    lineage_folder,
)
from omnigraph.values.machine_memory import keep_freed_blocks

# Ids for one pass over the id column, which bounds the size of its hash table.
_IDS_PER_PASS = 1_000_000
_ROWS_PER_BATCH = 64 * 1024


def write_rows(target: VersionAddress, rows: pa.Table) -> tuple[str, ...]:
    """Write rows as fragments of a branch, and return their metadata as JSON, in row order.

    `rows` has the columns of the catalog's table schema. No HEAD moves.
    """
    with storage_errors(f"writing rows for {target.uri}"):
        dataset = target.open()
    return write_to(dataset, rows)


def write_to(dataset: Dataset, rows: pa.Table) -> tuple[str, ...]:
    """`write_rows` for a dataset that is open."""
    if rows.num_rows == 0:
        return ()
    with storage_errors("writing rows"):
        fragments = write_fragments(
            to_lance_rows(rows), dataset, mode="append", max_rows_per_file=ROWS_PER_FILE
        )
    return tuple(json.dumps(fragment.to_json()) for fragment in fragments)


def write_stream(dataset: Dataset, tables: Iterable[pa.Table]) -> tuple[str, ...]:
    """`write_to` for many rows. It holds one of the tables, and the pages that Lance fills.

    A thread of Lance asks for the next table. An error of `tables` reaches the caller as it is.
    """
    keep_freed_blocks()
    failed: list[BaseException] = []
    pieces = (to_lance_rows(table) for table in tables if table.num_rows)
    first = next(pieces, None)
    if first is None:
        return ()

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for table in itertools.chain([first], pieces):
                yield from table.to_batches(max_chunksize=_ROWS_PER_BATCH)
        except BaseException as error:
            failed.append(error)
            raise

    reader = pa.RecordBatchReader.from_batches(first.schema, batches())
    try:
        with storage_errors("writing rows"):
            fragments = write_fragments(
                reader, dataset, mode="append", max_rows_per_file=ROWS_PER_FILE
            )
    except Exception:
        if failed:
            raise failed[0] from None
        raise
    return tuple(json.dumps(fragment.to_json()) for fragment in fragments)


def stage_adoption(
    store: Store, at: DatasetVersion, fragments: Sequence[str], gone: list[pa.ChunkedArray]
) -> StagedWrite:
    """Add the fragments and remove the stored rows at the addresses `gone`."""
    return stage_update(store, at, _decode(fragments), gone)


def addresses_of(
    store: Store, at: DatasetVersion, ids: Iterable[pa.Array]
) -> list[pa.ChunkedArray]:
    """Addresses of the stored rows whose ids are given in batches."""
    dataset = store.open(at)
    return [find_rows(dataset, some).column(ROW_ADDRESS) for some in _in_passes(ids)]


def written_batches(
    target: VersionAddress, fragment: str, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Columns that are no blobs, of one fragment that `write_rows` returned, in row order."""
    options = dict(target.storage_options) or None
    names = list(columns)
    with _own_files(f"reading rows written for {target.uri}"):
        for file in json.loads(fragment)["files"]:
            path = f"{target.uri}/data/{file['path']}"
            reader = LanceFileReader(path, storage_options=options, columns=names)
            for batch in reader.read_all(batch_size=_ROWS_PER_BATCH).to_batches():
                yield pa.Table.from_batches([batch]).select(names)


def remove_rows(store: Store, location: str, branch: str | None, fragments: Iterable[str]) -> None:
    """Remove the files of rows that were written for a branch, and that no version will name."""
    folder = lineage_folder(location, branch)
    files = [
        f"{folder}/data/{file['path']}" for text in fragments for file in json.loads(text)["files"]
    ]
    # Large blobs of a file are in a folder of its name.
    blobs = [blob.path for file in files for blob in store.files.walk(file.removesuffix(".lance"))]
    store.files.delete_many([*files, *blobs])


@contextmanager
def written_dataset(
    store: Store, at: DatasetVersion, fragments: Sequence[str]
) -> Iterator[Dataset]:
    """A dataset of exactly these fragments: a detached version, which no other process finds."""
    dataset = store.open(at)
    rows = LanceOperation.Overwrite(dataset.lance_schema, _decode(fragments))
    transaction = Transaction(at.version, rows)
    with _own_files(f"reading rows written for {at.location}"):
        detached = lance.LanceDataset.commit(dataset, transaction, detached=True)
    try:
        yield detached
    finally:
        store.forget_detached(at, detached.version, transaction.uuid)


def _decode(fragments: Sequence[str]) -> list[Any]:
    return [FragmentMetadata.from_json(text) for text in fragments]


def _in_passes(batches: Iterable[pa.Array]) -> Iterable[pa.Array]:
    waiting: list[pa.Array] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= _IDS_PER_PASS:
            yield pc.unique(pa.chunked_array(waiting))
            waiting = []
    if waiting:
        yield pc.unique(pa.chunked_array(waiting))


@contextmanager
def _own_files(action: str) -> Iterator[None]:
    try:
        with storage_errors(action):
            yield
    except StorageFailure as failure:
        if not is_gone(failure):
            raise
        raise WriterFenced(
            "rows of this write are not in storage any more: the write took longer than cleanup's "
            "minimum age, and cleanup removed them. Repeat it with GraphWriter or load, which hold "
            "cleanup off",
            action=action,
        ) from failure
