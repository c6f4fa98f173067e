"""Remove exactly the versions nobody needs; Lance itself spares HEAD and fork points."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.lance_store.storage_errors import storage_errors
from omnigraph.lance_store.store import Dataset


def remove_versions(dataset: Dataset, versions: Sequence[int]) -> None:
    """Versions that are gone already are fine."""
    with storage_errors("removing old versions"):
        dataset.cleanup_old_versions(versions=list(versions))
