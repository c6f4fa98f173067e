"""A clock and control files in memory: a test sets the time and never waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from omnigraph.lance_store.objects.control_files import StoredFile


class FakeClock:
    """A clock with predictable times and ids."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.seconds = 0.0
        self.ids = 0

    def now_micros(self) -> int:
        self.now += 1000
        return self.now

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def new_ulid(self) -> str:
        self.ids += 1
        return f"{self.ids:026d}"


class FakeFiles:
    """Control files in a dict. A test says which holders are dead."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.dead: set[str] = set()
        self.reads: list[str] = []

    def put(self, key: str, data: bytes, *, synced: bool = True) -> bool:
        return self.objects.setdefault(key, data) is data

    def put_many(self, files: Mapping[str, bytes]) -> None:
        self.objects.update(files)

    def put_held(self, key: str, data: bytes) -> Callable[[], None] | None:
        return (lambda: self.dead.add(key)) if self.put(key, data) else None

    def holder_is_dead(self, key: str) -> bool:
        return key in self.dead

    def get(self, key: str) -> bytes | None:
        self.reads.append(key)
        return self.objects.get(key)

    def list(self, prefix: str) -> list[str]:
        start = f"{prefix}/"
        return sorted(k.removeprefix(start) for k in self.objects if k.startswith(start))

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)
        self.dead.discard(key)

    def delete_exactly(self, key: str, data: bytes) -> None:
        if self.objects.get(key) == data:
            self.delete(key)

    def walk(self, prefix: str) -> tuple[StoredFile, ...]:
        start = f"{prefix}/"
        found = sorted((k, d) for k, d in self.objects.items() if k.startswith(start))
        return tuple(StoredFile(key, len(data), 0) for key, data in found)

    def delete_many(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.delete(key)

    def remove_empty_folders(self, prefix: str) -> None:
        """A dict has no folders."""
