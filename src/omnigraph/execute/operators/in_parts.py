"""Sorts, groups and distinct rows over patterns whose rows do not fit in memory at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from omnigraph.execute.evaluation.aggregates import aggregate_frame, distinct_rows
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.evaluation.ordering import sort_frame
from omnigraph.execute.evaluation.running_totals import (
    distinct_operands,
    needs_partition,
    running_total,
)
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.operators.spill import SpillSpace, spilled_rows
from omnigraph.execute.views.frame import Frame, join_frames
from omnigraph.ir import expressions as ex
from omnigraph.ir import reads


@dataclass(frozen=True, slots=True)
class InParts:
    """One operator over the parts of its input."""

    frames: Callable[[], Iterator[Frame]]
    evaluator: Evaluator
    limits: QueryLimits
    space: SpillSpace

    def first_of(self, op: reads.OrderBy, wanted: int) -> Frame:
        """The best so far against the best of every part."""
        best: Frame | None = None
        for part in self.frames():
            few = sort_frame(op, part, self.evaluator, wanted)
            both = few if best is None else join_frames([best, few])
            best = sort_frame(op, replace(both, sorted_by=()), self.evaluator, wanted)
        assert best is not None, "an empty input fits"
        return best

    def sorted(self, op: reads.OrderBy) -> Frame:
        orders = [
            *(_spelled(key) for key in op.keys),
            *("ASC NULLS FIRST" for _ in op.ties),
        ]
        with spilled_rows(self.space, self.limits) as rows:
            for part in self.frames():
                rows.add(part, self._sort_values(op, part))
            return rows.sorted(orders)

    def grouped(self, op: reads.Aggregate) -> Frame:
        with spilled_rows(self.space, self.limits) as rows:
            part = Frame(0)
            for part in self.frames():
                rows.add(part, [self._group_value(key.value, part) for key in op.keys])
            groups = [aggregate_frame(op, group, self.evaluator) for group in rows.groups()]
        return join_frames(groups or [aggregate_frame(op, part, self.evaluator)])

    def counted(self, op: reads.Aggregate) -> Frame:
        """Without keys: totals that go on from part to part."""
        calls = {c.name: _call(c) for c in op.aggregates}
        totals = {name: running_total(call, self.evaluator) for name, call in calls.items()}
        apart = {name: call for name, call in calls.items() if needs_partition(call)}
        with contextlib.ExitStack() as stack:
            spilled = {
                name: stack.enter_context(spilled_rows(self.space, self.limits)) for name in apart
            }
            for part in self.frames():
                for name, call in calls.items():
                    if name in apart:
                        few, values = distinct_operands(call, part, self.evaluator)
                        spilled[name].add(few, [values])
                    else:
                        totals[name].add(part)
            for name, rows in spilled.items():
                for group in rows.groups():
                    totals[name].add(group)
        return Frame(1, columns={name: total.result() for name, total in totals.items()})

    def distinct(self, op: reads.Distinct) -> Frame:
        project: Any = op.input
        found: Frame | None = None
        for part in self.frames():
            columns = {c.name: self.evaluator.array(c.value, part) for c in project.columns}
            fresh = _distinct(Frame(part.length, columns=columns))
            found = fresh if found is None else _distinct(join_frames([found, fresh]))
            self.limits.reserve(found.length, len(columns))
        assert found is not None, "an empty input fits"
        return found

    def _sort_values(self, op: reads.OrderBy, frame: Frame) -> list[Any]:
        values = [self.evaluator.array(key.value, frame) for key in op.keys]
        for tie in op.ties:
            if isinstance(tie, ex.PropertyOf) and tie.property == "id":
                values.append(frame.bindings[tie.variable.id].sort_values())
            else:
                values.append(self.evaluator.array(tie, frame))
        return values

    def _group_value(self, key: ex.Expression, frame: Frame) -> Any:
        if isinstance(key, ex.Whole) and key.variable.id in frame.bindings:
            return frame.bindings[key.variable.id].positions
        return self.evaluator.array(key, frame)


def can_be_counted(op: reads.Aggregate) -> bool:
    """The totals are small; only `collect` of everything is as large as the rows."""
    return not op.keys and all(_call(c).function != "collect" for c in op.aggregates)


def can_be_grouped(op: reads.Aggregate) -> bool:
    """Groups are independent, and spilled rows keep their order in a group: `collect` may, too."""
    return bool(op.keys)


def _call(column: reads.Column) -> ex.AggregateCall:
    assert isinstance(column.value, ex.AggregateCall)
    return column.value


def _distinct(frame: Frame) -> Frame:
    rows = distinct_rows(list(frame.columns.values()), frame.length)
    columns = {name: column.take(pa.array(rows)) for name, column in frame.columns.items()}
    return Frame(len(rows), columns=columns)


def _spelled(key: reads.SortKey) -> str:
    if key.descending:
        return "DESC NULLS LAST"
    return "ASC NULLS LAST" if key.nulls_last else "ASC NULLS FIRST"
