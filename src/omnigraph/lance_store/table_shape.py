"""How one dataset version is laid out."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.lance_store.storage_errors import storage_errors
from omnigraph.lance_store.store import Dataset


@dataclass(frozen=True, slots=True)
class TableShape:
    """Fragments, and the rows in them that are deleted but still stored."""

    fragments: int
    small_fragments: int
    deleted_rows: int
    stored_rows: int


def table_shape(dataset: Dataset, small: int) -> TableShape:
    """Fragments below `small` rows count as small."""
    with storage_errors("reading fragments"):
        found = [(f.physical_rows, f.num_deletions) for f in dataset.get_fragments()]
    return TableShape(
        fragments=len(found),
        small_fragments=sum(rows < small for rows, _ in found),
        deleted_rows=sum(deleted for _, deleted in found),
        stored_rows=sum(rows for rows, _ in found),
    )
