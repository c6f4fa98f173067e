"""States of tables in memory: a running total of their bytes, and which of them go.

A state is made of pieces that several states may share: patched states share their base, a view
and an adjacency share the content of a table. Each piece counts once, for as long as some entry
needs it. Keeping, finding and growing an entry cost the same however many entries there are.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeVar, overload

_T = TypeVar("_T")

# States of one table on one branch: the head, readers that are slightly behind, and the base that
# newer states are derived from. A reader of an older state derives or reads it again.
_STATES_PER_LINEAGE = 8
# All entries. Only a graph of a thousand types gets there within the bytes that are allowed.
_MOST_ENTRIES = 2048


class Held:
    """A piece of memory that a cache counts."""

    _count: Callable[[Held], None] | None = None

    @property
    def own_bytes(self) -> int:
        """What this object holds itself, without its parts."""
        raise NotImplementedError

    @property
    def parts(self) -> Iterable[Held]:
        """Other pieces that this one needs."""
        return ()

    def shed(self) -> None:
        """Give the memory back. The object stays usable: what is asked for again is read again."""

    def grown(self) -> None:
        """Tell the cache, if this object is in one, that its bytes or parts have changed."""
        if self._count is not None:
            self._count(self)


class counted(cached_property[_T]):
    """A `cached_property` whose value is memory: it is reported once it is there."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> _T: ...

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Self | _T:
        if instance is None:
            return self
        value: _T = super().__get__(instance, owner)
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
    """Forgets what was used longest ago. `others` is memory under the same bound."""

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
    def used_bytes(self) -> int:
        return self._total + self._others()

    def peek(self, key: Hashable) -> Any | None:
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._use(key, found)
            return found.held

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
            # Its memory is not taken away: it goes when the last query that uses it ends.
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
        # A query that runs may still use them: the objects stay right, only their memory goes.
        for held in dropped:
            held.shed()
            held.grown()  # another thread may have kept it again meanwhile

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
