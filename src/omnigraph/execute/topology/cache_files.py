"""The cache directory: sorted ids, storage order and neighbours, kept for later processes.

`StoredTopology` knows the names and shapes. `CacheFiles` keeps one immutable file for each name,
mapped into memory and bounded in bytes and number. No failure here changes an answer: a file is
written under another name and then renamed, and it is used only when its name, length and checksums
are right. With a full or read-only disk queries are slower.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import struct
import tempfile
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph import failpoints
from omnigraph.execute.topology.kernels import Ints, Offsets
from omnigraph.lance_store.store import DatasetVersion
from omnigraph.settings.models import ReadSettings

Array = npt.NDArray[Any]

_MAGIC = b"OMNITOP1"
_HEAD = struct.Struct("<8sII")
_ALIGN = 64
_SUFFIX = ".topology"
_LEFT_BEHIND_SECONDS = 3600.0
_WORDS = 512
_MOST_FILES = 16_384
# The number of listings while as many bytes or files are saved as the limit allows.
_LOOKS = 64


# For fewer rows reading and sorting is as fast as mapping a file.
SMALLEST_TABLE = 20_000


@dataclass(frozen=True, slots=True)
class ContentName:
    """Names the rows of a table as one commit left them, in any version.

    The epoch is the unique id of a commit, so a new graph at the same place has other names.
    """

    graph: str
    location: str
    epoch: str

    def __str__(self) -> str:
        return f"{self.graph}#{self.location}#{self.epoch}"


@dataclass(frozen=True, slots=True)
class StorageOrder:
    """Where the rows of a content are in one version."""

    rows: pa.Array | None
    """The storage row of each position; None when rows are stored in id order."""


class StoredTopology:
    """Reads and writes the files of large tables; small tables are not worth a file."""

    def __init__(self, files: CacheFiles, smallest: int = SMALLEST_TABLE) -> None:
        self._files = files
        self._smallest = smallest

    @property
    def keeps_files(self) -> bool:
        return self._files.enabled

    def has_ids(self, name: ContentName) -> bool:
        return self._files.has(f"ids#{name}")

    def has_neighbours(self, names: tuple[ContentName, ...]) -> bool:
        return any(self.has_direction(names, way) for way in ("out", "into"))

    def has_direction(self, names: tuple[ContentName, ...], direction: str) -> bool:
        return self._files.has(_neighbours_name(names, direction))

    def ids(self, name: ContentName, count: int) -> pa.Array | None:
        if count < self._smallest:
            return None
        arrays = self._files.load(f"ids#{name}")
        if arrays is None or len(arrays["offsets"]) != count + 1:
            return None
        buffers = [None, pa.py_buffer(arrays["offsets"]), pa.py_buffer(arrays["text"])]
        return pa.Array.from_buffers(pa.string(), count, buffers)

    def keep_ids(self, name: ContentName, ids: pa.Array) -> None:
        if len(ids) < self._smallest or not self._files.enabled or ids.type != pa.string():
            return
        _, offsets, text = ids.buffers()
        starts = np.frombuffer(offsets, np.int32, len(ids) + 1, ids.offset * 4)
        letters = np.frombuffer(text, np.uint8)[starts[0] : starts[-1]]
        self._files.save(f"ids#{name}", {"offsets": starts - starts[0], "text": letters})

    def order(self, name: ContentName, at: DatasetVersion, count: int) -> StorageOrder | None:
        if count < self._smallest:
            return None
        arrays = self._files.load(f"order#{name}#{at}")
        if arrays is None or len(arrays["order"]) not in (0, count):
            return None
        order = arrays["order"]
        return StorageOrder(pa.array(order) if len(order) else None)

    def keep_order(
        self, name: ContentName, at: DatasetVersion, count: int, order: StorageOrder
    ) -> None:
        if count >= self._smallest and self._files.enabled:
            rows: Ints = np.empty(0, np.int32) if order.rows is None else order.rows.to_numpy()
            self._files.save(f"order#{name}#{at}", {"order": rows})

    def neighbours(
        self, names: tuple[ContentName, ...], direction: str, edges: int, nodes: int
    ) -> tuple[Offsets, Ints, Ints] | None:
        if edges < self._smallest:
            return None
        arrays = self._files.load(_neighbours_name(names, direction))
        if arrays is None or len(arrays["offsets"]) != nodes + 1:
            return None
        return arrays["offsets"], arrays["nodes"], arrays["edges"]

    def keep_neighbours(
        self,
        names: tuple[ContentName, ...],
        direction: str,
        offsets: Offsets,
        nodes: Ints,
        edges: Ints,
    ) -> None:
        if len(nodes) >= self._smallest and self._files.enabled:
            arrays: dict[str, Array] = {"offsets": offsets, "nodes": nodes, "edges": edges}
            self._files.save(_neighbours_name(names, direction), arrays)


def open_stored_topology(settings: ReadSettings, environment: Mapping[str, str]) -> StoredTopology:
    """In the directory of the settings or `OMNIGRAPH_CACHE_DIR`; an empty text means no files."""
    chosen = settings.cache_directory
    if chosen is None:
        chosen = environment.get("OMNIGRAPH_CACHE_DIR")
    if chosen is None:
        home = environment.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        chosen = f"{home}/omnigraph"
    directory = Path(chosen) / "topology" if chosen else None
    return StoredTopology(CacheFiles(directory, settings.cache_file_bytes))


def _neighbours_name(names: tuple[ContentName, ...], direction: str) -> str:
    edges, sources, targets = names
    return (
        f"{direction}#{edges}#{sources.location}#{sources.epoch}#{targets.location}#{targets.epoch}"
    )


class CacheFiles:
    """A directory that the processes of a user share. The files used longest ago are removed."""

    def __init__(self, directory: Path | None, limit_bytes: int) -> None:
        self._directory = directory
        self._limit = limit_bytes
        self._room_bytes = 0
        self._room_files = 0

    @property
    def enabled(self) -> bool:
        return self._directory is not None

    def has(self, name: str) -> bool:
        """Whether there is a file. `load` checks whether it is intact."""
        return self._directory is not None and (self._directory / _file_name(name)).exists()

    def load(self, name: str) -> dict[str, Array] | None:
        """The mapped arrays of a name; None when there is no intact file."""
        if self._directory is None:
            return None
        path = self._directory / _file_name(name)
        try:
            with path.open("rb") as file:
                # A private mapping is writable, as compiled kernels expect it.
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            os.utime(path)
        except (OSError, ValueError):
            return None
        arrays = _unpack(name, mapped)
        if arrays is None:
            with contextlib.suppress(OSError):
                path.unlink()
        return arrays

    def save(self, name: str, arrays: Mapping[str, Array]) -> bool:
        """False when the file could not be written."""
        if self._directory is None:
            return False
        flat = {part: np.ascontiguousarray(array) for part, array in arrays.items()}
        head = _pack_head(name, flat)
        size = len(head) + sum(_padded(a.nbytes) for a in flat.values())
        if size > self._limit:
            return False
        temporary: str | None = None
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(size)
            handle, temporary = tempfile.mkstemp(prefix=".", suffix=".part", dir=self._directory)
            with os.fdopen(handle, "wb") as file:
                file.write(head)
                for array in flat.values():
                    failpoints.hit("cache.before_array")
                    file.write(array.data.cast("B") if array.nbytes else b"")
                    file.write(bytes(_padded(array.nbytes) - array.nbytes))
            Path(temporary).replace(self._directory / _file_name(name))
        except OSError:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    Path(temporary).unlink()
            return False
        return True

    def _make_room(self, size: int) -> None:
        """List the files only when the room that the last listing found is used up.

        Other processes use the same room, so each may exceed the limit by a 64th of it.
        """
        if size > self._room_bytes or self._room_files < 1:
            held, files = self._remove_oldest(size)
            self._room_bytes = max(size, min(self._limit - held, self._limit // _LOOKS))
            self._room_files = max(1, min(_MOST_FILES - files, _MOST_FILES // _LOOKS))
        self._room_bytes -= size
        self._room_files -= 1

    def _remove_oldest(self, size: int) -> tuple[int, int]:
        """(bytes, files) that remain. If there was no room, a 16th of the limit is free now.

        Other processes may remove the same files at the same time.
        """
        found = self._files()
        held, files = sum(used for _, used, _ in found), len(found)
        if held + size <= self._limit and files < _MOST_FILES:
            return held, files
        enough = max(0, self._limit - max(size, self._limit // 16))
        for _, used, path in sorted(found, key=lambda file: file[0]):
            if held <= enough and files <= _MOST_FILES - _MOST_FILES // 16:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            held, files = held - used, files - 1
        return held, files

    def _files(self) -> list[tuple[float, int, Path]]:
        """(last use, bytes, path) of each file. Removes unfinished files of killed processes."""
        assert self._directory is not None
        found = []
        for path in self._directory.iterdir():
            with contextlib.suppress(OSError):
                state = path.stat()
                abandoned = time.time() - state.st_mtime > _LEFT_BEHIND_SECONDS
                if path.suffix == ".part" and abandoned:
                    path.unlink()
                elif path.suffix == _SUFFIX:
                    found.append((state.st_mtime, state.st_size, path))
        return found


def _file_name(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:40] + _SUFFIX


def _padded(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _pack_head(name: str, arrays: Mapping[str, Array]) -> bytes:
    parts = [
        {"part": part, "type": a.dtype.str, "count": len(a), "checksum": _checksum(a)}
        for part, a in arrays.items()
    ]
    text = json.dumps({"name": name, "arrays": parts}).encode()
    text += b" " * (_padded(_HEAD.size + len(text)) - _HEAD.size - len(text))
    return _HEAD.pack(_MAGIC, len(text), zlib.crc32(text)) + text


def _unpack(name: str, mapped: mmap.mmap) -> dict[str, Array] | None:
    if len(mapped) < _HEAD.size:
        return None
    magic, length, checksum = _HEAD.unpack_from(mapped)
    text = mapped[_HEAD.size : _HEAD.size + length]
    if magic != _MAGIC or zlib.crc32(text) != checksum:
        return None
    head = json.loads(text)
    if head["name"] != name:
        return None
    arrays: dict[str, Array] = {}
    at = _HEAD.size + length
    for part in head["arrays"]:
        kind = np.dtype(part["type"])
        size = part["count"] * kind.itemsize
        if at + _padded(size) > len(mapped):
            return None
        array = np.frombuffer(mapped, kind, part["count"], at)
        if _checksum(array) != part["checksum"]:
            return None
        arrays[part["part"]] = array
        at += _padded(size)
    return arrays if at == len(mapped) else None


def _checksum(array: Array) -> int:
    """Covers all bytes at the speed of memory: pages are combined by XOR before the CRC."""
    data = array.view(np.uint8)
    whole = len(data) // (8 * _WORDS) * (8 * _WORDS)
    folded = np.bitwise_xor.reduce(data[:whole].view(np.uint64).reshape(-1, _WORDS), axis=0)
    return zlib.crc32(data[whole:].tobytes(), zlib.crc32(folded.tobytes(), len(data) & 0xFFFFFFFF))
