"""Sorts, groups and distinct rows over more rows than fit in memory.

The pattern below the operator runs for some rows at a time (`frames_in_parts`). Each part is
written to disk as integers: the positions of the entities that later operators need. DuckDB sorts
these or gives them back group by group, and the operators that work in memory do the rest. So the
answers are the same.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ResourceLimit
from omnigraph.execute.evaluation.aggregates import (
    aggregate_frame,
    distinct_operands,
    distinct_rows,
    needs_partition,
    running_total,
)
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.evaluation.ordering import sort_frame
from omnigraph.execute.limits import QueryLimits, megabytes
from omnigraph.execute.topology.table_content import one_chunk
from omnigraph.execute.views.frame import Frame, PathBinding, join_frames
from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.plan.physical import (
    DistinctOn,
    Find,
    Follow,
    Keep,
    Point,
    Weigh,
    WeighBetween,
    with_input,
)

_PARTS = 8
_PARTITIONS = 1024
_WEIGHT = "weight"
# The bytes of an element of a path: its text and its offset.
_PATH_BYTES = 24
# Operators that make each row from one row of the input, independent of the others.
_STEPS = (
    reads.Expand,
    reads.Filter,
    reads.AntiJoin,
    reads.SemiJoin,
    reads.ExistsFilter,
    reads.Optional,
    reads.NodeScan,
    Find,
    Follow,
    Keep,
    Weigh,
    WeighBetween,
    DistinctOn,
    reads.Search,
)

PatternStep = Callable[[Frame], Frame]


@dataclass(frozen=True, slots=True)
class SpillSpace:
    """Where rows are written that do not fit in memory, and how many bytes."""

    directory: str | None
    limit_bytes: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class InParts:
    """An operator over the parts of its input."""

    frames: Callable[[], Iterator[Frame]]
    evaluator: Evaluator
    limits: QueryLimits
    space: SpillSpace

    def first_of(self, op: reads.OrderBy, wanted: int) -> Frame:
        """Keeps the first rows of all parts so far."""
        best: Frame | None = None
        for part in self.frames():
            few = sort_frame(op, part, self.evaluator, wanted)
            both = few if best is None else join_frames([best, few])
            best = sort_frame(op, replace(both, sorted_by=()), self.evaluator, wanted)
        assert best is not None, "an empty input fits in memory"
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
        """Aggregates without keys."""
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
        assert found is not None, "an empty input fits in memory"
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
    """Whether totals are enough. The result of `collect` is as large as the rows."""
    return not op.keys and all(_call(c).function != "collect" for c in op.aggregates)


def can_be_grouped(op: reads.Aggregate) -> bool:
    """Groups are independent, and rows keep their order in a group, as `collect` needs it."""
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


def steps_of(op: Any) -> list[Any] | None:
    """The operators of a pattern without their inputs, the first one first.

    None when an operator needs all rows together.
    """
    steps = []
    while isinstance(op, (*_STEPS, Point)):
        if not isinstance(op, Point):
            steps.append(with_input(op, reads.Rows()))
        op = op.input
    return steps[::-1] if isinstance(op, reads.Rows) else None


def frames_in_parts(steps: Sequence[PatternStep], frame: Frame) -> Iterator[Frame]:
    """The result of the steps for a frame, in parts that fit, in order.

    When the result does not fit, the frame is divided. A frame of one row is divided after the
    first step.
    """
    try:
        made = frame
        for step in steps:
            made = step(made)
    except ResourceLimit as limit:
        if limit.fields.get("limit") != "memory":
            raise
    else:
        yield made
        return
    if frame.length == 1:
        yield from frames_in_parts(steps[1:], steps[0](frame))
        return
    for rows in np.array_split(np.arange(frame.length), min(_PARTS, frame.length)):
        yield from frames_in_parts(steps, frame.take(rows, ordered=True))


class SpilledRows:
    """Positions of entities on disk, with the values by which they are sorted or grouped."""

    def __init__(self, space: SpillSpace, limits: QueryLimits, folder: str) -> None:
        self._space = space
        self._limits = limits
        self._file = Path(folder) / "rows.duckdb"
        duckdb = importlib.import_module("duckdb")
        self._connection = duckdb.connect(str(self._file))
        self._connection.execute(f"SET memory_limit = '{max(64, space.memory_bytes >> 20)}MB'")
        self._connection.execute("SET temp_directory = ?", [folder])
        self._connection.execute("SET threads = 2")
        self._like: Frame | None = None

    def close(self) -> None:
        self._connection.close()

    def add(self, frame: Frame, by: Sequence[Any]) -> None:
        """Write rows with the columns by which they are sorted or grouped."""
        assert not frame.columns
        assert frame.origin is None
        columns: dict[str, Any] = {f"p{v}": b.positions for v, b in frame.bindings.items()}
        columns |= {f"path{v}": p.ids for v, p in frame.paths.items()}
        columns |= {f"s{n}": scores for n, scores in enumerate(frame.scores.values())}
        if frame.weights is not None:
            columns[_WEIGHT] = frame.weights
        columns |= {f"by{n}": _sortable(values) for n, values in enumerate(by)}
        batch = pa.table(columns)
        self._connection.register("batch", batch)
        verb = "INSERT INTO spilled" if self._like is not None else "CREATE TABLE spilled AS"
        self._connection.execute(f"{verb} SELECT {self._partition(len(by))}, * FROM batch")
        self._connection.unregister("batch")
        self._like = self._like or frame
        self._check()

    def sorted(self, orders: Sequence[str]) -> Frame:
        """All rows in order."""
        if self._like is None:
            raise AssertionError("no rows were added")
        keys = ", ".join(f"by{n} {order}" for n, order in enumerate(orders))
        self._check()
        self._reserve_positions()
        return self._frame(f"ORDER BY {keys}")

    def groups(self) -> Iterator[Frame]:
        """As many groups at a time as fit, each with all of its rows."""
        if self._like is None:
            return
        counts = self._connection.execute(
            "SELECT part, count(*) FROM spilled GROUP BY part ORDER BY part"
        ).fetchall()
        columns = len(self._names())
        at = 0
        while at < len(counts):
            self._check()
            first, rows = counts[at]
            at += 1
            while at < len(counts) and self._limits.fits(rows + counts[at][1], columns):
                rows += counts[at][1]
                at += 1
            last = counts[at - 1][0]
            yield self._frame(f"WHERE part BETWEEN {first} AND {last}")

    def _reserve_positions(self) -> None:
        """Raise when even the positions, four bytes an entity, do not fit."""
        assert self._like is not None
        paths = "".join(f" + coalesce(sum(len(path{v})), 0)" for v in self._like.paths)
        ((rows, ids),) = self._connection.execute(
            f"SELECT count(*), 0{paths} FROM spilled"
        ).fetchall()
        row_bytes = 4 * len(self._like.bindings) + 8 * len(self._like.scores)
        needed = rows * max(4, row_bytes) + ids * _PATH_BYTES
        if needed > self._space.memory_bytes:
            raise ResourceLimit(
                f"the answer has {rows:,} rows, {megabytes(needed)} without any column; its "
                f"budget is {megabytes(self._space.memory_bytes)}. Add a limit or raise "
                "memory_bytes",
                limit="memory",
                rows=rows,
                needed_bytes=needed,
                budget_bytes=self._space.memory_bytes,
            )

    def _partition(self, by: int) -> str:
        names = ", ".join(f"by{n}" for n in range(by))
        return f"(hash({names}) % {_PARTITIONS})::INTEGER AS part" if by else "0 AS part"

    def _names(self) -> list[str]:
        """The columns of the frame."""
        like = self._like
        assert like is not None
        weights = [_WEIGHT] if like.weights is not None else []
        positions, paths = (f"p{v}" for v in like.bindings), (f"path{v}" for v in like.paths)
        return [*positions, *paths, *(f"s{n}" for n in range(len(like.scores))), *weights]

    def _frame(self, which: str) -> Frame:
        like = self._like
        assert like is not None
        statement = f"SELECT {', '.join(self._names())} FROM spilled {which}"
        found = self._connection.sql(statement).to_arrow_table()

        def column(name: str) -> Any:
            return found.column(name).to_numpy()

        return Frame(
            found.num_rows,
            {
                v: replace(b, positions=column(f"p{v}").astype(np.int32, copy=False))
                for v, b in like.bindings.items()
            },
            {v: PathBinding(one_chunk(found.column(f"path{v}"))) for v in like.paths},
            {slot: column(f"s{n}") for n, slot in enumerate(like.scores)},
            weights=column(_WEIGHT) if like.weights is not None else None,
        )

    def _check(self) -> None:
        self._limits.check()
        used = sum(entry.stat().st_size for entry in os.scandir(self._file.parent))
        if used > self._space.limit_bytes:
            raise ResourceLimit(
                f"the query writes more than {megabytes(self._space.limit_bytes)} of rows to disk;"
                " narrow it or raise spill_bytes",
                limit="spill",
                needed_bytes=used,
                budget_bytes=self._space.limit_bytes,
            )


@contextlib.contextmanager
def spilled_rows(space: SpillSpace, limits: QueryLimits) -> Iterator[SpilledRows]:
    """Rows on disk. The files are removed at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-spill-", dir=space.directory) as folder:
        rows = SpilledRows(space, limits, folder)
        try:
            yield rows
        finally:
            rows.close()


def _sortable(values: Any) -> Any:
    """A column that DuckDB sorts and groups as the operators in memory do."""
    if not isinstance(values, pa.Array):
        return values
    return pc.add(values, 0.0) if pa.types.is_floating(values.type) else values
