"""One stored blob: its size, and any range of its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from omnigraph.errors import InvalidArgument
from omnigraph.lance_store.objects.storage_errors import snapshot_errors
from omnigraph.lance_store.reads.row_lookup import ROW_ID, find_rows
from omnigraph.lance_store.store import Dataset
from omnigraph.values.external_blobs import LONGEST_CELL, external_uri


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A blob of one snapshot. Its bytes are read only by `read`."""

    uri: ClassVar[None] = None
    """The blob is in the graph; an `ExternalBlob` has an address here."""
    size: int
    _dataset: Dataset
    _column: str
    _row_id: int
    graph_commit_id: str = ""
    """The commit of the snapshot."""
    content_tag: str = ""
    """The same text only for the same bytes: it changes with every write to the table."""

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """All bytes, or at most `length` of them from `offset`."""
        wanted = wanted_bytes(self.size, offset, length)
        if not wanted:
            return b""
        with snapshot_errors("reading a blob"):
            file = _open(self._dataset, self._column, self._row_id)
            try:
                file.seek(offset)
                return bytes(file.read(wanted))
            finally:
                file.close()

    def to_dict(self) -> dict[str, Any]:
        return {"size": self.size}


def wanted_bytes(size: int, offset: int, length: int | None) -> int:
    """The number of bytes to read; 0 behind the end."""
    if offset < 0 or (length is not None and length < 0):
        raise InvalidArgument("a range begins at 0 or later, and its length is not negative")
    return max(0, size - offset if length is None else min(length, size - offset))


def find_blob(dataset: Dataset, identity: str, column: str) -> StoredBlob | str | None:
    """The blob, or the URI of an external one. None when there is no row, or the blob is NULL."""
    rows = find_rows(dataset, pa.array([identity], pa.string()))
    if rows.num_rows == 0:
        return None
    row_id = rows.column(ROW_ID)[0].as_py()
    with snapshot_errors("reading a blob"):
        file = _open(dataset, column, row_id)
        if file is None:
            return None
        size = int(file.size())
        # A longer blob is no external one, so none of its bytes are read.
        uri = external_uri(bytes(file.read())) if size <= LONGEST_CELL else None
        file.close()
    return StoredBlob(size, dataset, column, row_id) if uri is None else uri


def _open(dataset: Dataset, column: str, row_id: int) -> Any:
    files = dataset.take_blobs(column, ids=[row_id])
    return files[0] if files else None
