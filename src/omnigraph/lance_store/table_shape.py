"""How one dataset version is laid out."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.lance_store.storage_errors import storage_errors
from omnigraph.lance_store.store import Dataset


@dataclass(frozen=True, slots=True)
class TableShape:
    """Fragments, and the rows in them that are deleted but still stored; bytes of data files."""

    fragments: int
    small_fragments: int
    deleted_rows: int
    stored_rows: int
    stored_bytes: int


def table_shape(dataset: Dataset, small: int) -> TableShape:
    """Fragments below `small` rows count as small."""
    with storage_errors("reading fragments"):
        found = dataset.get_fragments()
        files = [file for fragment in found for file in fragment.data_files()]
        return TableShape(
            fragments=len(found),
            small_fragments=sum(f.physical_rows < small for f in found),
            deleted_rows=sum(f.num_deletions for f in found),
            stored_rows=sum(f.physical_rows for f in found),
            stored_bytes=sum(file.file_size_bytes or 0 for file in files),
        )
