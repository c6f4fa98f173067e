"""The storage of one graph: open datasets at exact versions, and control files."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance

from omnigraph.errors import NotFound, SnapshotReclaimed, StorageFailure
from omnigraph.lance_store.objects.control_files import ControlFiles, open_control_files
from omnigraph.lance_store.objects.relocation import check_base
from omnigraph.lance_store.objects.storage_errors import is_not_found, storage_errors, translate
from omnigraph.lance_store.objects.storage_location import StorageLocation
from omnigraph.values.bounded_cache import BoundedCache
from omnigraph.values.machine_memory import memory_share

Dataset = Any
"""A `lance.LanceDataset` at one version: immutable, shareable between threads."""

_HANDLES = 512
# An open handle holds the list of its fragments; as measured, 0.6 kB for each.
_HANDLE_BYTES = 256 * 1024**2
_EMPTY_HANDLE = 3_000
_FRAGMENT_BYTES = 600
_KNOWN_BASES = 16_384

# One session for the process, because all open graphs share its metadata and index caches. Lance's
# own bounds are 6 GiB and 1 GiB on every machine; here they are a share of the machine's memory.
_SESSION = lance.Session(
    index_cache_size_bytes=memory_share(6, 6 * 1024**3),
    metadata_cache_size_bytes=memory_share(48, 512 * 1024**2),
)


@dataclass(frozen=True, slots=True)
class DatasetVersion:
    """One state of one dataset. Versions are counted by branch, so a version needs its branch."""

    location: str
    branch: str | None
    version: int

    def __str__(self) -> str:
        return f"{self.location}@{self.branch or 'main'}:{self.version}"


@dataclass(frozen=True, slots=True)
class VersionAddress:
    """One dataset at one version, for a worker process that has no `Store`. Pickles."""

    uri: str
    version: int
    storage_options: Mapping[str, str]

    def open(self) -> Dataset:
        options = dict(self.storage_options) or None
        return lance.dataset(self.uri, version=self.version, storage_options=options)


def lineage_folder(location: str, branch: str | None) -> str:
    """The folder of a dataset's main line (`branch` None) or of one of its physical branches."""
    return location if branch is None else f"{location}/tree/{branch}"


class Store:
    """Opens datasets of one graph at exact versions, and keeps the handles that it opened."""

    def __init__(self, location: StorageLocation, *, sync: bool = False) -> None:
        self.location = location
        self.files: ControlFiles = open_control_files(location, sync=sync)
        self.sync = sync and location.is_local
        self._handles: BoundedCache[DatasetVersion, Dataset] = BoundedCache(_HANDLES, _HANDLE_BYTES)
        self._first_fragments: BoundedCache[DatasetVersion, int] = BoundedCache(_HANDLES)
        self._checked: BoundedCache[Hashable, bool] = BoundedCache(_HANDLES)
        self._known_bases: BoundedCache[str, bool] = BoundedCache(_KNOWN_BASES)
        self._expected: dict[DatasetVersion, Callable[[], object]] = {}

    def dataset_uri(self, location: str, branch: str | None) -> str:
        return self.location.child(lineage_folder(location, branch))

    def address(self, at: DatasetVersion) -> VersionAddress:
        uri = self.dataset_uri(at.location, at.branch)
        return VersionAddress(uri, at.version, dict(self.location.options))

    def open(self, at: DatasetVersion) -> Dataset:
        """The dataset at exactly this version."""
        handle = self._handles.get(at)
        wait = self._expected.get(at) if handle is None else None
        if wait is not None:
            wait()
            handle = self._handles.get(at)
        if handle is None:
            handle = self._open(at.location, at.branch, at.version)
            self.remember(at, handle)
        return handle

    def expect(self, at: DatasetVersion, wait: Callable[[], object]) -> None:
        """Another thread is about to commit this version: `open` calls `wait` before it looks."""
        self._expected[at] = wait

    def expect_no_more(self, versions: Iterable[DatasetVersion]) -> None:
        for at in versions:
            self._expected.pop(at, None)

    def open_private(self, at: DatasetVersion) -> Dataset:
        """A separate handle, for the few Lance calls that change the handle itself."""
        return self._open(at.location, at.branch, at.version)

    def open_head(self, location: str, branch: str | None) -> Dataset:
        """The dataset at HEAD. Readers open a version that a snapshot pins instead."""
        return self._open(location, branch, None)

    def remember(self, at: DatasetVersion, handle: Dataset) -> None:
        fragments = handle._ds.count_fragments()  # noqa: SLF001 - `get_fragments` makes objects
        self._handles.put(at, handle, _EMPTY_HANDLE + fragments * _FRAGMENT_BYTES)

    def is_checked(self, what: Hashable) -> bool:
        """Whether a state of a table was compared with its schema already."""
        return self._checked.get(what) is not None

    def remember_checked(self, what: Hashable) -> None:
        self._checked.put(what, True)

    def forget(self, at: DatasetVersion) -> None:
        self._handles.pop(at)
        self._first_fragments.pop(at)

    def release(self) -> None:
        """Let go of all handles."""
        self._handles.clear()
        self._first_fragments.clear()

    def first_fragment(self, at: DatasetVersion) -> Any | None:
        """Metadata of the fragment with the lowest id, kept because listing thousands is slow."""
        dataset = self.open(at)
        known = self._first_fragments.get(at)
        if known is None:
            fragments = dataset.get_fragments()
            if not fragments:
                return None
            known = min(f.fragment_id for f in fragments)
            self._first_fragments.put(at, known)
        return dataset.get_fragment(known).metadata

    def remember_successor(
        self, at: DatasetVersion, after: DatasetVersion, handle: Dataset
    ) -> None:
        """Remember `after`, which one commit made from `at`: its new fragments have higher ids."""
        self.remember(after, handle)
        first = self._first_fragments.get(at)
        if first is not None and handle.get_fragment(first) is not None:
            self._first_fragments.put(after, first)

    def forget_detached(
        self, at: DatasetVersion, version: int, transaction: str | None = None
    ) -> None:
        """Remove the manifest of a detached version, which Lance's cleanup never does.

        `transaction` is the id of the transaction on `at` that made it; its file goes, too.
        """
        folder = lineage_folder(at.location, at.branch)
        self.files.delete(f"{folder}/_versions/d{version}.manifest")
        if transaction is not None:
            self.files.delete(f"{folder}/_transactions/{at.version}-{transaction}.txn")

    def exists(self, location: str, branch: str | None) -> bool:
        try:
            self._open(location, branch, None)
        except NotFound:
            return False
        return True

    def flush_to_disk(self) -> None:
        """With `durability=fsync`, let everything written so far survive a loss of power."""
        if self.sync and self.location.path is not None:
            fd = os.open(self.location.path, os.O_RDONLY)
            try:
                if _syncfs(fd) != 0:
                    raise StorageFailure("storage failed while syncing the file system")
            finally:
                os.close(fd)

    def _open(self, location: str, branch: str | None, version: int | None) -> Dataset:
        uri = self.dataset_uri(location, branch)
        try:
            handle = lance.dataset(
                uri,
                version=version,
                session=_SESSION,
                storage_options=dict(self.location.options) or None,
            )
        except (ValueError, OSError) as error:
            if not is_not_found(error):
                raise translate(error, f"opening {location}") from error
            at = f"{location}@{branch or 'main'}"
            if version is None:
                raise NotFound(f"dataset {at} is missing from storage", dataset=at) from error
            raise SnapshotReclaimed(
                f"version {version} of dataset {at} is not in storage any more: "
                "cleanup removed it, or files were deleted from outside",
                dataset=at,
                version=version,
            ) from error
        if branch is not None:
            self._check_bases(location, handle)
        return handle

    def _check_bases(self, location: str, handle: Dataset) -> None:
        """Refuse a branch that names files of the place from which the graph was moved."""
        for base in handle.base_paths().values():
            address = str(base.path)
            if address not in self._known_bases:
                check_base(self.location, location, address)
                self._known_bases.put(address, True)


def head_version(handle: Dataset) -> int:
    """HEAD of the dataset and branch that this handle belongs to."""
    try:
        with storage_errors("reading the latest version"):
            return int(handle.latest_version)
    except StorageFailure as failure:
        if not is_not_found(failure):
            raise
        # The branch was deleted and cleaned up, or its files were removed from outside.
        raise NotFound(f"dataset {handle.uri} is missing from storage", dataset=handle.uri) from (
            failure
        )


def _syncfs(fd: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "syncfs"):
        return int(libc.syncfs(fd))
    os.sync()
    return 0


# Longer than a tick of any file system's clock.
_STILL_NANOSECONDS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class FolderMark:
    """A folder and the time of its last change."""

    inode: int
    changed: int


class VersionFolder:
    """Tells with one `stat` that a dataset on local disk has not moved.

    Every commit puts a file into the `_versions` folder, which changes the folder's time. A file
    system counts time in ticks, so a folder that changed a moment ago may change again within the
    same tick. A mark is therefore made only after the folder has been still for a while.
    """

    def __init__(self, root: Path, location: str, branch: str | None) -> None:
        self._path = f"{root}/{lineage_folder(location, branch)}/_versions"

    def mark(self) -> FolderMark | None:
        """The state of the folder now; None when it is gone, or changed too recently."""
        found = self._look()
        if found is None or time.time_ns() - found.st_mtime_ns < _STILL_NANOSECONDS:
            return None
        return FolderMark(found.st_ino, found.st_mtime_ns)

    def is_still(self, mark: FolderMark) -> bool:
        found = self._look()
        return (
            found is not None and found.st_mtime_ns == mark.changed and found.st_ino == mark.inode
        )

    def _look(self) -> os.stat_result | None:
        try:
            return os.stat(self._path)  # noqa: PTH116 - `Path` costs more than the call
        except OSError:
            return None
