"""What a long-lived process remembers by name is bounded in number and in weight."""

from __future__ import annotations

import time

from omnigraph.values.bounded_cache import BoundedCache


def test_the_entry_put_longest_ago_goes_first() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.put("a", 1)
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    assert len(cache) == 2


def test_weight_is_a_running_total() -> None:
    cache: BoundedCache[str, str] = BoundedCache(100, most_weight=10)
    cache.put("a", "a", 4)
    cache.put("b", "b", 5)
    cache.put("a", "again", 3)
    assert cache.weight == 8
    cache.put("c", "c", 6)
    assert (cache.get("b"), cache.get("a"), cache.get("c")) == (None, "again", "c")
    assert cache.weight == 9
    assert cache.pop("c") == "c"
    assert cache.pop("c") is None
    assert cache.weight == 3
    cache.clear()
    assert (len(cache), cache.weight) == (0, 0)


def test_an_entry_that_weighs_more_than_all_may_is_not_kept() -> None:
    cache: BoundedCache[str, str] = BoundedCache(100, most_weight=10)
    cache.put("a", "a", 4)
    cache.put("large", "large", 11)
    assert (cache.get("large"), cache.get("a")) == (None, "a")
    cache.put("a", "too large now", 11)
    assert cache.get("a") is None
    assert cache.weight == 0


def test_what_is_there_is_given_to_everyone_who_asks() -> None:
    cache: BoundedCache[str, list[int]] = BoundedCache(2)
    first = cache.get_or_put("a", [])
    assert cache.get_or_put("a", []) is first
    cache.put("b", [1])
    cache.put("c", [2])
    assert "a" not in cache
    assert cache.newest(5) == [[2], [1]]
    assert cache.newest(1) == [[2]]


def test_a_drop_takes_the_same_time_for_any_number_of_entries() -> None:
    """A plain dict would walk over the places of removed entries."""
    spent = []
    for size in (1_000, 100_000):
        cache: BoundedCache[int, int] = BoundedCache(size)
        for number in range(size):
            cache.put(number, number)
        began = time.process_time()
        for number in range(size, size + 20_000):
            cache.put(number, number)
        spent.append(time.process_time() - began)
        assert len(cache) == size
    assert spent[1] < 5 * spent[0]
