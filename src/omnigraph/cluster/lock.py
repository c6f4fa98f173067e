"""The lock of a cluster: one writing command at a time, with a lease that a thread renews.

A lock is taken over, with a warning, when it has expired, and at once when its holder is a process
of this machine that has ended. The swap of the ledger is what really protects it: a holder that
lost its lock cannot record anything.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import Any, Self

from omnigraph.cluster.declarations import ClusterDiagnostic, warning
from omnigraph.cluster.root import LOCK
from omnigraph.errors import ClusterRefused, OmnigraphError
from omnigraph.lance_store.objects.control_files import ControlFiles
from omnigraph.values.clock import Clock
from omnigraph.values.processes import has_ended, this_process
from omnigraph.values.temporal import micros_of, parse_moment, write_micros

LEASE_SECONDS = 60.0
RENEW_SECONDS = 20.0
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class LockFile:
    """The content of `lock.json`."""

    lock_id: str
    operation: str
    created_at: str
    pid: int
    host: str = ""
    expires_at: str = ""
    process: str = ""
    """The identity of the holder, by which other processes of its machine know that it ended."""
    version: int = 1

    def to_bytes(self) -> bytes:
        body = {each.name: getattr(self, each.name) for each in fields(self)}
        return (json.dumps(body, indent=2) + "\n").encode()

    def age_seconds(self, now_micros: int) -> int:
        return max(0, (now_micros - _micros(self.created_at)) // 1_000_000)

    def is_expired(self, now_micros: int) -> bool:
        """A lock without a lease, which older programs write, never expires."""
        return bool(self.expires_at) and _micros(self.expires_at) <= now_micros


def _micros(text: str) -> int:
    found = parse_moment(text)
    return 0 if found is None else micros_of(found)


def read_lock(files: ControlFiles) -> tuple[LockFile, bytes] | None:
    """The lock and its bytes, or None; refuses a file that is no lock of this version."""
    data = files.get(LOCK)
    return None if data is None else (parse_lock(data), data)


def parse_lock(data: bytes) -> LockFile:
    try:
        body: Any = json.loads(data)
        version = body.get("version")
        texts = [body[name] for name in ("lock_id", "operation", "created_at")]
        found = LockFile(**body)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _invalid(f"is no lock: {error}") from None
    if version != 1:
        raise _invalid(f"has version {version!r}, which this program does not know")
    if not all(isinstance(text, str) for text in texts):
        raise _invalid("is no lock")
    return found


def _invalid(problem: str) -> ClusterRefused:
    return ClusterRefused(
        f"{LOCK} {problem}. Look at it, and remove it by hand when no command runs",
        reason="invalid_lock_json",
        path=LOCK,
    )


@dataclass
class ClusterLock:
    """Holds the lock while a command works. `wait_seconds` is how long it waits for another."""

    files: ControlFiles
    operation: str
    clock: Clock
    wait_seconds: float = 0.0
    diagnostics: list[ClusterDiagnostic] = field(default_factory=list)
    held: LockFile | None = None
    lock_id: str | None = None
    """The id of the lock that was acquired, also after its release."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Self:
        deadline = self.clock.monotonic() + self.wait_seconds
        while (busy := self._acquire()) is not None:
            if self.clock.monotonic() >= deadline:
                raise _held(busy, self.clock.now_micros())
            self.clock.sleep(min(_LOOK_SECONDS, max(0.0, deadline - self.clock.monotonic())))
        assert self.held is not None
        self.lock_id = self.held.lock_id
        self._thread = threading.Thread(target=self._renew, name="cluster-lock", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self.held is not None:
            self.files.delete_exactly(LOCK, self.held.to_bytes())
            self.held = None

    def require(self) -> None:
        """Refuse to go on after the lock was lost, for example because this process was stopped."""
        with self._guard:
            if self.held is None:
                raise ClusterRefused(
                    "another command took the lock over, because this one did not renew it in "
                    "time: run the command again",
                    reason="state_lock_lost",
                    path=LOCK,
                )

    def _acquire(self) -> LockFile | None:
        """Take the lock; the lock of another command when it is held."""
        mine = self._fresh(self.clock.new_ulid(), write_micros(self.clock.now_micros()))
        if self.files.put(LOCK, mine.to_bytes()):
            self.held = mine
            return None
        found = read_lock(self.files)
        if found is None:
            return mine  # it was just released: look again
        other, data = found
        if has_ended(other.process):
            code, why = "state_lock_abandoned", "that process has ended"
        elif other.is_expired(self.clock.now_micros()):
            code, why = "state_lock_expired", f"it expired at {other.expires_at}"
        else:
            return other
        if not self.files.replace_exactly(LOCK, data, mine.to_bytes()):
            return other
        message = (
            f"took over the lock {other.lock_id} of `{other.operation}` on {other.host}, process "
            f"{other.pid}: {why}"
        )
        self.diagnostics.append(warning(code, message, LOCK))
        self.held = mine
        return None

    def _fresh(self, lock_id: str, created_at: str) -> LockFile:
        expires = self.clock.now_micros() + int(LEASE_SECONDS * 1_000_000)
        return LockFile(
            lock_id,
            self.operation,
            created_at,
            os.getpid(),
            socket.gethostname(),
            write_micros(expires),
            this_process(),
        )

    def _renew(self) -> None:
        while not self._stop.wait(RENEW_SECONDS):
            self.renew()

    def renew(self) -> None:
        """Prolong the lease. A lock that another command has taken over is lost."""
        with self._guard:
            if self.held is None:
                return
            longer = self._fresh(self.held.lock_id, self.held.created_at)
            try:
                renewed = self.files.replace_exactly(LOCK, self.held.to_bytes(), longer.to_bytes())
            except OmnigraphError:
                return  # the lease still runs; the next attempt may succeed
            self.held = longer if renewed else None


def _held(lock: LockFile, now_micros: int) -> ClusterRefused:
    place = f" on {lock.host}" if lock.host else ""
    return ClusterRefused(
        f"`{lock.operation}` holds the lock {lock.lock_id}{place} since "
        f"{lock.age_seconds(now_micros)} s (process {lock.pid}). Wait with --lock-timeout S, or "
        f"remove a dead one with `cluster force-unlock {lock.lock_id}`",
        reason="state_lock_held",
        path=LOCK,
    )


def lock_fields(files: ControlFiles, now_micros: int) -> Mapping[str, Any]:
    """The lock as `state_observations` shows it."""
    try:
        found = read_lock(files)
    except ClusterRefused:
        return {"locked": True}
    if found is None:
        return {"locked": False}
    lock, _ = found
    return {
        "locked": True,
        "lock_id": lock.lock_id,
        "lock_operation": lock.operation,
        "lock_created_at": lock.created_at,
        "lock_pid": lock.pid,
        "lock_host": lock.host,
        "lock_expires_at": lock.expires_at,
        "lock_age_seconds": lock.age_seconds(now_micros),
    }
