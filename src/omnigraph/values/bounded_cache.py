"""A cache with a limit on the number of its entries and on their total weight.

A long-lived process keeps everything in it that it remembers by a name from outside (a branch, a
table, a commit, a query text), because the number of such names has no limit.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """Drops the least recently used entry; threads can share the cache.

    The cost of a call does not depend on the number of entries.
    """

    def __init__(self, most_entries: int, most_weight: int | None = None) -> None:
        self._most_entries = most_entries
        self._most_weight = most_weight
        self._weight = 0
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    @property
    def weight(self) -> int:
        return self._weight

    def get(self, key: Key) -> Value | None:
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            return found[0]

    def put(self, key: Key, value: Value, weight: int = 0) -> None:
        """Keep a value; one that is heavier than the total limit is not kept."""
        with self._lock:
            self._drop(key)
            if self._most_weight is None or weight <= self._most_weight:
                self._add(key, value, weight)

    def get_or_put(self, key: Key, value: Value) -> Value:
        """The value of the key; if there is none, `value` is kept and returned."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
                return found[0]
            self._add(key, value, 0)
            return value

    def pop(self, key: Key) -> Value | None:
        with self._lock:
            return self._drop(key)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._weight = 0

    def newest(self, most: int) -> list[Value]:
        """Values of the most recently used entries, the latest first."""
        with self._lock:
            found: list[Value] = []
            for key in reversed(self._entries):
                if len(found) == most:
                    break
                found.append(self._entries[key][0])
            return found

    def _add(self, key: Key, value: Value, weight: int) -> None:
        self._entries[key] = (value, weight)
        self._weight += weight
        while self._is_over():
            _, (_, dropped) = self._entries.popitem(last=False)
            self._weight -= dropped

    def _drop(self, key: Key) -> Value | None:
        found = self._entries.pop(key, None)
        if found is None:
            return None
        self._weight -= found[1]
        return found[0]

    def _is_over(self) -> bool:
        if len(self._entries) > self._most_entries:
            return True
        return self._most_weight is not None and self._weight > self._most_weight
