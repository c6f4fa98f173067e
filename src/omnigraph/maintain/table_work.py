"""What takes long in upkeep: rewriting files and building indexes, here or on other machines."""

from __future__ import annotations

from typing import Protocol

from omnigraph.lance_store.staging.compaction import run_compaction
from omnigraph.lance_store.staging.index_builds import build_indexes
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.values.indexes import BuiltIndex, IndexBuild


class TableWork(Protocol):
    """Makes files that belong to nobody yet; what becomes of them is decided by a commit."""

    def compact(self, store: Store, at: DatasetVersion, tasks: tuple[str, ...]) -> tuple[str, ...]:
        """`run_compaction` of each task."""

    def index(
        self, store: Store, at: DatasetVersion, builds: tuple[IndexBuild, ...]
    ) -> tuple[BuiltIndex, ...]:
        """`build_segment` of each build, or of the parts of it."""


class LocalWork:
    """Upkeep in this process."""

    def compact(self, store: Store, at: DatasetVersion, tasks: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(run_compaction(store, at, task) for task in tasks)

    def index(
        self, store: Store, at: DatasetVersion, builds: tuple[IndexBuild, ...]
    ) -> tuple[BuiltIndex, ...]:
        return build_indexes(store, at, builds)


HERE = LocalWork()
