"""Rows that do not fit in memory: made in parts, kept on disk as positions, taken back in order.

The pattern below a sort or a grouping is run for some of its first rows at a time. What is kept of
each part are integers: the positions of the entities somebody above still asks for. DuckDB sorts
them, or gives them back group by group, and the operators of memory do the rest: same answers.
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
from omnigraph.plan.physical import DistinctOn, Find, Follow, Keep, Weigh, with_input

_PARTS = 8
_PARTITIONS = 1024
_WEIGHT = "weight"
# An element of a path that comes back: its text, and where that starts.
_PATH_BYTES = 24
# Each row of these is made of one row of the input, whatever the others are.
_STEPS = (
    reads.Expand,
    reads.Filter,
    reads.AntiJoin,
    reads.Optional,
    reads.NodeScan,
    Find,
    Follow,
    Keep,
    Weigh,
    DistinctOn,
    reads.Search,
)

PatternStep = Callable[[Frame], Frame]


@dataclass(frozen=True, slots=True)
class SpillSpace:
    """Where rows wait that do not fit, and how many bytes of them."""

    directory: str | None
    limit_bytes: int
    memory_bytes: int


def steps_of(op: Any) -> list[Any] | None:
    """A pattern step by step, the first one first, each standing alone.

    None when rows of it depend on one another: they can only be made together.
    """
    steps = []
    while isinstance(op, _STEPS):
        steps.append(with_input(op, reads.Rows()))
        op = op.input
    if not isinstance(op, reads.Rows) or op.variables:
        return None
    return steps[::-1]


def frames_in_parts(steps: Sequence[PatternStep], frame: Frame) -> Iterator[Frame]:
    """What the steps make of a frame, in parts that fit and in order.

    Where it does not fit they are done for some of the rows at a time; where that is a single row,
    for some of the rows that the first step makes of it.
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
    """Positions of entities on disk, with what they are sorted or grouped by."""

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
        """Rows and the columns they are ordered or grouped by."""
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
        """Everything in order; only the positions come back."""
        if self._like is None:
            raise AssertionError("nothing was spilled")
        keys = ", ".join(f"by{n} {order}" for n, order in enumerate(orders))
        self._check()
        self._reserve_positions()
        return self._frame(f"ORDER BY {keys}")

    def groups(self) -> Iterator[Frame]:
        """Some groups at a time, each with all of its rows, as many as fit."""
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
        """What comes back are four bytes an entity; even that may be too much."""
        assert self._like is not None
        paths = "".join(f" + coalesce(sum(len(path{v})), 0)" for v in self._like.paths)
        ((rows, ids),) = self._connection.execute(
            f"SELECT count(*), 0{paths} FROM spilled"
        ).fetchall()
        row_bytes = 4 * len(self._like.bindings) + 8 * len(self._like.scores)
        needed = rows * max(4, row_bytes) + ids * _PATH_BYTES
        if needed > self._space.memory_bytes:
            raise ResourceLimit(
                f"the answer has {rows:,} rows, {megabytes(needed)} before any column is read; its "
                f"budget is {megabytes(self._space.memory_bytes)}. Add a limit or raise "
                "memory_bytes",
                limit="memory",
                rows=rows,
                needed_bytes=needed,
            )

    def _partition(self, by: int) -> str:
        names = ", ".join(f"by{n}" for n in range(by))
        return f"(hash({names}) % {_PARTITIONS})::INTEGER AS part" if by else "0 AS part"

    def _names(self) -> list[str]:
        """The columns that come back."""
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
                f"the query keeps more than {megabytes(self._space.limit_bytes)} of rows on disk;"
                " narrow it or raise spill_bytes",
                limit="spill",
                budget_bytes=self._space.limit_bytes,
            )


@contextlib.contextmanager
def spilled_rows(space: SpillSpace, limits: QueryLimits) -> Iterator[SpilledRows]:
    """Rows on disk until the block is left; nothing stays behind."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-spill-", dir=space.directory) as folder:
        rows = SpilledRows(space, limits, folder)
        try:
            yield rows
        finally:
            rows.close()


def _sortable(values: Any) -> Any:
    """A column DuckDB orders and tells apart as we do."""
    if not isinstance(values, pa.Array):
        return values
    return pc.add(values, 0.0) if pa.types.is_floating(values.type) else values


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
