"""Read back rows that are on disk and in no version yet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import lance
import pyarrow as pa
from lance import LanceOperation
from lance.file import LanceFileReader
from lance.fragment import FragmentMetadata

from omnigraph.errors import StorageFailure, WriterFenced
from omnigraph.lance_store.objects.storage_errors import is_gone, storage_errors
from omnigraph.lance_store.staging.stage_fragments import WriteTarget
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store

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
