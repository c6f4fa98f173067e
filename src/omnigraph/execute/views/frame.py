"""Rows between operators: positions of each variable, scores of each slot, named columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.execute.topology.id_changes import MISSING, Positions
from omnigraph.execute.topology.kernels import RowNumbers
from omnigraph.execute.views.entity_view import EntityView, PartialView


@dataclass(slots=True)
class Binding:
    """The entity of a variable in each row; MISSING where an optional block found nothing."""

    view: EntityView
    positions: Positions
    optional: bool = False
    """Bound in an optional block. Only then a position can be MISSING."""

    def at(self, rows: RowNumbers) -> Binding:
        return Binding(self.view, self.positions[rows], self.optional)

    def sort_values(self) -> npt.NDArray[np.integer[Any]]:
        """Integers with the order of the ids, NULL first."""
        if self.view.ranks is None or len(self.view.ranks) == 0:
            return self.positions
        return np.where(self.positions == MISSING, MISSING, self.view.ranks[self.positions])


@dataclass(frozen=True, slots=True)
class PathBinding:
    """The path of each row: a list of ids, nodes and edges by turns."""

    ids: pa.Array

    def take(self, rows: RowNumbers) -> PathBinding:
        return PathBinding(self.ids.take(pa.array(rows)))


PATHS = pa.list_(pa.string())

_NOTHING: Mapping[Any, Any] = {}


@dataclass(slots=True)
class Frame:
    """Rows between two operators. An operator makes a new frame and shares unchanged arrays.

    The class is not frozen, because that would double the cost of making a frame.
    """

    length: int
    bindings: Mapping[int, Binding] = field(default_factory=lambda: _NOTHING)
    paths: Mapping[int, PathBinding] = field(default_factory=lambda: _NOTHING)
    scores: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=lambda: _NOTHING)
    columns: Mapping[str, pa.Array] = field(default_factory=lambda: _NOTHING)
    sorted_by: tuple[int, ...] = ()
    """Variables by whose ids the rows are known to be sorted."""
    weights: npt.NDArray[np.int64] | None = None
    """How many equal rows each row stands for; None means one."""
    origin: RowNumbers | None = None
    """In a sub-pattern: the row of the enclosing frame from which each row comes."""

    def take(self, rows: RowNumbers, *, ordered: bool = False) -> Frame:
        """These rows. `ordered` says that `rows` ascends, so that the order of the frame stays."""
        return Frame(
            len(rows),
            {v: b.at(rows) for v, b in self.bindings.items()},
            {v: p.take(rows) for v, p in self.paths.items()} if self.paths else _NOTHING,
            {s: values[rows] for s, values in self.scores.items()} if self.scores else _NOTHING,
            {n: c.take(pa.array(rows)) for n, c in self.columns.items()}
            if self.columns
            else _NOTHING,
            self.sorted_by if ordered else (),
            None if self.weights is None else self.weights[rows],
            None if self.origin is None else self.origin[rows],
        )

    def keep(self, mask: npt.NDArray[np.bool_]) -> Frame:
        return self if mask.all() else self.take(np.flatnonzero(mask), ordered=True)

    def bind(self, variable: int, binding: Binding, *sorted_by: int) -> Frame:
        return self._with({**self.bindings, variable: binding}, sorted_by)

    @property
    def is_bare(self) -> bool:
        """Whether the frame has only bindings."""
        return not (self.paths or self.scores or self.columns or self.origin is not None)

    @property
    def is_empty(self) -> bool:
        """Whether the rows have nothing but their number."""
        return self.is_bare and not self.bindings and self.weights is None

    def only(self, variables: frozenset[int]) -> Frame:
        """Drop the bindings of all other variables."""
        if all(v in variables for v in self.bindings):
            return self
        return self._with(
            {v: b for v, b in self.bindings.items() if v in variables}, self.sorted_by
        )

    def _with(self, bindings: Mapping[int, Binding], sorted_by: tuple[int, ...]) -> Frame:
        """`dataclasses.replace`, at a fifth of its cost."""
        return Frame(
            self.length,
            bindings,
            self.paths,
            self.scores,
            self.columns,
            sorted_by,
            self.weights,
            self.origin,
        )


def join_frames(parts: Sequence[Frame]) -> Frame:
    """The rows of several frames with the same bindings, one after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    return Frame(
        sum(part.length for part in parts),
        {
            v: Binding(b.view, np.concatenate([p.bindings[v].positions for p in parts]), b.optional)
            for v, b in first.bindings.items()
        },
        {v: PathBinding(pa.concat_arrays([p.paths[v].ids for p in parts])) for v in first.paths},
        {s: np.concatenate([p.scores[s] for p in parts]) for s in first.scores},
        {n: pa.concat_arrays([p.columns[n] for p in parts]) for n in first.columns},
        first.sorted_by if all(p.sorted_by == first.sorted_by for p in parts) else (),
        None if first.weights is None else np.concatenate([_known(p.weights) for p in parts]),
        None if first.origin is None else np.concatenate([_known(p.origin) for p in parts]),
    )


def _known(values: RowNumbers | None) -> RowNumbers:
    assert values is not None
    return values


def settled(frame: Frame, *variables: int) -> Frame:
    """Replace positions of partial views of these variables by positions of whole tables."""
    found = frame
    for variable in variables:
        binding = frame.bindings.get(variable)
        if binding is not None and isinstance(binding.view, PartialView):
            positions = binding.view.in_whole(binding.positions)
            whole = Binding(binding.view.whole, positions, binding.optional)
            found = found.bind(variable, whole, *frame.sorted_by)
    return found


ONE_ROW = Frame(1)
