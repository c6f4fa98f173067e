"""What changed between two states of a table, as ids and as positions."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions = npt.NDArray[np.int32]

MISSING = -1

_FEW_SHIFTS = 4


@dataclass(frozen=True, slots=True)
class IdChanges:
    """Ids that were inserted, updated and deleted from an older state to a newer one."""

    inserted: frozenset[str] = frozenset()
    updated: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        return len(self.inserted) + len(self.updated) + len(self.deleted)

    def then(self, later: IdChanges) -> IdChanges:
        """Both, one after the other. An id that is deleted and inserted again is updated."""
        inserted = (self.inserted - later.deleted) | (later.inserted - self.deleted)
        back = later.inserted & self.deleted
        updated = ((self.updated | later.updated | back) - later.deleted) - inserted
        deleted = (self.deleted - later.inserted) | (later.deleted - self.inserted)
        return IdChanges(inserted, updated, deleted)


class RankedIds(Protocol):
    """Ids in order."""

    @property
    def count(self) -> int: ...

    def rank(self, wanted: str) -> tuple[int, bool]:
        """The number of smaller ids, and whether the id exists."""


@dataclass(frozen=True)
class PositionPatch:
    """Maps positions of an older state to positions of a newer one, and back."""

    count: int
    new_count: int
    deleted: npt.NDArray[np.int64]
    """Old positions of deleted rows, ascending."""
    insert_ranks: npt.NDArray[np.int64]
    """For each inserted id, ascending: the number of smaller old ids."""
    inserted_ids: pa.Array
    updated: npt.NDArray[np.int64]
    """Old positions of updated rows, ascending."""
    updated_ids: pa.Array

    @property
    def moves(self) -> bool:
        return bool(len(self.deleted) or len(self.insert_ranks))

    @cached_property
    def inserted(self) -> npt.NDArray[np.int64]:
        """New positions of the inserted ids, ascending."""
        gone = np.searchsorted(self.deleted, self.insert_ranks, side="left")
        return self.insert_ranks - gone + np.arange(len(self.insert_ranks))

    def forward(self, old: npt.NDArray[np.integer]) -> Positions:
        """Old positions as new ones. None of them may be deleted."""
        if not self.moves:
            return old.astype(np.int32, copy=False)
        if len(old) * 4 > self.count and len(self.insert_ranks) + len(self.deleted) <= _FEW_SHIFTS:
            # A few passes over the array are faster than one search for each position.
            shifted = old.astype(np.int32)
            for rank in self.insert_ranks:
                shifted += old >= rank
            for gone in self.deleted:
                shifted -= old > gone
            return shifted
        if len(old) * 4 > self.count:
            moved: Positions = self._forward_table[old]
            return moved
        came = np.searchsorted(self.insert_ranks, old, side="right")
        went = np.searchsorted(self.deleted, old, side="left")
        return (old + came - went).astype(np.int32)

    def back(self, new: npt.NDArray[np.integer]) -> Positions:
        """New positions as old ones, MISSING for inserted rows."""
        if not self.moves:
            return new.astype(np.int32, copy=False)
        before = np.searchsorted(self.inserted, new, side="left")
        came = before < len(self.inserted)
        came[came] = self.inserted[before[came]] == new[came]
        rest = np.asarray(new, np.int64) - before
        # Each deleted row before the k-th remaining row shifts it by one.
        survivors_before = self.deleted - np.arange(len(self.deleted))
        old = rest + np.searchsorted(survivors_before, rest, side="right")
        old[came] = MISSING
        return old.astype(np.int32)

    def is_deleted(self, old: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        return np.isin(old, self.deleted)

    def rank(self, old: RankedIds, wanted: str) -> tuple[int, bool]:
        """The rank of an id in the new state; `old` are the ids of the old one."""
        before, there = old.rank(wanted)
        came = bisect_left(self.inserted_names, wanted)
        went = int(np.searchsorted(self.deleted, before, side="left"))
        if there:
            there = went == len(self.deleted) or self.deleted[went] != before
        there = there or (came < len(self.inserted_names) and self.inserted_names[came] == wanted)
        return before - went + came, there

    @cached_property
    def inserted_names(self) -> list[str]:
        names: list[str] = self.inserted_ids.to_pylist()
        return names

    @cached_property
    def _forward_table(self) -> Positions:
        steps = np.zeros(self.count + 1, np.int32)
        np.add.at(steps, self.insert_ranks, 1)
        np.add.at(steps, self.deleted + 1, -1)
        return (np.arange(self.count, dtype=np.int32) + np.cumsum(steps[:-1])).astype(np.int32)


def position_patch(old: RankedIds, changes: IdChanges) -> PositionPatch | None:
    """None when the changes do not fit the old rows."""
    came = sorted(changes.inserted)
    ranks = [old.rank(wanted) for wanted in came]
    went = [old.rank(wanted) for wanted in changes.deleted]
    rewritten = sorted(changes.updated)
    rows = [old.rank(wanted) for wanted in rewritten]
    if any(there for _, there in ranks) or not all(there for _, there in (*went, *rows)):
        return None
    return PositionPatch(
        count=old.count,
        new_count=old.count + len(came) - len(went),
        deleted=np.sort(np.array([rank for rank, _ in went], np.int64)),
        insert_ranks=np.array([rank for rank, _ in ranks], np.int64),
        inserted_ids=pa.array(came, pa.string()),
        updated=np.array([rank for rank, _ in rows], np.int64),
        updated_ids=pa.array(rewritten, pa.string()),
    )


def patched_array(
    old: pa.Array, patch: PositionPatch, came: pa.Array, rewritten: pa.Array
) -> pa.Array:
    """A column of the new state: slices of the old column with changed values between them."""
    cuts: list[tuple[int, int, pa.Array | None]] = [(int(at), 1, None) for at in patch.deleted]
    cuts += [(int(at), 1, rewritten.slice(i, 1)) for i, at in enumerate(patch.updated)]
    cuts += [(int(at), 0, came.slice(i, 1)) for i, at in enumerate(patch.insert_ranks)]
    # An inserted row comes before the old row at the same place.
    cuts.sort(key=lambda cut: (cut[0], cut[1]))
    parts: list[pa.Array] = []
    start = 0
    for at, skipped, value in cuts:
        if at > start:
            parts.append(old.slice(start, at - start))
        if value is not None:
            parts.append(value)
        start = max(start, at + skipped)
    parts.append(old.slice(start))
    return pa.concat_arrays(parts)
