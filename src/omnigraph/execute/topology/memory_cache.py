"""The cache of table states: it counts their bytes and drops old ones.

A state consists of pieces, and several states can share a piece: patched states share their base,
and a view and an adjacency share the content of a table. Each piece counts once, as long as an
entry needs it. The total is updated with each change, so every call takes the same time for any
number of entries.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeVar, overload

_T = TypeVar("_T")
_NOT_MADE: Any = object()

# The states of one table on one branch: the head, states of readers that are slightly behind, and
# the base of derived states. A reader of an older state derives it or reads it again.
_STATES_PER_LINEAGE = 8
# Only a graph with about a thousand types has so many states within the allowed bytes.
_MOST_ENTRIES = 2048


class Held:
    """A piece of memory that a cache counts."""

    _count: Callable[[Held], None] | None = None

    @property
    def own_bytes(self) -> int:
        """The memory of this object, without its parts."""
        raise NotImplementedError

    @property
    def parts(self) -> Iterable[Held]:
        """Other pieces that this one needs."""
        return ()

    def shed(self) -> None:
        """Release the memory. The object stays usable, because it reads again what it needs."""

    def grown(self) -> None:
        """Tell the cache of this object, if it has one, that its bytes or parts have changed."""
        if self._count is not None:
            self._count(self)


class counted(cached_property[_T]):
    """A `cached_property` that tells the cache that its object has grown.

    Each object has a lock of its own, because a value may take seconds to make. The lock of a
    `cached_property` of Python 3.11 is one for all objects of a class.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> _T: ...

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Self | _T:
        if instance is None:
            return self
        assert self.attrname is not None
        made = instance.__dict__
        with made.setdefault("_making", threading.RLock()):
            value: _T = made.get(self.attrname, _NOT_MADE)
            if value is _NOT_MADE:
                value = made[self.attrname] = self.func(instance)
        instance.grown()
        return value


@dataclass(slots=True)
class _Piece:
    """`needed_by` counts the entries and the other pieces that hold this one."""

    held: Held
    parts: tuple[Held, ...] = ()
    size: int = 0
    needed_by: int = 0


@dataclass(frozen=True, slots=True)
class _Entry:
    held: Held
    lineage: Hashable


class MemoryCache:
    """Drops the entries used longest ago. `others` is other memory under the same bound."""

    def __init__(
        self,
        limit_bytes: int,
        others: Callable[[], int],
        states_per_lineage: int = _STATES_PER_LINEAGE,
        most_entries: int = _MOST_ENTRIES,
    ) -> None:
        self._limit = limit_bytes
        self._others = others
        self._states_per_lineage = states_per_lineage
        self._most_entries = most_entries
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._lineages: dict[Hashable, OrderedDict[Hashable, None]] = {}
        self._pieces: dict[int, _Piece] = {}
        self._total = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def limit_bytes(self) -> int:
        return self._limit

    @property
    def used_bytes(self) -> int:
        return self._total + self._others()

    def peek(self, key: Hashable) -> Any | None:
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._use(key, found)
            return found.held

    def latest(self, lineage: Hashable) -> Any | None:
        """The state of a lineage that was used last."""
        with self._lock:
            states = self._lineages.get(lineage)
            return self._entries[next(reversed(states))].held if states else None

    def forget(self) -> None:
        """Drop everything in a forked child, where another thread may have held any lock."""
        self._lock = threading.Lock()
        self._entries.clear()
        self._lineages.clear()
        self._pieces.clear()
        self._total = 0

    def keep(self, key: Hashable, made: Any, lineage: Hashable) -> Any:
        """Two threads may make the same state at once: the first one is kept and given to both.

        `lineage` names the states that follow each other: only the few used last are kept.
        """
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                found = self._add(key, made, lineage)
            self._use(key, found)
        self._shrink()
        return found.held

    def replace(self, key: Hashable, made: Any, lineage: Hashable) -> None:
        with self._lock:
            self._remove(key)
            self._use(key, self._add(key, made, lineage))
        self._shrink()

    def _add(self, key: Hashable, made: Held, lineage: Hashable) -> _Entry:
        entry = self._entries[key] = _Entry(made, lineage)
        states = self._lineages.setdefault(lineage, OrderedDict())
        states[key] = None
        self._need(made)
        while len(states) > self._states_per_lineage:
            # Python frees its memory when the last query that uses it has ended.
            self._remove(next(iter(states)))
        return entry

    def _use(self, key: Hashable, entry: _Entry) -> None:
        self._entries.move_to_end(key)
        self._lineages[entry.lineage].move_to_end(key)

    def _remove(self, key: Hashable) -> list[Held]:
        """The pieces that no other entry needs."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return []
        states = self._lineages[entry.lineage]
        del states[key]
        if not states:
            del self._lineages[entry.lineage]
        return self._release(entry.held)

    def _shrink(self) -> None:
        dropped: list[Held] = []
        with self._lock:
            while len(self._entries) > 1 and self._is_over():
                dropped += self._remove(next(iter(self._entries)))
        # A running query may still use these objects. They stay correct and read again.
        for held in dropped:
            held.shed()
            held.grown()  # another thread may have put it into the cache again

    def _is_over(self) -> bool:
        return self.used_bytes > self._limit or len(self._entries) > self._most_entries

    def _need(self, held: Held) -> None:
        piece = self._pieces.get(id(held))
        if piece is None:
            piece = self._pieces[id(held)] = _Piece(held)
            held._count = self._measure  # noqa: SLF001 - the two know each other
            self._weigh(piece)
        piece.needed_by += 1

    def _release(self, held: Held) -> list[Held]:
        piece = self._pieces[id(held)]
        piece.needed_by -= 1
        if piece.needed_by:
            return []
        del self._pieces[id(held)]
        self._total -= piece.size
        held._count = None  # noqa: SLF001
        return [held, *(gone for part in piece.parts for gone in self._release(part))]

    def _weigh(self, piece: _Piece) -> None:
        size, parts = piece.held.own_bytes, tuple(piece.held.parts)
        self._total += size - piece.size
        piece.size = size
        for part in parts:
            self._need(part)
        for part in piece.parts:
            self._release(part)
        piece.parts = parts

    def _measure(self, held: Held) -> None:
        with self._lock:
            piece = self._pieces.get(id(held))
            if piece is None:
                return
            self._weigh(piece)
        self._shrink()
