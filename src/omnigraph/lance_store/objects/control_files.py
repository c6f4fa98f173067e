"""Small objects beside the datasets, in a directory or in an S3 bucket.

Intents, locks and refs are such objects. A graph also lists and deletes the files of its datasets
through this module.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import mmap
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import S3Store

from omnigraph.errors import StorageUnsafe
from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.objects.storage_location import StorageLocation
from omnigraph.values.clock import SYSTEM_CLOCK, Clock


@dataclass(frozen=True, slots=True)
class StoredFile:
    """An object in a listing.

    `path` is relative to the graph. `modified` is in microseconds, by the clock of the store.
    """

    path: str
    size: int
    modified: int


class ControlFiles(Protocol):
    """Objects are written once and never changed: a reader learns from their existence.

    Competing writers must put different bytes under one key. Otherwise a writer that lost the
    answer to its put could not find out whether it won.
    """

    def put(self, key: str, data: bytes | memoryview, *, synced: bool = True) -> bool:
        """Create the object; False when it exists already.

        With `synced=False` the object survives a loss of power only after the next
        `Store.flush_to_disk`, as the files that Lance writes.
        """

    def put_many(self, files: Mapping[str, bytes]) -> None:
        """Create objects whose names are not used yet, in any order and not synced."""

    def put_held(self, key: str, data: bytes) -> Callable[[], None] | None:
        """Like `put`, and hold the object until the returned function is called.

        A local directory shows other processes at once when the holder dies. Returns None when the
        object exists already.
        """

    def holder_is_dead(self, key: str) -> bool:
        """True only when it is proven that no process holds the object any more."""

    def get(self, key: str) -> bytes | None:
        """The bytes of the object, or None when it does not exist."""

    def list(self, prefix: str) -> list[str]:
        """Names below `prefix/`, sorted, without the prefix."""

    def delete(self, key: str) -> None:
        """Remove the object if it exists."""

    def delete_exactly(self, key: str, data: bytes) -> None:
        """Remove the object if it holds these bytes; an object that replaced it stays."""

    def replace_exactly(self, key: str, old: bytes, new: bytes) -> bool:
        """Put `new` in the place of `old`; False when the object is gone or holds other bytes.

        Only the few objects that one writer at a time changes are replaced: a ledger, a lease.
        """

    def walk(self, prefix: str) -> tuple[StoredFile, ...]:
        """Every object at any depth below `prefix/`, without those that vanish during the walk."""

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove the objects that exist, in as few requests as the store allows."""

    def remove_empty_folders(self, prefix: str) -> None:
        """Remove the folders below `prefix/` that have no object in them."""


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


# A suffix, because a ref may begin with a dot. No object has a name that ends like this.
_UNFINISHED = ".unfinished-put"
_LOCK_ATTEMPTS = 1000
_LOCK_PAUSE = 0.01
_PIECE_BYTES = 8 * 1024 * 1024

# Lance expects these folders to stay once they exist; other folders go when they are empty.
_LASTING = frozenset({"data", "_deletions", "_indices", "_transactions", "_versions", "_refs"})


class LocalFiles:
    """Control files in a directory.

    A file is written without a name and then linked to its name, so a reader never sees a part of
    its bytes, and of two writers one fails. A holder keeps an `flock` on its file.
    """

    def __init__(self, root: Path, *, sync: bool = False) -> None:
        self._root = root
        self._sync = sync

    def _path(self, key: str) -> str:
        # Every commit touches some control files, and joining a `Path` takes longer than the call.
        return f"{self._root}/{key}"

    def put(self, key: str, data: bytes | memoryview, *, synced: bool = True) -> bool:
        with storage_errors(f"writing {key}"):
            fd = self._create(key, data, lock=False, synced=synced)
        if fd is None:
            return False
        os.close(fd)
        return True

    def put_many(self, files: Mapping[str, bytes]) -> None:
        for key, data in files.items():
            self.put(key, data, synced=False)

    def put_held(self, key: str, data: bytes | memoryview) -> Callable[[], None] | None:
        """Locks the file before its name appears, so that no observer takes it for abandoned."""
        with storage_errors(f"writing {key}"):
            fd = self._create(key, data, lock=True, synced=True)
        return None if fd is None else lambda: os.close(fd)

    def holder_is_dead(self, key: str) -> bool:
        try:
            fd = os.open(self._path(key), os.O_RDONLY)
        except OSError:
            return False
        try:
            # A shared lock, so that two observers do not take each other for the holder.
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
                names = [entry.name for entry in os.scandir(self._path(prefix))]
            except FileNotFoundError:
                return []
            return sorted(name for name in names if not name.endswith(_UNFINISHED))

    def delete(self, key: str) -> None:
        with storage_errors(f"deleting {key}"), suppress(FileNotFoundError):
            os.unlink(self._path(key))  # noqa: PTH108

    def delete_exactly(self, key: str, data: bytes) -> None:
        """Locks the file first, so that of two removers the later one looks at the name again.

        The kernel releases the lock of a killed process.
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

    def replace_exactly(self, key: str, old: bytes, new: bytes) -> bool:
        """Locks the old file, as `delete_exactly` does, and renames the new one over it."""
        path = self._root / key
        with storage_errors(f"replacing {key}"):
            try:
                fd = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                return False
            try:
                _lock_in_time(fd)
                still_named = os.path.samestat(os.fstat(fd), path.stat())
                if not still_named or path.read_bytes() != old:
                    return False
                self._rename_over(path, new)
            except FileNotFoundError:
                return False
            finally:
                os.close(fd)
            return True

    def _rename_over(self, path: Path, data: bytes) -> None:
        fd, name = tempfile.mkstemp(suffix=_UNFINISHED, dir=path.parent)
        try:
            try:
                os.fchmod(fd, 0o644)
                _write_all(fd, data)
                if self._sync:
                    os.fsync(fd)
            finally:
                os.close(fd)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        if self._sync:
            _sync_directory(path.parent)

    def walk(self, prefix: str) -> tuple[StoredFile, ...]:
        # Plain strings, because with ten thousands of files `Path` takes longer than the disk.
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
        """Needed here only, because object stores have no folders."""
        for folder, _, _ in os.walk(self._root / prefix, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()

    def _create(
        self, key: str, data: bytes | memoryview, *, lock: bool, synced: bool
    ) -> int | None:
        """An open descriptor of the new file, or None when the name is taken."""
        sync = synced and self._sync
        target = self._path(key)
        folder = target.rpartition("/")[0]
        try:
            fd, source = _nameless_file(folder)
        except FileNotFoundError:
            Path(folder).mkdir(parents=True, exist_ok=True)
            fd, source = _nameless_file(folder)
        try:
            _write_all(fd, data)
            if sync:
                os.fsync(fd)
            if lock:
                fcntl.flock(fd, fcntl.LOCK_EX)
            # `src_dir_fd` is ignored for an absolute source. Without it CPython would call link(),
            # which links the /proc entry itself.
            os.link(source, target, src_dir_fd=fd, follow_symlinks=True)
            if sync:
                _sync_directory(folder)
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
    """Removers hold this lock for a moment only, unless their process is stopped."""
    for _ in range(_LOCK_ATTEMPTS):
        with suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        SYSTEM_CLOCK.sleep(_LOCK_PAUSE)
    raise TimeoutError("a stopped process is about to remove the file: let it continue, or end it")


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _nameless_file(directory: str) -> tuple[int, str]:
    """A descriptor and a path to link from.

    The file vanishes with its descriptor until it is linked. File systems without such files get
    a file with a temporary name.
    """
    try:
        fd = os.open(directory, os.O_TMPFILE | os.O_WRONLY, 0o644)
    except (AttributeError, IsADirectoryError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        fd, name = tempfile.mkstemp(suffix=_UNFINISHED, dir=directory)
        return fd, name
    return fd, f"/proc/self/fd/{fd}"


def _write_all(fd: int, data: bytes | memoryview) -> None:
    """Write in pieces. Those of a mapped file leave memory, so that a long list needs little."""
    view = memoryview(data)
    mapped = view.obj if isinstance(view.obj, mmap.mmap) else None
    for start in range(0, len(view), _PIECE_BYTES):
        piece = view[start : start + _PIECE_BYTES]
        size = len(piece)
        # On a nearly full disk `write` may write a part of the bytes; only its result says so.
        while piece:
            piece = piece[os.write(fd, piece) :]
        if mapped is not None:
            mapped.madvise(mmap.MADV_DONTNEED, start, size)


def _sync_directory(directory: Path | str) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


_PUTS_AT_ONCE = 16
# The most keys that one DeleteObjects request takes.
_DELETE_BATCH = 1000
_DELETE_ATTEMPTS = 5


class ObjectFiles:
    """Control files in an S3 bucket. Only an expired lease shows that a holder died."""

    def __init__(self, location: StorageLocation) -> None:
        self._store = object_store(location)

    def put(self, key: str, data: bytes | memoryview, *, synced: bool = True) -> bool:
        with storage_errors(f"writing {key}"):
            try:
                obstore.put(self._store, key, data, mode="create")
            except AlreadyExistsError:
                # The answer to our own put may have been lost, and the client's retry refused.
                # Every writer puts different bytes, so our bytes mean that we won.
                return self.get(key) == data
            return True

    def put_many(self, files: Mapping[str, bytes]) -> None:
        with ThreadPoolExecutor(_PUTS_AT_ONCE, "put-many") as threads:
            for _ in threads.map(self.put, files, files.values()):
                pass

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
        with storage_errors(f"deleting {key}"):
            for _ in range(_DELETE_ATTEMPTS):
                e_tag = self._e_tag_of(key, data)
                if e_tag is None or delete_if_unchanged(self._store, key, e_tag):
                    return
            raise OSError(
                "the store refuses to delete it as changed, although its bytes are the same"
            )

    def replace_exactly(self, key: str, old: bytes, new: bytes) -> bool:
        with storage_errors(f"replacing {key}"):
            e_tag = self._e_tag_of(key, old)
            if e_tag is None:
                return False
            try:
                obstore.put(self._store, key, new, mode={"e_tag": e_tag})
            except (PreconditionError, FileNotFoundError):
                # As in `put`: the answer to our own request may have been lost.
                return self.get(key) == new
            return True

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
        """An object store has no folders."""


def object_store(location: StorageLocation) -> S3Store:
    options: dict[str, Any] = {
        name: value for name, value in location.options.items() if name != "allow_http"
    }
    if "allow_http" in location.options:
        options["client_options"] = {"allow_http": True}
    return S3Store(location.bucket, prefix=location.prefix or None, **options)


def _stored_file(meta: Any) -> StoredFile:
    modified = int(meta["last_modified"].timestamp() * 1_000_000)
    return StoredFile(str(meta["path"]), int(meta["size"]), modified)


def _nothing_to_release() -> None:
    return None


_VALID_FOR = dt.timedelta(minutes=5)
_SECONDS = 30.0
_ATTEMPTS = 4

# The object is gone, was replaced, or is being changed: the caller looks again.
_NOT_THIS_ONE = frozenset({404, 409, 412})
_HEADER_UNKNOWN = frozenset({400, 405, 501})


def delete_if_unchanged(store: S3Store, key: str, e_tag: str) -> bool:
    """Delete the object in one step with a test of its `e_tag`; False when it has another one.

    The client library has no conditional delete, so the request is signed by it and sent from here
    with the header `If-Match`, which S3 and Ceph honour. A store that refuses the header gets a
    plain delete. For a store that ignores it, only the order that intents impose protects the name.
    """
    # Imported here because most processes never delete from a bucket.
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
