"""Objects of a bucket as input files of a load."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, BinaryIO, cast

import obstore

from omnigraph.errors import NotFound
from omnigraph.lance_store.objects.control_files import object_store
from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.objects.storage_location import StorageLocation, parse_location

_READ_BYTES = 8 * 1024 * 1024
_MAGIC = "*["


@dataclass(frozen=True, slots=True)
class ObjectInput:
    """One object, its size and the options that reach it. Pickles."""

    bucket: StorageLocation
    key: str
    size: int
    modified_micros: int = 0

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def __str__(self) -> str:
        return f"s3://{self.bucket.bucket}/{self.key}"

    def open(self) -> BinaryIO:
        """A seekable stream that reads large ranges."""
        return cast("BinaryIO", io.BufferedReader(_Ranges(self), _READ_BYTES))


def find_objects(uri: str, environment: Mapping[str, str]) -> list[ObjectInput]:
    """The object of this address, the objects of this folder, or those that match a pattern."""
    place = parse_location(uri, environment)
    bucket = StorageLocation(f"s3://{place.bucket}", bucket=place.bucket, options=place.options)
    folder = "/".join(_before_magic(place.prefix.split("/")))
    with storage_errors(f"listing {uri}"):
        store = object_store(bucket)
        if folder == place.prefix:
            try:
                found = [obstore.head(store, folder)]
            except FileNotFoundError:
                found = [m for m in _listed(store, folder) if _parent(m) == folder]
        else:
            found = [m for m in _listed(store, folder) if _matches(m["path"], place.prefix)]
    if not found:
        raise NotFound(f"{uri}: no such object", file=uri)
    inputs = [
        ObjectInput(bucket, str(meta["path"]), int(meta["size"]), _micros(meta["last_modified"]))
        for meta in found
    ]
    return sorted(inputs, key=lambda each: each.key)


def _micros(moment: Any) -> int:
    return int(moment.timestamp() * 1_000_000)


def _before_magic(parts: list[str]) -> list[str]:
    magic = next((n for n, part in enumerate(parts) if any(c in part for c in _MAGIC)), len(parts))
    return parts[:magic]


def _matches(key: str, pattern: str) -> bool:
    """Compares segment by segment: a star does not match a slash, `**` matches any segments."""
    return _parts_match(key.split("/"), pattern.split("/"))


def _parts_match(parts: list[str], wanted: list[str]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_parts_match(parts[n:], wanted[1:]) for n in range(len(parts) + 1))
    same = bool(parts) and fnmatchcase(parts[0], wanted[0])
    return same and _parts_match(parts[1:], wanted[1:])


def _listed(store: Any, folder: str) -> list[Any]:
    return [meta for page in obstore.list(store, prefix=folder or None) for meta in page]


def _parent(meta: Any) -> str:
    return str(meta["path"]).rpartition("/")[0]


class _Ranges(io.RawIOBase):
    """Reads an object range by range."""

    def __init__(self, source: ObjectInput) -> None:
        self._source = source
        self._store = object_store(source.bucket)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = (0, self._position, self._source.size)[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        end = min(self._position + len(buffer), self._source.size)
        if end <= self._position:
            return 0
        with storage_errors(f"reading {self._source}"):
            data = obstore.get_range(self._store, self._source.key, start=self._position, end=end)
        size = len(data)
        buffer[:size] = memoryview(data)
        self._position += size
        return size
