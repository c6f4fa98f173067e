"""How one dataset version is laid out."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.reads.row_width import bytes_per_row
from omnigraph.lance_store.store import Dataset


@dataclass(frozen=True, slots=True)
class TableShape:
    """Fragments, and the rows in them that are deleted but still stored; about how many bytes."""

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
