"""Rows that are on disk before the transaction: written anywhere, adopted by the one write path.

`write_rows` needs nothing but a `WriteTarget`, so it runs in a worker process as well as here. Its
fragments are invisible until a staged transaction that names them is committed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation
from lance.file import LanceFileReader
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.errors import StorageFailure, WriterFenced
from omnigraph.lance_store.blobs import to_lance_rows
from omnigraph.lance_store.objects.storage_errors import is_gone, storage_errors
from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS, find_rows
from omnigraph.lance_store.staging.stage import ROWS_PER_FILE, StagedWrite, stage_update
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store

# One pass over the id column per so many ids: bounds the hash table, not the number of ids.
_IDS_PER_PASS = 1_000_000


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """Where a worker writes rows for: one physical branch of one dataset. Pickles."""

    uri: str
    version: int
    storage_options: Mapping[str, str] = field(default_factory=dict)


def write_target(store: Store, at: DatasetVersion) -> WriteTarget:
    uri = store.dataset_uri(at.location, at.branch)
    return WriteTarget(uri, at.version, dict(store.location.options))


def write_rows(target: WriteTarget, rows: pa.Table) -> tuple[str, ...]:
    """Write rows as fragments of the target's branch; their metadata as JSON, in row order.

    `rows` has the columns of the catalog's table schema. No HEAD moves, nothing becomes visible.
    """
    options = dict(target.storage_options) or None
    with storage_errors(f"writing rows for {target.uri}"):
        dataset = lance.dataset(target.uri, version=target.version, storage_options=options)
    return write_to(dataset, rows)


def write_to(dataset: Dataset, rows: pa.Table) -> tuple[str, ...]:
    """`write_rows` for whoever has the dataset open."""
    if rows.num_rows == 0:
        return ()
    with storage_errors("writing rows"):
        fragments = write_fragments(
            to_lance_rows(rows), dataset, mode="append", max_rows_per_file=ROWS_PER_FILE
        )
    return tuple(json.dumps(fragment.to_json()) for fragment in fragments)


def stage_adoption(
    store: Store, at: DatasetVersion, fragments: Sequence[str], gone: Iterable[pa.Array]
) -> StagedWrite:
    """Add the fragments and remove the stored rows whose ids come in `gone`, in batches."""
    dataset = store.open(at)
    addresses = [_addresses(dataset, ids) for ids in _in_passes(gone)]
    return stage_update(store, at, _decode(fragments), addresses)


def _decode(fragments: Sequence[str]) -> list[Any]:
    return [FragmentMetadata.from_json(text) for text in fragments]


def _addresses(dataset: Dataset, ids: pa.Array) -> pa.ChunkedArray:
    return find_rows(dataset, ids).column(ROW_ADDRESS)


def _in_passes(batches: Iterable[pa.Array]) -> Iterable[pa.Array]:
    waiting: list[pa.Array] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= _IDS_PER_PASS:
            yield pc.unique(pa.chunked_array(waiting))
            waiting = []
    if waiting:
        yield pc.unique(pa.chunked_array(waiting))


_ROWS_PER_BATCH = 64 * 1024


def written_columns(target: WriteTarget, fragment: str, columns: Sequence[str]) -> pa.Table:
    """A few columns of a fragment that `write_rows` returned, in row order; none a blob."""
    options = dict(target.storage_options) or None
    tables = []
    with _own_files(f"reading rows written for {target.uri}"):
        for file in json.loads(fragment)["files"]:
            path = f"{target.uri}/data/{file['path']}"
            reader = LanceFileReader(path, storage_options=options, columns=list(columns))
            tables.append(reader.read_all(batch_size=_ROWS_PER_BATCH).to_table())
    return pa.concat_tables(tables).select(list(columns))


@contextmanager
def written_dataset(
    store: Store, at: DatasetVersion, fragments: Sequence[str]
) -> Iterator[Dataset]:
    """Exactly these fragments as a dataset: a detached version nobody else can find."""
    dataset = store.open(at)
    decoded = [FragmentMetadata.from_json(text) for text in fragments]
    with _own_files(f"reading rows written for {at.location}"):
        detached = lance.LanceDataset.commit(
            dataset,
            LanceOperation.Overwrite(dataset.lance_schema, decoded),
            read_version=at.version,
            detached=True,
        )
    try:
        yield detached
    finally:
        store.forget_detached(at, detached.version)


@contextmanager
def _own_files(action: str) -> Iterator[None]:
    try:
        with storage_errors(action):
            yield
    except StorageFailure as failure:
        if not is_gone(failure):
            raise
        raise WriterFenced(
            "rows of this write are not in storage any more: it took longer than cleanup's minimum "
            "age and cleanup ran meanwhile; repeat it, with GraphWriter or load, which hold "
            "cleanup off",
            action=action,
        ) from failure
