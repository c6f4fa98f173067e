"""Small objects beside the datasets: put-if-absent, get, list, delete on a directory or S3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import S3Store

from omnigraph.errors import StorageUnsafe
from omnigraph.lance_store.objects.local_files import LocalFiles
from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.objects.storage_location import StorageLocation
from omnigraph.lance_store.objects.stored_file import StoredFile
from omnigraph.values.clock import Clock

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
        from omnigraph.lance_store.objects.conditional_delete import (  # noqa: PLC0415
            delete_if_unchanged,
        )

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
