"""Groups and aggregates: sums of integers are exact, and NULLs are skipped.

`aggregate_frame` sees all rows at once. A `RunningTotal` sees them in parts and gives the same
result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidArgument
from omnigraph.execute.evaluation.arrow_functions import as_arrow_type, as_type, filled
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.topology import kernels
from omnigraph.execute.topology.id_changes import MISSING
from omnigraph.execute.topology.table_content import ColumnCodes
from omnigraph.execute.views.entity_view import TableView
from omnigraph.execute.views.frame import Binding, Frame
from omnigraph.ir import expressions as ex
from omnigraph.ir.reads import Aggregate, Column

Codes = npt.NDArray[np.int64]

_I64 = (-(2**63), 2**63 - 1)
_SAFE = 2.0**62


@dataclass(frozen=True)
class Groups:
    """The group of each row, and one row of each group, from which its keys are read."""

    codes: Codes
    count: int
    first_rows: npt.NDArray[np.int64]

    @cached_property
    def sizes(self) -> Codes:
        """The number of rows of each group."""
        return np.bincount(self.codes, minlength=self.count).astype(np.int64, copy=False)


def aggregate_frame(op: Aggregate, frame: Frame, evaluator: Evaluator) -> Frame:
    if not _counts_rows(op):
        frame = without_empty(frame)
    groups = _group(op.keys, frame, evaluator)
    firsts = frame.take(groups.first_rows) if op.keys else frame
    columns = {key.name: evaluator.array(key.value, firsts) for key in op.keys}
    for column in op.aggregates:
        call = column.value
        assert isinstance(call, ex.AggregateCall)
        columns[column.name] = _aggregate(call, frame, groups, evaluator)
    return Frame(groups.count, columns=columns)


def without_empty(frame: Frame) -> Frame:
    """Without rows of weight zero, because these must not make a group or a minimum."""
    return frame if frame.weights is None else frame.keep(frame.weights > 0)


def _counts_rows(op: Aggregate) -> bool:
    """Whether all aggregates are `count(*)` without keys: then weights are summed."""
    calls = [column.value for column in op.aggregates]
    return not op.keys and all(isinstance(c, ex.AggregateCall) and c.operand is None for c in calls)


def distinct_on(frame: Frame, variables: frozenset[int]) -> Frame:
    """One row for each combination of the entities of these variables."""
    if frame.bindings.keys() == variables and len(variables) == 1 and frame.is_bare:
        (variable,) = variables
        binding = frame.bindings[variable]
        nodes = kernels.unique_sorted(binding.positions, binding.view.count)
        sorted_by = (variable,) if binding.view.ranks is None else ()
        return Frame(len(nodes), {variable: Binding(binding.view, nodes)}, sorted_by=sorted_by)
    parts = [
        (frame.bindings[v].positions.astype(np.int64) + 1, frame.bindings[v].view.count + 1)
        for v in sorted(variables)
    ]
    if len(parts) == 1:
        codes, size = parts[0]
        rows = _first_rows(codes, size)
    else:
        codes, _ = _combine(parts, frame.length)
        rows = np.unique(codes, return_index=True)[1]
    return replace(frame.take(np.sort(rows), ordered=True), weights=None)


def _first_rows(codes: Codes, size: int) -> npt.NDArray[np.int64]:
    """One row for each code."""
    if len(codes) * 16 < size:
        return np.unique(codes, return_index=True)[1]
    first = np.full(size, -1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first[first >= 0]


def distinct_rows(columns: Sequence[pa.Array], length: int) -> npt.NDArray[np.int64]:
    """The first row of each distinct combination, in row order."""
    codes, size = _combine([_codes(c) for c in columns], length)
    return np.sort(_first_rows(codes, size))


def _group(keys: Sequence[Column], frame: Frame, evaluator: Evaluator) -> Groups:
    if not keys:
        return Groups(np.zeros(frame.length, np.int64), 1, np.empty(0, np.int64))
    whole = _whole_column(keys, frame)
    if whole is not None:
        # Without NULL, its code, which is the last one, has no group.
        count = whole.count - int(whole.firsts[-1] < 0)
        return Groups(whole.codes[:-1], count, whole.firsts[:count])
    parts = [_key_codes(key.value, frame, evaluator) for key in keys]
    codes, size = _combine(parts, frame.length)
    if size > 4 * frame.length + 1024:
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        return Groups(inverse.astype(np.int64), len(first), first)
    first = _first_rows(codes, size)
    number = np.zeros(size, np.int64)
    number[codes[first]] = np.arange(len(first))
    return Groups(number[codes], len(first), first)


def _whole_column(keys: Sequence[Column], frame: Frame) -> ColumnCodes | None:
    """The codes of a text column of all entities of a type, if these are the rows."""
    key = keys[0].value
    if len(keys) > 1 or not isinstance(key, ex.PropertyOf):
        return None
    binding = frame.bindings[key.variable.id]
    view = binding.view
    if not isinstance(view, TableView) or binding.positions is not view.all_positions:
        return None
    if len(binding.positions) == 0 or not pa.types.is_string(view.column(key.property).type):
        return None
    return view.codes(key.property)


def _key_codes(key: ex.Expression, frame: Frame, evaluator: Evaluator) -> tuple[Codes, int]:
    if isinstance(key, ex.Whole) and key.variable.id in frame.bindings:
        binding = frame.bindings[key.variable.id]
        return binding.positions.astype(np.int64) + 1, binding.view.count + 1
    if isinstance(key, ex.PropertyOf):
        binding = frame.bindings[key.variable.id]
        if isinstance(binding.view, TableView) and pa.types.is_string(
            binding.view.column(key.property).type
        ):
            known = binding.view.codes(key.property)
            # MISSING is -1: the entry at the end, which has the code of NULL.
            return known.codes[binding.positions], known.count
    return _codes(evaluator.array(key, frame))


def _codes(values: pa.Array) -> tuple[Codes, int]:
    """(codes, number of codes). Equal values have equal codes, and NULL has 0."""
    if pa.types.is_nested(values.type):
        texts = pa.array([None if v is None else repr(v) for v in values.to_pylist()], pa.string())
        return _codes(texts)
    if pa.types.is_floating(values.type):
        values = pc.add(values, 0.0)  # -0.0 and 0.0 are one value
    encoded = values.dictionary_encode()
    indices = filled(encoded.indices, -1).to_numpy(zero_copy_only=False)
    return indices.astype(np.int64) + 1, len(encoded.dictionary) + 1


def _combine(parts: Sequence[tuple[Codes, int]], length: int) -> tuple[Codes, int]:
    if len(parts) == 1:
        return parts[0]
    codes, size = np.zeros(length, np.int64), 1
    for part, count in parts:
        if size * count > 2**62:
            _, codes = np.unique(codes, return_inverse=True)
            size = int(codes.max()) + 1 if length else 1
        codes = codes * count + part
        size *= count
    return codes, size


def _aggregate(
    call: ex.AggregateCall, frame: Frame, groups: Groups, evaluator: Evaluator
) -> pa.Array:
    weights = frame.weights
    if call.operand is None:
        return pa.array(_sum_by(groups, weights, frame.length))
    if isinstance(call.operand, ex.Whole) and call.operand.variable.id in frame.bindings:
        return _aggregate_entities(call, frame, groups, evaluator)
    values, codes, weights = operands(call, frame, groups.codes, evaluator)
    same = codes is groups.codes
    kept = groups if same else Groups(codes, groups.count, groups.first_rows)
    return _FUNCTIONS[call.function](values, kept, weights, as_arrow_type(call.type))


def operands(
    call: ex.AggregateCall, frame: Frame, codes: Codes, evaluator: Evaluator
) -> tuple[pa.Array, Codes, Codes | None]:
    """(values, codes, weights) of the rows without NULL; with `distinct` each value once."""
    assert call.operand is not None
    values = evaluator.array(call.operand, frame)
    weights = frame.weights
    if values.null_count:
        present = values.is_valid().to_numpy(zero_copy_only=False)
        codes = codes[present]
        values = values.drop_null()
        weights = None if weights is None else weights[present]
    if call.distinct:
        first = _first_of_each(codes, _codes(values)[0])
        codes, values, weights = codes[first], values.take(pa.array(first)), None
    return values, codes, weights


def _aggregate_entities(
    call: ex.AggregateCall, frame: Frame, groups: Groups, evaluator: Evaluator
) -> pa.Array:
    assert isinstance(call.operand, ex.Whole)
    binding = frame.bindings[call.operand.variable.id]
    positions = binding.positions
    if call.distinct and call.function == "count" and groups.count == 1:
        return pa.array([_distinct_entities(binding)], pa.int64())
    present = positions != MISSING
    if call.function == "collect":
        objects = evaluator.array(call.operand, frame).filter(pa.array(present))
        kept = Groups(groups.codes[present], groups.count, groups.first_rows)
        return _collect(objects, kept, None, pa.list_(objects.type))
    codes = groups.codes[present]
    weights = None if frame.weights is None else frame.weights[present]
    if call.distinct:
        codes = codes[_first_of_each(codes, positions[present].astype(np.int64))]
        weights = None
    kept = Groups(codes, groups.count, groups.first_rows)
    return pa.array(_sum_by(kept, weights, len(codes)))


def _distinct_entities(binding: Binding) -> int:
    """The number of different entities. Those that ascend, as after a DistinctOn, all differ."""
    positions = binding.positions
    if binding.optional:
        positions = positions[positions != MISSING]
    elif bool((positions[1:] > positions[:-1]).all()):
        return len(positions)
    return len(kernels.unique_sorted(positions, binding.view.count))


def _first_of_each(codes: Codes, values: Codes) -> npt.NDArray[np.int64]:
    """The first row of each pair of group and value, in row order."""
    pairs, size = _combine([(codes, _size(codes)), (values, _size(values))], len(codes))
    return np.sort(_first_rows(pairs, size))


def _size(codes: Codes) -> int:
    return int(codes.max()) + 1 if len(codes) else 1


def _sum_by(groups: Groups, weights: Codes | None, length: int) -> Codes:
    if groups.count == 1:
        total = length if weights is None else int(weights.sum())
        return np.array([total], np.int64)
    if weights is None:
        return groups.sizes
    totals = np.zeros(groups.count, np.int64)
    np.add.at(totals, groups.codes, weights)
    return totals


def _count(values: pa.Array, groups: Groups, weights: Codes | None, kind: pa.DataType) -> pa.Array:
    return pa.array(_sum_by(groups, weights, len(values)), kind)


def _total(values: pa.Array, groups: Groups, weights: Codes | None, kind: pa.DataType) -> pa.Array:
    empty = groups.sizes == 0
    if pa.types.is_floating(kind):
        numbers = as_type(values, pa.float64()).to_numpy(zero_copy_only=False)
        weighted = numbers if weights is None else numbers * weights
        sums = np.bincount(groups.codes, weights=weighted, minlength=groups.count)
        # Without groups numpy gives integers.
        return pa.array(sums.astype(np.float64), mask=empty)
    totals = [checked_sum(total) for total in exact_sums(values, groups, weights)]
    return pa.array(totals, pa.int64(), mask=empty)


def checked_sum(total: int) -> int:
    if not _I64[0] <= total <= _I64[1]:
        raise InvalidArgument("sum is out of the range of I64")
    return total


def exact_sums(values: pa.Array, groups: Groups, weights: Codes | None) -> list[int]:
    """Sums in 64 bits; in Python integers where 64 bits may not be enough."""
    numbers = values.to_numpy(zero_copy_only=False)
    sizes = np.abs(numbers.astype(np.float64)) * (1 if weights is None else weights)
    reach = np.bincount(groups.codes, weights=sizes, minlength=groups.count)
    if not len(reach) or reach.max() < _SAFE:
        sums = np.zeros(groups.count, np.int64)
        signed = numbers.astype(np.int64) * (1 if weights is None else weights)
        np.add.at(sums, groups.codes, signed)
        return sums.tolist()
    exact = [0] * groups.count
    times = [1] * len(numbers) if weights is None else weights.tolist()
    for code, number, weight in zip(groups.codes.tolist(), values.to_pylist(), times, strict=True):
        exact[code] += number * weight
    return exact


def _mean(values: pa.Array, groups: Groups, weights: Codes | None, kind: pa.DataType) -> pa.Array:
    counts = _sum_by(groups, weights, len(values))
    sums = _total(as_type(values, pa.float64()), groups, weights, pa.float64())
    totals = pc.fill_null(sums, 0.0).to_numpy(zero_copy_only=False)
    means = totals / np.maximum(counts, 1)
    return pa.array(means, kind, mask=counts == 0)


def _extreme(function: str) -> Callable[[pa.Array, Groups, Codes | None, pa.DataType], pa.Array]:
    def compute(
        values: pa.Array, groups: Groups, weights: Codes | None, kind: pa.DataType
    ) -> pa.Array:
        order = pc.sort_indices(values).to_numpy()
        by_group = order[np.argsort(groups.codes[order], kind="stable")]
        codes = groups.codes[by_group]
        edges = (
            np.flatnonzero(np.diff(codes, prepend=-1))
            if function == "min"
            else (np.flatnonzero(np.diff(codes, append=groups.count)))
        )
        chosen = np.full(groups.count, -1, np.int64)
        chosen[codes[edges]] = by_group[edges]
        return values.take(pa.array(chosen, mask=chosen < 0)).cast(kind)

    return compute


def _collect(
    values: pa.Array, groups: Groups, weights: Codes | None, kind: pa.DataType
) -> pa.Array:
    order = np.argsort(groups.codes, kind="stable")
    if weights is not None:
        order = np.repeat(order, weights[order])
    counts = np.bincount(groups.codes[order], minlength=groups.count)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    taken = values.take(pa.array(order))
    return pa.ListArray.from_arrays(pa.array(offsets), taken)


_FUNCTIONS: dict[str, Callable[[pa.Array, Groups, Codes | None, pa.DataType], pa.Array]] = {
    "count": _count,
    "sum": _total,
    "avg": _mean,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "collect": _collect,
}


class RunningTotal(Protocol):
    """An aggregate without keys over rows that come in parts."""

    def add(self, frame: Frame) -> None: ...

    def result(self) -> pa.Array:
        """An array of one value."""


def running_total(call: ex.AggregateCall, evaluator: Evaluator) -> RunningTotal:
    """For a distinct aggregate of values the parts must not share a value."""
    if call.function == "count" and not needs_partition(call):
        if call.distinct:
            return _Entities(call)
        if call.operand is None or isinstance(call.operand, ex.Whole):
            return _RowCount(call)
    return _Values(call, evaluator)


def needs_partition(call: ex.AggregateCall) -> bool:
    """Whether equal values must be in one part. Entities need not be: they have positions."""
    match call.operand:
        case ex.Whole(variable):
            return call.distinct and variable.kind is ex.VariableKind.PATH
        case _:
            return call.distinct


def distinct_operands(
    call: ex.AggregateCall, frame: Frame, evaluator: Evaluator
) -> tuple[Frame, pa.Array]:
    """One row for each distinct value, and these values."""
    assert call.operand is not None
    rows = without_empty(frame)
    values = evaluator.array(call.operand, rows)
    first = distinct_rows([values], rows.length)
    return replace(rows.take(first), weights=None), values.take(pa.array(first))


class _RowCount:
    """Counts rows, or rows in which an entity or path is bound."""

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
    """Counts distinct entities with one mark for each."""

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
    """Sums, averages, minima and maxima. Floats are added in the order of the rows."""

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
