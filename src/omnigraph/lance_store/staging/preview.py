"""A dataset as it would be after an edit: readable, and invisible to everybody else."""

from __future__ import annotations

from lance import LanceDataset

from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.staging.stage import RowEdit, stage_edit
from omnigraph.lance_store.store import DatasetVersion, Store


def preview_edit(store: Store, at: DatasetVersion, edit: RowEdit) -> DatasetVersion:
    """A detached version with the edit applied; HEAD does not move. `drop_preview` removes it."""
    staged = stage_edit(store, at, edit)
    with storage_errors(f"previewing {at.location}"):
        handle = LanceDataset.commit(store.open(at), staged.transaction, detached=True)
    preview = DatasetVersion(at.location, at.branch, int(handle.version))
    store.remember(preview, handle)
    return preview


def drop_preview(store: Store, preview: DatasetVersion) -> None:
    store.forget(preview)
    store.forget_detached(preview, preview.version)
