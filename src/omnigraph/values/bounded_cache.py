"""A cache bounded in the number of its entries and in what they weigh together.

A long-lived process meets any number of branches, tables, commits and query texts. What it
remembers about each of them is in such a cache.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from itertools import islice
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class BoundedCache(Generic[_Key, _Value]):
    """Drops the entry that was put longest ago; threads may share it.

    Every call takes the same time for any number of entries. `get` is the dict's own, without
    a lock and without a note of the use, because every query calls it several times. An entry that
    is used all the time is dropped now and then, too, and is made again.
    """

    def __init__(self, most_entries: int, most_weight: int | None = None) -> None:
        self._most_entries = most_entries
        self._most_weight = most_weight
        self._weight = 0
        self._lock = threading.Lock()
        # A plain dict walks over the places of removed entries to find its first one.
        self._entries: OrderedDict[_Key, _Value] = OrderedDict()
        self._weights: dict[_Key, int] = {}
        self.get: Callable[[_Key], _Value | None] = self._entries.get

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: _Key) -> bool:
        return key in self._entries

    @property
    def weight(self) -> int:
        return self._weight

    def put(self, key: _Key, value: _Value, weight: int = 0) -> None:
        """An entry that weighs more than all may weigh together is not kept."""
        with self._lock:
            self._drop(key)
            if self._most_weight is None or weight <= self._most_weight:
                self._add(key, value, weight)

    def get_or_put(self, key: _Key, value: _Value) -> _Value:
        """The value of the key. Without one, `value` is put and returned."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                self._add(key, value, 0)
                return value
            return found

    def pop(self, key: _Key) -> _Value | None:
        with self._lock:
            return self._drop(key)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._weights.clear()
            self._weight = 0

    def newest(self, most: int) -> list[_Value]:
        """The values that were put last, the latest first."""
        with self._lock:
            return list(islice(reversed(self._entries.values()), most))

    def _add(self, key: _Key, value: _Value, weight: int) -> None:
        self._entries[key] = value
        if weight:
            self._weights[key] = weight
            self._weight += weight
        while self._is_over():
            self._drop(next(iter(self._entries)))

    def _drop(self, key: _Key) -> _Value | None:
        self._weight -= self._weights.pop(key, 0)
        return self._entries.pop(key, None)

    def _is_over(self) -> bool:
        if len(self._entries) > self._most_entries:
            return True
        return self._most_weight is not None and self._weight > self._most_weight
