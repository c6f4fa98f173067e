"""Control files in a directory: created by link, so a name never shows half its bytes."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.objects.stored_file import StoredFile
from omnigraph.values.clock import SYSTEM_CLOCK

# Told by its end: a ref may be named `.hidden`, but the name of every object has another end.
_UNFINISHED = ".unfinished-put"

_LOCK_ATTEMPTS = 1000
_LOCK_PAUSE = 0.01

# Writers expect these to stay once they are there; directories of single objects go when empty.
_LASTING = frozenset({"data", "_deletions", "_indices", "_transactions", "_versions", "_refs"})


class LocalFiles:
    """Put-if-absent by hard link of a nameless file; holders are known by their `flock`."""

    def __init__(self, root: Path, *, sync: bool = False) -> None:
        self._root = root
        self._sync = sync

    def put(self, key: str, data: bytes | memoryview) -> bool:
        with storage_errors(f"writing {key}"):
            fd = self._create(key, data, lock=False)
        if fd is None:
            return False
        os.close(fd)
        return True

    def put_held(self, key: str, data: bytes | memoryview) -> Callable[[], None] | None:
        """Locked before the name appears: an observer never sees a live file unlocked."""
        with storage_errors(f"writing {key}"):
            fd = self._create(key, data, lock=True)
        return None if fd is None else lambda: os.close(fd)

    def holder_is_dead(self, key: str) -> bool:
        try:
            fd = os.open(self._root / key, os.O_RDONLY)
        except OSError:
            return False
        try:
            # Shared, so that two observers do not take each other for the holder.
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        else:
            return True
        finally:
            os.close(fd)

    def get(self, key: str) -> bytes | None:
        with storage_errors(f"reading {key}"):
            try:
                return (self._root / key).read_bytes()
            except FileNotFoundError:
                return None

    def list(self, prefix: str) -> list[str]:
        with storage_errors(f"listing {prefix}"):
            try:
                names = [entry.name for entry in os.scandir(self._root / prefix)]
            except FileNotFoundError:
                return []
            return sorted(name for name in names if not name.endswith(_UNFINISHED))

    def delete(self, key: str) -> None:
        with storage_errors(f"deleting {key}"), suppress(FileNotFoundError):
            (self._root / key).unlink()

    def delete_exactly(self, key: str, data: bytes) -> None:
        """Whoever removes a file this way locks it first: the name cannot change hands meanwhile.

        The kernel lets go of the lock of a killed process.
        """
        path = self._root / key
        with storage_errors(f"deleting {key}"):
            try:
                fd = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                return
            try:
                _lock_in_time(fd)
                still_named = os.path.samestat(os.fstat(fd), path.stat())
                if still_named and path.read_bytes() == data:
                    path.unlink()
            except FileNotFoundError:
                return
            finally:
                os.close(fd)

    def walk(self, prefix: str) -> tuple[StoredFile, ...]:
        # Plain strings: `Path` would take longer than the file system for ten thousands of files.
        found: list[StoredFile] = []
        root = str(self._root)
        with storage_errors(f"listing {prefix}"):
            folders = [f"{root}/{prefix}".rstrip("/")]
            while folders:
                for entry in _entries(folders.pop()):
                    if entry.is_dir():
                        folders += [] if entry.is_symlink() else [entry.path]
                        continue
                    with suppress(FileNotFoundError):
                        stat = entry.stat()
                        modified = stat.st_mtime_ns // 1000
                        found.append(
                            StoredFile(entry.path[len(root) + 1 :], stat.st_size, modified)
                        )
        return tuple(sorted(found, key=lambda file: file.path))

    def delete_many(self, keys: Sequence[str]) -> None:
        root = str(self._root)
        for key in keys:
            with storage_errors(f"deleting {key}"), suppress(FileNotFoundError):
                os.unlink(f"{root}/{key}")  # noqa: PTH108 - as in `walk`
        for parent in {key.rpartition("/")[0] for key in keys}:
            name = parent.rpartition("/")[2]
            if not name.startswith("__") and name not in _LASTING:
                with suppress(OSError):
                    os.rmdir(f"{root}/{parent}")  # noqa: PTH106

    def remove_empty_folders(self, prefix: str) -> None:
        """What is left of a tree whose objects are gone; object stores have no folders."""
        for folder, _, _ in os.walk(self._root / prefix, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()

    def _create(self, key: str, data: bytes | memoryview, *, lock: bool) -> int | None:
        """An open descriptor of the new file, or None when the name is taken."""
        target = self._root / key
        try:
            fd, source = _nameless_file(target.parent)
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            fd, source = _nameless_file(target.parent)
        try:
            _write_all(fd, data)
            if self._sync:
                os.fsync(fd)
            if lock:
                fcntl.flock(fd, fcntl.LOCK_EX)
            # `src_dir_fd` is ignored for an absolute source, but without one CPython calls link()
            # and would link the /proc entry itself.
            os.link(source, target, src_dir_fd=fd, follow_symlinks=True)
            if self._sync:
                _sync_directory(target.parent)
        except BaseException as error:
            os.close(fd)
            if isinstance(error, FileExistsError):
                return None
            raise
        finally:
            if not source.startswith("/proc/"):
                Path(source).unlink()
        return fd


def _lock_in_time(fd: int) -> None:
    """What is done under this lock takes no time; only a stopped process can hold it for long."""
    for _ in range(_LOCK_ATTEMPTS):
        with suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        SYSTEM_CLOCK.sleep(_LOCK_PAUSE)
    raise TimeoutError("a stopped process is about to remove it: let it go on, or end it")


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _nameless_file(directory: Path) -> tuple[int, str]:
    """A file that vanishes with its descriptor until it is linked; named where that is missing."""
    try:
        fd = os.open(directory, os.O_TMPFILE | os.O_WRONLY, 0o644)
    except (AttributeError, IsADirectoryError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        fd, name = tempfile.mkstemp(suffix=_UNFINISHED, dir=directory)
        return fd, name
    return fd, f"/proc/self/fd/{fd}"


def _write_all(fd: int, data: bytes | memoryview) -> None:
    # A nearly full disk writes part of the bytes and says so only in the count.
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
