"""Table states with only the rows that a rule keeps.

A scoped content has positions of its own: ranks among the rows in scope. So no operator can meet a
row that is out of scope, because there is no position for it. An adjacency between scoped contents
has the edges in scope whose two ends are in scope.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.execute.topology.adjacency import OUT, Adjacency, EdgeContents
from omnigraph.execute.topology.builds import build_step
from omnigraph.execute.topology.id_changes import MISSING, Positions
from omnigraph.execute.topology.kernels import Ints, RowNumbers
from omnigraph.execute.topology.memory_cache import Held, counted
from omnigraph.execute.topology.neighbours import NeighbourLayer, Neighbours, StoredNeighbours
from omnigraph.execute.topology.table_content import Addresses, TableContent
from omnigraph.ir.expressions import Expression
from omnigraph.lance_store.store import Dataset
from omnigraph.values.text_match import TextCorpus, corpus_of

Mask = npt.NDArray[np.bool_]

# Reading a column, against reading and sorting ids.
_COLUMN_SHARE = 0.5
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
        columns = {name: self.base.column(name) for name in self.rule.columns}
        if not columns:  # a constant
            columns = {"id": self.base.ids}
        return np.flatnonzero(self.rule.mask(pa.table(columns))).astype(np.int32)

    @counted
    def places(self) -> Positions:
        """The position here of each row of the base, and MISSING as one more entry at the end."""
        places = np.full(self.base.count + 1, MISSING, np.int32)
        places[self.kept] = np.arange(len(self.kept), dtype=np.int32)
        return places

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
        if not self.base.is_loaded:
            return False
        loaded = self.base.columns
        return "kept" in self.__dict__ or all(
            name == "id" or name in loaded for name in self.rule.columns
        )

    @property
    def piece(self) -> Hashable:
        return "content", self.name, self.rule.name

    @property
    def build_cost(self) -> float:
        """The columns of the rule are read, if they are not in memory."""
        loaded = self.base.columns
        unread = [n for n in self.rule.columns if n != "id" and n not in loaded]
        own = len(unread) * self.base.count * _COLUMN_SHARE
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
        found: Positions = self.places[self.base.find_many(ids)]
        return found

    def addresses_at(self, dataset: Dataset) -> Addresses:
        addresses: Addresses = self.base.addresses_at(dataset)[self.kept]
        return addresses

    def has_column(self, name: str) -> bool:
        return super().has_column(name) or self.base.has_column(name)

    def few_ids(self, positions: Positions) -> pa.Array:
        return self.base.few_ids(self._in_base(positions))

    def few_values(self, name: str, positions: Positions) -> pa.Array | None:
        if name in self.columns:
            return None
        return self.base.few_values(name, self._in_base(positions))

    def _in_base(self, positions: Positions) -> Positions:
        if not len(self.kept):
            return np.full(len(positions), MISSING, np.int32)
        return np.where(positions == MISSING, MISSING, self.kept[positions]).astype(np.int32)

    def load_column(self, name: str) -> pa.Array:
        return self.base.column(name).take(pa.array(self.kept))

    def on(self, base: TableContent) -> ScopedContent:
        """The same rows, which are in another version of the table now."""
        moved = ScopedContent(base, self.rule)
        moved._corpora = self._corpora
        for name in ("kept", "places"):
            if name in self.__dict__:
                moved.__dict__[name] = self.__dict__[name]
        return moved

    @property
    def own_bytes(self) -> int:
        made = (self.__dict__.get(name) for name in ("kept", "places", "ids"))
        return super().own_bytes + sum(int(array.nbytes) for array in made if array is not None)

    @property
    def parts(self) -> Iterable[Held]:
        return (self.base,)

    def shed(self) -> None:
        super().shed()
        for name in ("kept", "places", "ids"):
            self.__dict__.pop(name, None)


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
        keys = self._keys.kept[sources] if isinstance(self._keys, ScopedContent) else sources
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
    return content.places[positions] if isinstance(content, ScopedContent) else positions
