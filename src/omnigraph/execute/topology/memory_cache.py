"""A cache bounded by the bytes its entries hold, shared pieces counted once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Protocol


class Holder(Protocol):
    """Something that holds memory and can give it back."""

    @property
    def holdings(self) -> dict[int, int]:
        """Bytes by the identity of who holds them."""

    def shed(self) -> None:
        """Give the memory back; it stays usable and reads again what is asked for again."""


class MemoryCache:
    """What was used longest ago goes first. `others` is memory under the same bound."""

    def __init__(self, limit_bytes: int, others: Callable[[], int]) -> None:
        self._limit = limit_bytes
        self._others = others
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, Holder] = OrderedDict()

    @property
    def used_bytes(self) -> int:
        with self._lock:
            return self._held() + self._others()

    def peek(self, key: Hashable) -> Any | None:
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def keep(self, key: Hashable, made: Any) -> Any:
        """Two may make the same at once: the first one is kept and given to both."""
        with self._lock:
            found = self._entries.setdefault(key, made)
            self._entries.move_to_end(key)
        self.shrink()
        return found

    def replace(self, key: Hashable, made: Any) -> None:
        with self._lock:
            self._entries[key] = made
        self.shrink()

    def shrink(self) -> None:
        dropped = []
        with self._lock:
            while len(self._entries) > 1 and self._held() + self._others() > self._limit:
                dropped.append(self._entries.popitem(last=False)[1])
        # Queries in flight may still hold them: the object stays right, only its memory goes.
        for entry in dropped:
            entry.shed()

    def _held(self) -> int:
        by_holder: dict[int, int] = {}
        for entry in self._entries.values():
            by_holder.update(entry.holdings)
        return sum(by_holder.values())
