"""Table states with only the rows that a rule keeps.

A scoped content has positions of its own: ranks among the rows in scope. So no operator can meet a
row that is out of scope, because there is no position for it. An adjacency between scoped contents
has the edges in scope whose two ends are in scope.

A rule is evaluated on all rows once. After a commit it is evaluated on the changed rows alone
(`PatchedScope`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import InvalidArgument, SnapshotReclaimed, StorageFailure
from omnigraph.execute.topology.adjacency import OUT, Adjacency, EdgeContents
from omnigraph.execute.topology.builds import build_step
from omnigraph.execute.topology.id_changes import MISSING, PositionPatch, Positions
from omnigraph.execute.topology.kernels import Ints, RowNumbers
from omnigraph.execute.topology.memory_cache import Held, counted
from omnigraph.execute.topology.neighbours import NeighbourLayer, Neighbours, StoredNeighbours
from omnigraph.execute.topology.table_content import (
    Addresses,
    PatchedContent,
    StoredContent,
    TableContent,
)
from omnigraph.ir.expressions import Expression
from omnigraph.lance_store.store import Dataset
from omnigraph.values.text_match import TextCorpus, corpus_of

Mask = npt.NDArray[np.bool_]

# Reading a column, against reading and sorting ids.
_COLUMN_SHARE = 0.5
# Evaluating a rule on the rows of columns that are in memory.
_RULE_SHARE = 0.1
# For more positions, or after more calls, the arrays of a derived scope are made.
_FEW = 2000
_CALLS_BEFORE_COPY = 200
# The bytes of the objects of one direction, without arrays.
_LAYER_BYTES = 500


@dataclass(frozen=True, slots=True)
class RowRule:
    """A rule about the rows of one table, ready to be evaluated. Equal rules have equal names."""

    name: Expression
    """The predicate over `RowProperty`."""
    columns: tuple[str, ...]
    mask: Callable[[pa.Table], Mask]
    """Which rows of a table with these columns are in scope."""


class ScopedContent(TableContent):
    """The rows of another content that a rule keeps."""

    def __init__(self, base: TableContent, rule: RowRule) -> None:
        super().__init__(base.name, base.at, base.dataset)
        self.base = base
        self.rule = rule
        self._corpora: dict[str, TextCorpus] = {}

    def corpus(self, name: str) -> TextCorpus:
        """The texts of a column as a corpus, for rankings."""
        found = self._corpora.get(name)
        if found is None:
            found = self._corpora[name] = corpus_of(self.column(name))
        return found

    @property
    def unscoped(self) -> TableContent:
        return self.base

    @counted
    def kept(self) -> Positions:
        """The position in the base of each row in scope, ascending."""
        return self._evaluate()

    def _evaluate(self) -> Positions:
        # A rule without columns is a constant.
        columns = {name: self.base.column(name) for name in self.rule.columns or ("id",)}
        return np.flatnonzero(self.rule.mask(pa.table(columns))).astype(np.int32)

    @counted
    def places(self) -> Positions:
        """The position here of each row of the base, and MISSING as one more entry at the end."""
        return self._ranks()

    def _ranks(self) -> Positions:
        places = np.full(self.base.count + 1, MISSING, np.int32)
        places[self.kept] = np.arange(len(self.kept), dtype=np.int32)
        return places

    def in_base(self, positions: Positions) -> Positions:
        """Positions here as positions in the base; MISSING stays."""
        if not len(self.kept):
            return np.full(len(positions), MISSING, np.int32)
        return np.where(positions == MISSING, MISSING, self.kept[positions]).astype(np.int32)

    def from_base(self, positions: Ints) -> Positions:
        """Positions in the base as positions here, MISSING for rows out of scope."""
        found: Positions = self.places[positions]
        return found

    @property
    def count(self) -> int:
        return len(self.kept)

    @counted
    def ids(self) -> pa.Array:
        return self.base.ids.take(pa.array(self.kept))

    @property
    def is_built(self) -> bool:
        return self.base.is_built

    @property
    def is_loaded(self) -> bool:
        return "kept" in self.__dict__ and self.base.is_loaded

    @property
    def piece(self) -> Hashable:
        return "content", self.name, self.rule.name

    @property
    def build_cost(self) -> float:
        """The columns of the rule are read, if they are not in memory."""
        loaded = self.base.columns
        unread = [n for n in self.rule.columns if n != "id" and n not in loaded]
        own = self.base.count * (len(unread) * _COLUMN_SHARE + _RULE_SHARE)
        return own + (0.0 if self.base.is_loaded else self.base.build_cost)

    def build(self) -> None:
        self.base.build()
        _ = self.kept

    def want(self, name: str) -> None:
        self.base.want(name)

    @property
    def loaded_ids(self) -> pa.Array | None:
        return None if self.base.loaded_ids is None else self.ids

    def rank(self, wanted: str) -> tuple[int, bool]:
        before, there = self.base.rank(wanted)
        # A number of the same type, because numpy would copy the positions otherwise.
        rank = int(self.kept.searchsorted(np.int32(before)))
        return rank, there and rank < len(self.kept) and int(self.kept[rank]) == before

    def find_many(self, ids: pa.Array) -> Positions:
        return self.from_base(self.base.find_many(ids))

    def addresses_at(self, dataset: Dataset) -> Addresses:
        addresses: Addresses = self.base.addresses_at(dataset)[self.kept]
        return addresses

    def has_column(self, name: str) -> bool:
        return super().has_column(name) or self.base.has_column(name)

    def few_ids(self, positions: Positions) -> pa.Array:
        return self.base.few_ids(self.in_base(positions))

    def few_values(self, name: str, positions: Positions) -> pa.Array | None:
        if name in self.columns:
            return None
        return self.base.few_values(name, self.in_base(positions))

    def load_column(self, name: str) -> pa.Array:
        return self.base.column(name).take(pa.array(self.kept))

    def take_over(self, other: ScopedContent) -> None:
        """Take what another object has in memory of the same rows."""
        self._corpora = other._corpora
        if other.is_loaded:
            self.__dict__["kept"] = other.kept
        if "places" in other.__dict__:
            self.__dict__["places"] = other.places

    @property
    def own_bytes(self) -> int:
        return super().own_bytes + sum(int(array.nbytes) for array in self.own_arrays)

    @property
    def own_arrays(self) -> list[Any]:
        made = (self.__dict__.get(name) for name in ("kept", "places", "ids"))
        return [array for array in made if array is not None]

    @property
    def parts(self) -> Iterable[Held]:
        return (self.base,)

    def shed(self) -> None:
        super().shed()
        for name in ("kept", "places", "ids"):
            self.__dict__.pop(name, None)


@dataclass(frozen=True, slots=True)
class ScopeChanges:
    """How positions in a scope changed, from an older state to a newer one."""

    kept: Positions
    """`kept` and `places` of the older state."""
    places: Positions
    moves: PositionPatch
    """The rows that came into scope and those that left it."""
    came_at: Ints
    """The position in the new base of each row that came, ascending."""
    changed_at: Ints
    """The position in the new base of each inserted or updated row, ascending ..."""
    changed_to: Positions
    """... and its position in scope, or MISSING."""


def scope_changes(older: ScopedContent, base: PatchedContent) -> ScopeChanges:
    """Evaluates the rule on the changed rows. `base` is derived from the base of `older`."""
    patch, kept, places = base.patch, older.kept, older.places
    rows = base.changed_rows(older.rule.columns or ("id",))
    good = older.rule.mask(rows) if rows.num_rows else np.zeros(0, bool)
    # For each changed row: its place among the old rows, and its old position in scope.
    old = np.concatenate([patch.insert_ranks, patch.updated])
    was = np.concatenate([np.full(len(patch.insert_ranks), MISSING), places[patch.updated]])
    new = np.concatenate([patch.inserted, patch.forward(patch.updated)])
    order = np.argsort(new, kind="stable")
    old, was, new, good = old[order], was[order], new[order], good[order]
    came, left = good & (was == MISSING), ~good & (was != MISSING)
    gone = places[patch.deleted]
    deleted = np.sort(np.concatenate([gone[gone != MISSING], was[left]])).astype(np.int64)
    ids = pa.concat_arrays([patch.inserted_ids, patch.updated_ids]).take(pa.array(order[came]))
    moves = PositionPatch(
        count=len(kept),
        new_count=len(kept) + len(ids) - len(deleted),
        deleted=deleted,
        insert_ranks=np.searchsorted(kept, old[came]),
        inserted_ids=ids,
        updated=np.empty(0, np.int64),
        updated_ids=pa.array([], pa.string()),
    )
    to = np.full(len(new), MISSING, np.int32)
    stayed = good & ~came
    to[stayed], to[came] = moves.forward(was[stayed]), moves.inserted
    return ScopeChanges(kept, places, moves, new[came], new, to)


class PatchedScope(ScopedContent):
    """Derived from the scope of an older state, and equal to a new evaluation of the rule."""

    base: PatchedContent

    def __init__(self, base: PatchedContent, older: ScopedContent) -> None:
        super().__init__(base, older.rule)
        self._older = older
        self._calls = 0

    @counted
    def _changes(self) -> ScopeChanges | None:
        """None when the rule must be evaluated on all rows.

        The version of the older state is cleaned up, or the rule fails for a row of one state.
        """
        try:
            return scope_changes(self._older, self.base)
        except (SnapshotReclaimed, StorageFailure, InvalidArgument):
            return None

    def _few(self, array: str, positions: int) -> ScopeChanges | None:
        """None when the array is in memory, or better than the changes."""
        if array in self.__dict__:
            return None
        self._calls += 1
        if positions > _FEW or self._calls > _CALLS_BEFORE_COPY:
            return None
        changes = self._changes
        return None if changes is None or self._shares(changes) else changes

    def _shares(self, changes: ScopeChanges) -> bool:
        """Whether the arrays of the older state are those of this one, too."""
        return not changes.moves.moves and not self.base.patch.moves

    @counted
    def kept(self) -> Positions:
        changes = self._changes
        if changes is None:
            return self._evaluate()
        if self._shares(changes):
            return changes.kept
        kept = self.base.patch.forward(np.delete(changes.kept, changes.moves.deleted))
        before = np.searchsorted(kept, changes.came_at)
        return np.insert(kept, before, changes.came_at.astype(np.int32))

    @counted
    def places(self) -> Positions:
        changes = self._changes
        if changes is not None and self._shares(changes):
            return changes.places
        return self._ranks()

    @property
    def count(self) -> int:
        changes = self._changes
        return len(self.kept) if changes is None else changes.moves.new_count

    @property
    def is_loaded(self) -> bool:
        return super().is_loaded or (self.base.is_loaded and self._older.is_loaded)

    @property
    def piece(self) -> Hashable:
        return self._older.piece

    @property
    def build_cost(self) -> float:
        return self._older.build_cost

    def build(self) -> None:
        self.base.build()
        _ = self.count

    def rank(self, wanted: str) -> tuple[int, bool]:
        changes = self._few("kept", 1)
        return super().rank(wanted) if changes is None else changes.moves.rank(self._older, wanted)

    def in_base(self, positions: Positions) -> Positions:
        changes = self._few("kept", len(positions))
        if changes is None:
            return super().in_base(positions)
        old = changes.moves.back(positions)
        found = np.full(len(positions), MISSING, np.int32)
        known = old != MISSING
        found[known] = self.base.patch.forward(changes.kept[old[known]])
        _put(found, positions, changes.moves.inserted, changes.came_at)
        return found

    def from_base(self, positions: Ints) -> Positions:
        changes = self._few("places", len(positions))
        if changes is None:
            return super().from_base(positions)
        old: Positions = changes.places[self.base.patch.back(positions)]
        found = np.full(len(positions), MISSING, np.int32)
        known = old != MISSING
        found[known] = changes.moves.forward(old[known])
        _put(found, positions, changes.changed_at, changes.changed_to)
        return found

    @property
    def own_arrays(self) -> list[Any]:
        shared = [id(array) for array in self._older.own_arrays]
        return [array for array in super().own_arrays if id(array) not in shared]

    @property
    def parts(self) -> Iterable[Held]:
        return (self.base, self._older)

    def shed(self) -> None:
        super().shed()
        self.__dict__.pop("_changes", None)


def _put(
    found: Positions,
    positions: Ints,
    at: npt.NDArray[np.integer],
    values: npt.NDArray[np.integer],
) -> None:
    """Where a position is in `at`, which ascends, its value is the one beside it."""
    if len(at):
        near = np.minimum(np.searchsorted(at, positions), len(at) - 1)
        hit = at[near] == positions
        found[hit] = values[near[hit]]


def scoped_content(
    base: TableContent, rule: RowRule, older: Callable[[StoredContent], ScopedContent]
) -> ScopedContent:
    """The rows of `base` that a rule keeps; `older` gives those of a state it is derived from."""
    if isinstance(base, PatchedContent):
        return PatchedScope(base, older(base.base))
    return ScopedContent(base, rule)


class ScopedAdjacency(Adjacency):
    """The entries of another adjacency whose edge and ends are in scope."""

    def __init__(self, contents: EdgeContents, base: Adjacency) -> None:
        super().__init__(contents)
        self.base = base

    @property
    def parts(self) -> Iterable[Held]:
        return (*super().parts, self.base)

    @property
    def is_ready(self) -> bool:
        return self.base.is_ready

    def can_follow(self, direction: str) -> bool:
        in_memory = all(content.is_loaded for content in self._scoped)
        return in_memory and self.base.can_follow(direction)

    def piece(self, direction: str) -> Hashable:
        rules = tuple(
            content.rule.name if isinstance(content, ScopedContent) else None
            for content in self.contents
        )
        return self.base.piece(direction), rules

    def build_cost(self, direction: str) -> float:
        own = sum(content.build_cost for content in self._scoped if not content.is_loaded)
        return own + (0.0 if self.base.can_follow(direction) else self.base.build_cost(direction))

    def build(self, direction: str) -> None:
        self.base.build(direction)
        for content in self._scoped:
            build_step()
            content.build()

    @property
    def _scoped(self) -> list[ScopedContent]:
        return [content for content in self.contents if isinstance(content, ScopedContent)]

    def make(self, direction: str) -> Neighbours:
        edges, sources, targets = self.contents
        outward = direction == OUT
        near = self.base.out if outward else self.base.into
        return ScopedNeighbours(
            near, *((sources, targets) if outward else (targets, sources)), edges
        )

    def moved(self, contents: EdgeContents) -> ScopedAdjacency:
        return self.on(contents, self.base)

    def on(self, contents: EdgeContents, base: Adjacency) -> ScopedAdjacency:
        """The same entries, of tables that are in other versions now."""
        found = ScopedAdjacency(contents, base)
        found.__dict__.update(self.made)
        return found


class ScopedNeighbours(NeighbourLayer):
    """The entries of other neighbours whose edge and ends are in scope.

    Positions here ascend as positions in the base do, so entries stay sorted.
    """

    def __init__(
        self, base: Neighbours, keys: TableContent, nodes: TableContent, edges: TableContent
    ) -> None:
        super().__init__()
        self._base = base
        self._keys, self._nodes, self._edges = keys, nodes, edges

    @property
    def largest(self) -> int:
        return self._base.largest

    def follow_few(self, sources: Ints) -> tuple[RowNumbers, Ints, Ints]:
        keys = self._keys.in_base(sources) if isinstance(self._keys, ScopedContent) else sources
        return self._in_scope(*self._base.follow(keys))

    def make_whole(self) -> StoredNeighbours:
        near, count = self._base, self._keys.count
        every = np.repeat(np.arange(len(near.offsets) - 1), np.diff(near.offsets))
        rows, nodes, edges = self._in_scope(_placed(self._keys, every), near.nodes, near.edges)
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
        return StoredNeighbours(offsets, nodes, edges)

    def _in_scope(
        self, rows: RowNumbers, nodes: Ints, edges: Ints
    ) -> tuple[RowNumbers, Ints, Ints]:
        nodes, edges = _placed(self._nodes, nodes), _placed(self._edges, edges)
        whole = (rows != MISSING) & (nodes != MISSING) & (edges != MISSING)
        return rows[whole], nodes[whole], edges[whole]

    @property
    def own_bytes(self) -> int:
        return _LAYER_BYTES

    @property
    def parts(self) -> Iterable[Held]:
        below = (self._base,) if isinstance(self._base, Held) else ()
        return (*below, self.whole) if self.is_whole else below


def _placed(content: TableContent, positions: Any) -> Any:
    return content.from_base(positions) if isinstance(content, ScopedContent) else positions
