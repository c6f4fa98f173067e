"""Arrays kept between processes: one immutable file per name, mapped, bounded in bytes.

Everything here may fail or lie without changing an answer: a file is written aside and renamed, and
read only when its name, length and checksums are right; a disk that is full or closed to us means
slower, nothing else.
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
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph import failpoints

Array = npt.NDArray[Any]

_MAGIC = b"OMNITOP1"
_HEAD = struct.Struct("<8sII")
_ALIGN = 64
_SUFFIX = ".topology"
_LEFT_BEHIND_SECONDS = 3600.0
_WORDS = 512
_MOST_FILES = 16_384
# How often the files are looked at while as much is saved as may be there.
_LOOKS = 64


class CacheFiles:
    """A directory shared by the processes of a user; what was used longest ago goes first."""

    def __init__(self, directory: Path | None, limit_bytes: int) -> None:
        self._directory = directory
        self._limit = limit_bytes
        self._room_bytes = 0
        self._room_files = 0

    @property
    def enabled(self) -> bool:
        return self._directory is not None

    def has(self, name: str) -> bool:
        """There is a file; whether it can be trusted shows when it is loaded."""
        return self._directory is not None and (self._directory / _file_name(name)).exists()

    def load(self, name: str) -> dict[str, Array] | None:
        """The arrays of a name, mapped; None when there are none that can be trusted."""
        if self._directory is None:
            return None
        path = self._directory / _file_name(name)
        try:
            with path.open("rb") as file:
                # A private mapping: the arrays count as writable, as compiled kernels expect them.
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
        """False when the file could not be written; the arrays in hand are as good."""
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
        """Look at the files only when the room that was found the last time is used up.

        Other processes use the same room: together they may exceed the limit by a 64th each.
        """
        if size > self._room_bytes or self._room_files < 1:
            held, files = self._remove_oldest(size)
            self._room_bytes = max(size, min(self._limit - held, self._limit // _LOOKS))
            self._room_files = max(1, min(_MOST_FILES - files, _MOST_FILES // _LOOKS))
        self._room_bytes -= size
        self._room_files -= 1

    def _remove_oldest(self, size: int) -> tuple[int, int]:
        """(bytes, files) that are left; where there was no room a 16th of the limit is free now.

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
        """(last use, bytes, path) of each file; what a killed process left behind is removed."""
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
    """Of all bytes, at the speed of memory: pages folded onto each other, then a CRC."""
    data = array.view(np.uint8)
    whole = len(data) // (8 * _WORDS) * (8 * _WORDS)
    folded = np.bitwise_xor.reduce(data[:whole].view(np.uint64).reshape(-1, _WORDS), axis=0)
    return zlib.crc32(data[whole:].tobytes(), zlib.crc32(folded.tobytes(), len(data) & 0xFFFFFFFF))
