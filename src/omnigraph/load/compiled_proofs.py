"""The loops of `proofs.IdTable`, compiled by numba. Loading them takes a third of a second.

A hash is a pair of two numbers, one by each key. A table is an array of second numbers: the first
number of a pair says where to begin to look for the second, and a 0 is a free slot. Half of the
slots are free, because a lookup that looks at one slot takes half the time of one that goes on.
"""

from __future__ import annotations

from typing import Any

from numba import int64, njit, types, uint64

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True}
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_WORDS = types.Array(types.uint64, 1, "A", readonly=True, aligned=False)
_OFFSETS = types.Array(types.int32, 1, "C", readonly=True)
_KEYS = types.Array(types.uint64, 2, "C", readonly=True)
_PAIRS = types.Array(types.uint64, 2, "C")
_SLOTS = types.Array(types.uint64, 1, "C")


@njit(types.void(_BYTES, _WORDS, _OFFSETS, _KEYS, _PAIRS), **_OPTIONS)
def hash_texts(texts: Any, words: Any, offsets: Any, keys: Any, found: Any) -> None:
    """Both hashes of each text. `words` has the eight bytes from every byte of `texts` on."""
    spread, mix = keys[0, 0], keys[0, 1]
    other_spread, other_mix = keys[1, 0], keys[1, 1]
    half = uint64(32)
    for i in range(len(offsets) - 1):
        at = int64(offsets[i])
        end = int64(offsets[i + 1])
        one = uint64(end - at) * spread + mix
        other = uint64(end - at) * other_spread + other_mix
        while at < end:
            if at < len(words):
                word = words[at]
                if end - at < 8:
                    word &= uint64(0xFFFFFFFFFFFFFFFF) >> uint64((8 - (end - at)) * 8)
            else:
                word = uint64(0)
                for n in range(at, end):
                    word |= uint64(texts[n]) << uint64((n - at) * 8)
            one = (one ^ word) * mix
            one ^= one >> half
            other = (other ^ word) * other_mix
            other ^= other >> half
            at += 8
        found[i, 0] = one
        found[i, 1] = other if other else uint64(1)


@njit(int64(_SLOTS, _PAIRS), **_OPTIONS)
def insert(slots: Any, pairs: Any) -> int:
    """Put pairs into a table that has room for them; returns how many it had already."""
    size = uint64(len(slots))
    free = uint64(0)
    twice = 0
    for i in range(len(pairs)):
        at = ((pairs[i, 0] >> uint64(32)) * size) >> uint64(32)
        wanted = pairs[i, 1]
        while slots[at] != free and slots[at] != wanted:
            at += uint64(1)
            if at == size:
                at = uint64(0)
        if slots[at] == wanted:
            twice += 1
        slots[at] = wanted
    return twice


@njit(int64(_SLOTS, _PAIRS), **_OPTIONS)
def gather_missing(slots: Any, pairs: Any) -> int:
    """Move the pairs that the table does not have to the front; returns how many these are."""
    size = uint64(len(slots))
    free = uint64(0)
    missing = 0
    for i in range(len(pairs)):
        one = pairs[i, 0]
        wanted = pairs[i, 1]
        at = ((one >> uint64(32)) * size) >> uint64(32)
        found = slots[at]
        while found != free and found != wanted:
            at += uint64(1)
            if at == size:
                at = uint64(0)
            found = slots[at]
        if found == free:
            pairs[missing, 0] = one
            pairs[missing, 1] = wanted
            missing += 1
    return missing
