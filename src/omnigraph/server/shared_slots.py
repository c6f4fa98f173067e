"""Slots for writes that the workers of one server share.

A slot of an actor is one byte of a file that its holder locks. The kernel gives the lock back when
a worker dies, so a slot is never lost. Behind each slot stands its estimate of bytes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.graph.admission import AdmissionLimits

_ESTIMATE = struct.Struct("<Q")
_ESTIMATES_AT = 1 << 20
_MUTEX_AT = 1 << 30


@dataclass(slots=True)
class _ActorFile:
    """The file of one actor, and the slots that this process holds of it."""

    descriptor: int
    held: set[int] = field(default_factory=set)


class SharedSlots:
    """Counts the writes of each actor over all processes that use the same directory."""

    def __init__(self, directory: str, limits: AdmissionLimits) -> None:
        self._directory = Path(directory)
        self._limits = limits
        self._lock = threading.Lock()
        self._files: dict[str, _ActorFile] = {}

    def take(self, actor: str, estimate: int) -> Callable[[], None] | str:
        with self._lock:
            file = self._file(actor)
            _lock(file.descriptor, fcntl.F_WRLCK, _MUTEX_AT, wait=True)
            try:
                slot = self._free_slot(file)
                if slot is None:
                    return "actor_inflight"
                others = self._bytes_of_others(file, slot)
                if others and others + estimate > self._limits.actor_bytes:
                    _lock(file.descriptor, fcntl.F_UNLCK, slot)
                    return "actor_bytes"
                os.pwrite(file.descriptor, _ESTIMATE.pack(estimate), _estimate_at(slot))
                file.held.add(slot)
            finally:
                _lock(file.descriptor, fcntl.F_UNLCK, _MUTEX_AT)

        def release() -> None:
            with self._lock:
                os.pwrite(file.descriptor, _ESTIMATE.pack(0), _estimate_at(slot))
                file.held.discard(slot)
                _lock(file.descriptor, fcntl.F_UNLCK, slot)

        return release

    def _file(self, actor: str) -> _ActorFile:
        found = self._files.get(actor)
        if found is None:
            name = hashlib.sha256(actor.encode()).hexdigest()[:32]
            path = self._directory / f"slots-{name}"
            found = _ActorFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._files[actor] = found
        return found

    def _free_slot(self, file: _ActorFile) -> int | None:
        for slot in range(self._limits.actor_writes):
            # Locks of one descriptor do not exclude each other, so own slots are remembered.
            if slot not in file.held and _lock(file.descriptor, fcntl.F_WRLCK, slot):
                return slot
        return None

    def _bytes_of_others(self, file: _ActorFile, own: int) -> int:
        total = 0
        for slot in range(self._limits.actor_writes):
            data = os.pread(file.descriptor, _ESTIMATE.size, _estimate_at(slot))
            estimate = _ESTIMATE.unpack(data)[0] if len(data) == _ESTIMATE.size else 0
            if slot != own and estimate and (slot in file.held or self._is_held(file, slot)):
                total += estimate
        return total

    def _is_held(self, file: _ActorFile, slot: int) -> bool:
        """By another process. A dead worker leaves its estimate behind, but no lock."""
        if _lock(file.descriptor, fcntl.F_WRLCK, slot):
            _lock(file.descriptor, fcntl.F_UNLCK, slot)
            return False
        return True


def _estimate_at(slot: int) -> int:
    return _ESTIMATES_AT + slot * _ESTIMATE.size


def _lock(descriptor: int, kind: int, start: int, *, wait: bool = False) -> bool:
    """Lock or unlock one byte for this descriptor, not for the process; False when it is taken."""
    request = struct.pack("hhqqi4x", kind, os.SEEK_SET, start, 1, 0)
    command = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
    try:
        fcntl.fcntl(descriptor, command, request)
    except (BlockingIOError, PermissionError):
        return False
    return True
