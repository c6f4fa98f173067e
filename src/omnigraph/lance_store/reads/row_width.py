"""How wide the rows of a dataset are, from its metadata: a guess good enough to bound memory."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from omnigraph.lance_store.objects.storage_errors import snapshot_errors
from omnigraph.lance_store.store import Dataset

# Bytes of one blob are in no file that the metadata of a fragment measures.
_BLOB = 64 * 1024
_VALUE = 16


def bytes_per_row(dataset: Dataset) -> int:
    """What a row takes in memory: what it takes on disk, or by its types if that is more."""
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
