"""Rows in flight: positions per variable, a score per slot, a column per name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.execute.local.entity_view import MISSING, EntityView, Positions

Index = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Binding:
    """A variable's entities, row by row; MISSING where an optional block found nothing."""

    view: EntityView
    positions: Positions

    def take(self, rows: Index) -> Binding:
        return Binding(self.view, self.positions[rows])

    def sort_values(self) -> npt.NDArray[np.integer[Any]]:
        """Integers that order the rows as the ids do, NULL first."""
        if self.view.ranks is None or len(self.view.ranks) == 0:
            return self.positions
        return np.where(self.positions == MISSING, MISSING, self.view.ranks[self.positions])


@dataclass(frozen=True, slots=True)
class PathBinding:
    """Paths, row by row: the alternating ids of nodes and edges."""

    ids: tuple[tuple[str, ...] | None, ...]

    def take(self, rows: Index) -> PathBinding:
        return PathBinding(tuple(self.ids[r] for r in rows))


@dataclass(frozen=True, slots=True)
class Frame:
    """Immutable: every operator makes a new one and shares the arrays it did not change."""

    length: int
    bindings: Mapping[int, Binding] = field(default_factory=dict)
    paths: Mapping[int, PathBinding] = field(default_factory=dict)
    scores: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    columns: Mapping[str, pa.Array] = field(default_factory=dict)
    sorted_by: tuple[int, ...] = ()
    """Variables by whose ids the rows are known to ascend."""
    weights: npt.NDArray[np.int64] | None = None
    """How many equal rows each row stands for; None is one each."""
    origin: Index | None = None
    """Inside a sub-pattern: the row of the enclosing frame each row came from."""

    def take(self, rows: Index, *, ordered: bool = False) -> Frame:
        """These rows; `ordered` when `rows` ascends and so keeps what order there was."""
        return replace(
            self,
            length=len(rows),
            bindings={v: b.take(rows) for v, b in self.bindings.items()},
            paths={v: p.take(rows) for v, p in self.paths.items()},
            scores={s: values[rows] for s, values in self.scores.items()},
            columns={n: c.take(pa.array(rows)) for n, c in self.columns.items()},
            sorted_by=self.sorted_by if ordered else (),
            weights=None if self.weights is None else self.weights[rows],
            origin=None if self.origin is None else self.origin[rows],
        )

    def keep(self, mask: npt.NDArray[np.bool_]) -> Frame:
        return self if mask.all() else self.take(np.flatnonzero(mask), ordered=True)

    def bind(self, variable: int, binding: Binding, *sorted_by: int) -> Frame:
        return replace(self, bindings={**self.bindings, variable: binding}, sorted_by=sorted_by)

    def only(self, variables: frozenset[int]) -> Frame:
        """Forget bindings nobody will ask for."""
        if all(v in variables for v in self.bindings):
            return self
        return replace(self, bindings={v: b for v, b in self.bindings.items() if v in variables})


ONE_ROW = Frame(1)
