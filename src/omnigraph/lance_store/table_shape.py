"""How one dataset version is laid out."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.lance_store.storage_errors import storage_errors
from omnigraph.lance_store.store import Dataset


@dataclass(frozen=True, slots=True)
class TableShape:
    """Fragments, and the rows in them that are deleted but still stored."""

    fragments: int
    deleted_rows: int


def table_shape(dataset: Dataset) -> TableShape:
    with storage_errors("reading fragments"):
        fragments = dataset.get_fragments()
        return TableShape(len(fragments), sum(f.num_deletions for f in fragments))
