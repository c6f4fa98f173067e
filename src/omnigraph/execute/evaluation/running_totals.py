"""Aggregates without groups over rows that come in parts: exactly what all at once would give."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from omnigraph.execute.evaluation.aggregates import (
    Codes,
    Groups,
    checked_sum,
    distinct_rows,
    exact_sums,
    operands,
    without_empty,
)
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.evaluation.value_arrays import as_arrow_type, as_type
from omnigraph.execute.views.entity_view import MISSING
from omnigraph.execute.views.frame import Frame
from omnigraph.ir import expressions as ex


class RunningTotal(Protocol):
    """One aggregate on its way."""

    def add(self, frame: Frame) -> None: ...

    def result(self) -> pa.Array:
        """One value."""


def running_total(call: ex.AggregateCall, evaluator: Evaluator) -> RunningTotal:
    """Of a distinct aggregate of values, parts must not share a value."""
    if call.function == "count" and not needs_partition(call):
        if call.distinct:
            return _Entities(call)
        if call.operand is None or isinstance(call.operand, ex.Whole):
            return _Rows(call)
    return _Values(call, evaluator)


def needs_partition(call: ex.AggregateCall) -> bool:
    """A value must be told apart from all others; an entity is known by its position."""
    match call.operand:
        case ex.Whole(variable):
            return call.distinct and variable.kind is ex.VariableKind.PATH
        case _:
            return call.distinct


def distinct_operands(
    call: ex.AggregateCall, frame: Frame, evaluator: Evaluator
) -> tuple[Frame, pa.Array]:
    """One row for every value the aggregate sees, and the value."""
    assert call.operand is not None
    rows = without_empty(frame)
    values = evaluator.array(call.operand, rows)
    first = distinct_rows([values], rows.length)
    return replace(rows.take(first), weights=None), values.take(pa.array(first))


class _Rows:
    """How many rows, or how many in which an entity or path is bound."""

    def __init__(self, call: ex.AggregateCall) -> None:
        self._operand = call.operand
        self._count = 0

    def add(self, frame: Frame) -> None:
        kept = frame
        if isinstance(self._operand, ex.Whole):
            kept = frame.keep(_is_bound(frame, self._operand.variable.id))
        self._count += kept.length if kept.weights is None else int(kept.weights.sum())

    def result(self) -> pa.Array:
        return pa.array([self._count], pa.int64())


class _Entities:
    """How many different ones: a mark for each."""

    def __init__(self, call: ex.AggregateCall) -> None:
        assert isinstance(call.operand, ex.Whole)
        self._variable = call.operand.variable.id
        self._seen = np.zeros(0, bool)

    def add(self, frame: Frame) -> None:
        binding = without_empty(frame).bindings[self._variable]
        if len(self._seen) == 0:
            self._seen = np.zeros(binding.view.count + 1, bool)
        self._seen[binding.positions] = True  # MISSING is the last

    def result(self) -> pa.Array:
        return pa.array([int(np.count_nonzero(self._seen[:-1]))], pa.int64())


class _Values:
    """Sums go on where the last part ended, so that floats are added in the order of the rows."""

    def __init__(self, call: ex.AggregateCall, evaluator: Evaluator) -> None:
        self._call = call
        self._evaluator = evaluator
        self._kind = as_arrow_type(call.type)
        self._count = 0
        self._sum: int | float = 0.0 if pa.types.is_floating(self._kind) else 0
        self._best: pa.Array | None = None

    def add(self, frame: Frame) -> None:
        rows = without_empty(frame)
        codes = np.zeros(rows.length, np.int64)
        values, codes, weights = operands(self._call, rows, codes, self._evaluator)
        self._count += len(values) if weights is None else int(weights.sum())
        function = self._call.function
        if function in ("min", "max"):
            self._keep_best(values, smallest=function == "min")
        elif function == "avg" or isinstance(self._sum, float):
            self._add_floats(as_type(values, pa.float64()), weights)
        elif function == "sum":
            self._sum += exact_sums(values, Groups(codes, 1, codes[:0]), weights)[0]

    def result(self) -> pa.Array:
        match self._call.function:
            case "count":
                return pa.array([self._count], self._kind)
            case "min" | "max":
                return pa.nulls(1, self._kind) if self._best is None else self._best
            case _ if self._count == 0:
                return pa.nulls(1, self._kind)
            case "avg":
                return pa.array([self._sum / self._count], self._kind)
            case _:
                total = self._sum if isinstance(self._sum, float) else checked_sum(self._sum)
                return pa.array([total], self._kind)

    def _add_floats(self, values: pa.Array, weights: Codes | None) -> None:
        numbers = values.to_numpy(zero_copy_only=False)
        weighted = numbers if weights is None else numbers * weights
        summed = np.concatenate([[self._sum], weighted])
        self._sum = float(np.bincount(np.zeros(len(summed), np.int64), weights=summed)[0])

    def _keep_best(self, values: pa.Array, *, smallest: bool) -> None:
        found = values.cast(self._kind)
        if self._best is not None:
            found = pa.concat_arrays([self._best, found])
        if len(found):
            order = found.sort("ascending" if smallest else "descending")
            self._best = order.slice(0, 1)


def _is_bound(frame: Frame, variable: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if variable in frame.paths:
        valid = frame.paths[variable].ids.is_valid()
        return np.asarray(valid.to_numpy(zero_copy_only=False), bool)
    return np.asarray(frame.bindings[variable].positions != MISSING)
