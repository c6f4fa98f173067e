"""Small objects beside the datasets: put-if-absent, get, list, delete on a directory or S3."""

from __future__ import annotations

import datetime as dt
import fcntl
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import S3Store

from omnigraph.errors import StorageUnsafe
from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.objects.storage_location import StorageLocation
from omnigraph.values.clock import SYSTEM_CLOCK, Clock


@dataclass(frozen=True, slots=True)
class StoredFile:
    """`path` is relative to the graph; `modified` is microseconds on the store's clock."""

    path: str
    size: int
    modified: int


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


_VALID_FOR = dt.timedelta(minutes=5)
_SECONDS = 30.0
_ATTEMPTS = 4
# Gone, another one's by now, or changing this very moment: the caller looks again.
_NOT_THIS_ONE = frozenset({404, 409, 412})
_HEADER_UNKNOWN = frozenset({400, 405, 501})


def delete_if_unchanged(store: S3Store, key: str, e_tag: str) -> bool:
    """False when the object is not the one with this `e_tag` any more."""
    # Imported here because most processes never remove a name from a bucket.
    import httpx  # noqa: PLC0415

    url = obstore.sign(store, "DELETE", key, _VALID_FOR)
    failure = ""
    for _ in range(_ATTEMPTS):
        try:
            answer = httpx.delete(url, headers={"If-Match": e_tag}, timeout=_SECONDS)
        except httpx.TransportError as error:
            failure = f"{type(error).__name__}: {error}"
            continue
        if answer.is_success:
            return True
        if answer.status_code in _NOT_THIS_ONE:
            return False
        if answer.status_code in _HEADER_UNKNOWN:
            obstore.delete(store, key)
            return True
        failure = f"HTTP {answer.status_code} {answer.text[:300]}"
        if answer.status_code < 500:
            break
    raise OSError(failure)


# What one DeleteObjects request takes.
_DELETE_BATCH = 1000
_DELETE_ATTEMPTS = 5


class ControlFiles(Protocol):
    """Objects are written once and never changed: existence is the message.

    What competing writers put under one key must differ, or a lost answer is not told from a lost
    race.
    """

    def put(self, key: str, data: bytes | memoryview) -> bool:
        """Create the object; False when it exists already."""

    def put_held(self, key: str, data: bytes) -> Callable[[], None] | None:
        """Like `put`, and let others see at once when this process dies, where that is possible.

        Returns the function that lets go, or None when the object exists already.
        """

    def holder_is_dead(self, key: str) -> bool:
        """True only when it is proven that nobody holds the object any more."""

    def get(self, key: str) -> bytes | None:
        """The object's bytes, None when absent."""

    def list(self, prefix: str) -> list[str]:
        """Names below `prefix/`, sorted, without the prefix."""

    def delete(self, key: str) -> None:
        """Remove; absent is fine."""

    def delete_exactly(self, key: str, data: bytes) -> None:
        """Remove the object while it holds these bytes; one that took its name since stays."""

    def walk(self, prefix: str) -> tuple[StoredFile, ...]:
        """Every object at any depth below `prefix/`; what vanishes meanwhile is left out."""

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove in as few requests as the store allows; absent is fine."""

    def remove_empty_folders(self, prefix: str) -> None:
        """Folders left below `prefix/` without an object in them."""


def object_store(location: StorageLocation) -> S3Store:
    options: dict[str, Any] = {
        name: value for name, value in location.options.items() if name != "allow_http"
    }
    if "allow_http" in location.options:
        options["client_options"] = {"allow_http": True}
    return S3Store(location.bucket, prefix=location.prefix or None, **options)


class ObjectFiles:
    """Control files in an S3 bucket. Death of a holder shows only by its lease."""

    def __init__(self, location: StorageLocation) -> None:
        self._store = object_store(location)

    def put(self, key: str, data: bytes | memoryview) -> bool:
        with storage_errors(f"writing {key}"):
            try:
                obstore.put(self._store, key, data, mode="create")
            except AlreadyExistsError:
                # The answer to our own put may have been lost and the client's retry refused:
                # contents are unique to their writer, so our bytes there mean that we won.
                return self.get(key) == data
            return True

    def put_held(self, key: str, data: bytes) -> Callable[[], None] | None:
        return _nothing_to_release if self.put(key, data) else None

    def holder_is_dead(self, key: str) -> bool:
        return False

    def get(self, key: str) -> bytes | None:
        with storage_errors(f"reading {key}"):
            try:
                return bytes(obstore.get(self._store, key).bytes())
            except FileNotFoundError:
                return None

    def list(self, prefix: str) -> list[str]:
        with storage_errors(f"listing {prefix}"):
            pages = obstore.list(self._store, prefix=f"{prefix}/")
            return sorted(meta["path"].rsplit("/", 1)[-1] for page in pages for meta in page)

    def delete(self, key: str) -> None:
        with storage_errors(f"deleting {key}"):
            try:
                obstore.delete(self._store, key)
            except FileNotFoundError:
                return

    def delete_exactly(self, key: str, data: bytes) -> None:
        # Only who removes a name from a bucket needs an HTTP client.

        with storage_errors(f"deleting {key}"):
            for _ in range(_DELETE_ATTEMPTS):
                e_tag = self._e_tag_of(key, data)
                if e_tag is None or delete_if_unchanged(self._store, key, e_tag):
                    return
            raise OSError("the store says again and again that it changed, and it did not")

    def _e_tag_of(self, key: str, data: bytes) -> str | None:
        """None when the object is gone or holds other bytes."""
        try:
            found = obstore.get(self._store, key)
        except FileNotFoundError:
            return None
        return found.meta["e_tag"] if bytes(found.bytes()) == data else None

    def walk(self, prefix: str) -> tuple[StoredFile, ...]:
        with storage_errors(f"listing {prefix}"):
            pages = obstore.list(self._store, prefix=f"{prefix}/" if prefix else None)
            found = [_stored_file(meta) for page in pages for meta in page]
            return tuple(sorted(found, key=lambda file: file.path))

    def delete_many(self, keys: Sequence[str]) -> None:
        with storage_errors("deleting objects"):
            for start in range(0, len(keys), _DELETE_BATCH):
                obstore.delete(self._store, list(keys[start : start + _DELETE_BATCH]))

    def remove_empty_folders(self, prefix: str) -> None:
        """There are none."""


def _stored_file(meta: Any) -> StoredFile:
    modified = int(meta["last_modified"].timestamp() * 1_000_000)
    return StoredFile(str(meta["path"]), int(meta["size"]), modified)


def _nothing_to_release() -> None:
    return None


def open_control_files(location: StorageLocation, *, sync: bool = False) -> ControlFiles:
    if location.path is not None:
        return LocalFiles(location.path, sync=sync)
    return ObjectFiles(location)


def prove_put_if_absent(files: ControlFiles, clock: Clock) -> None:
    """Refuse a store on which two creators of one key could both win."""
    key = f"_locks/{clock.new_ulid()}.probe"
    try:
        first = files.put(key, b"1")
        second = files.put(key, b"2")
        kept = files.get(key)
    finally:
        files.delete(key)
    if not first or second or kept != b"1":
        raise StorageUnsafe(
            "this store does not honour put-if-absent: two writers could overwrite each other's "
            "commits, so writing is refused. Use a store with conditional puts."
        )
