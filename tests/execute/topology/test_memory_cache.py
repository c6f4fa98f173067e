"""States in memory: pieces count once, in a running total, and few of a table stay."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import count

from omnigraph.execute.topology.memory_cache import Held, MemoryCache, counted


class Piece(Held):
    """A piece of memory of any size that counts how often it is looked at."""

    def __init__(self, size: int, *needs: Piece) -> None:
        self.size = size
        self.needs = needs
        self.looks = 0

    @property
    def own_bytes(self) -> int:
        self.looks += 1
        return self.size

    @property
    def parts(self) -> Iterable[Held]:
        return self.needs

    def shed(self) -> None:
        self.size = 0

    @counted
    def extra(self) -> int:
        return 7

    def grow(self, size: int, *needs: Piece) -> None:
        self.size, self.needs = size, needs
        self.grown()


def nothing() -> int:
    return 0


def test_a_shared_piece_counts_once_and_goes_with_the_last_that_needs_it() -> None:
    cache = MemoryCache(1000, nothing)
    base = Piece(100)
    cache.keep("base", base, "t")
    cache.keep("first", Piece(1, base), "t")
    cache.keep("second", Piece(2, base), "t")
    assert cache.used_bytes == 103
    cache.replace("base", Piece(50), "t")
    assert cache.used_bytes == 153
    cache.replace("first", Piece(1), "t")
    assert cache.used_bytes == 153
    cache.replace("second", Piece(2), "t")
    assert cache.used_bytes == 53
    assert base.size == 100  # nothing was short of memory: readers keep what they have


def test_growth_is_counted_when_it_is_reported() -> None:
    cache = MemoryCache(1000, nothing)
    base, other = Piece(10), Piece(20)
    entry = Piece(1, base)
    cache.keep("entry", entry, "t")
    base.grow(30)
    assert cache.used_bytes == 31
    entry.grow(2, base, other)
    assert cache.used_bytes == 52
    entry.grow(2, other)
    assert cache.used_bytes == 22
    base.grow(500)
    assert cache.used_bytes == 22
    looks = entry.looks
    assert (entry.extra, entry.extra) == (7, 7)
    assert entry.looks == looks + 1


def test_bytes_go_from_the_state_used_longest_ago() -> None:
    cache = MemoryCache(100, nothing)
    old, shared, new = Piece(40), Piece(30), Piece(20)
    cache.keep("old", old, "a")
    cache.keep("with shared", Piece(0, shared), "b")
    cache.keep("new", new, "c")
    assert cache.peek("old") is old
    new.grow(31)
    assert cache.peek("with shared") is None
    assert (old.size, shared.size, new.size) == (40, 0, 31)
    assert cache.peek("new") is new
    new.grow(1000)
    assert cache.peek("new") is new
    assert (len(cache), cache.used_bytes) == (1, 1000)


def test_memory_beside_the_cache_counts_too() -> None:
    beside = [0]
    cache = MemoryCache(100, lambda: beside[0])
    kept = [Piece(30), Piece(30)]
    for number, piece in enumerate(kept):
        cache.keep(number, piece, number)
    beside[0] = 60
    kept[1].grow(30)
    assert (cache.peek(0), cache.peek(1)) == (None, kept[1])


def test_few_states_of_a_lineage_stay_and_the_base_is_one_of_them() -> None:
    cache = MemoryCache(1 << 30, nothing, states_per_lineage=3)
    base = Piece(10)
    cache.keep("base", base, "table")
    cache.keep("elsewhere", Piece(5), "another table")
    for number in range(50):
        assert cache.peek("base") is base
        cache.keep(number, Piece(1, base), "table")
    assert [cache.peek(number) is not None for number in (0, 46, 47, 48, 49)] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert cache.peek("elsewhere") is not None
    assert (len(cache), cache.used_bytes) == (4, 17)


def test_states_are_bounded_in_number() -> None:
    cache = MemoryCache(1 << 30, nothing, most_entries=10)
    for number in range(100):
        cache.keep(number, Piece(1), number)
    assert (len(cache), cache.used_bytes) == (10, 10)


def test_the_first_of_two_that_made_the_same_is_kept() -> None:
    cache = MemoryCache(1000, nothing)
    first, second = Piece(1), Piece(1)
    assert cache.keep("state", first, "t") is first
    assert cache.keep("state", second, "t") is first
    assert cache.used_bytes == 1
    second.grow(500)
    assert cache.used_bytes == 1


def test_no_use_looks_at_all_entries() -> None:
    cache = MemoryCache(1 << 30, nothing, states_per_lineage=10_000)
    pieces = [Piece(1) for _ in range(1000)]
    for number, piece in enumerate(pieces):
        cache.keep(number, piece, "t")
        cache.peek(number // 2)
    assert all(piece.looks == 1 for piece in pieces)
    pieces[500].grow(2)
    assert sum(piece.looks for piece in pieces) == 1001


def test_the_total_is_the_sum_of_what_the_entries_need() -> None:
    """A random history, checked against adding everything up."""
    chance = random.Random(26)
    for _ in range(200):
        cache = MemoryCache(chance.choice([60, 10_000]), nothing, 3, 8)
        known: list[Piece] = []
        names = count()
        for _ in range(40):
            needs = chance.sample(known, min(len(known), chance.randrange(3)))
            if known and chance.random() < 0.4:
                # What a piece needs is older than itself: as states, they form no cycle.
                place = chance.randrange(len(known))
                grown = known[place]
                older = known[:place]
                grown.grow(chance.randrange(20), *chance.sample(older, min(len(older), 2)))
            else:
                known.append(Piece(chance.randrange(20), *needs))
                key = next(names) if chance.random() < 0.7 else chance.randrange(10)
                keep = cache.replace if chance.random() < 0.3 else cache.keep
                keep(key, known[-1], chance.randrange(3))
            held: dict[int, int] = {}
            for entry in cache._entries.values():
                _add_up(entry.held, held)
            assert cache.used_bytes == sum(held.values())


def _add_up(piece: Held, held: dict[int, int]) -> None:
    assert isinstance(piece, Piece)
    held[id(piece)] = piece.size
    for part in piece.needs:
        _add_up(part, held)
