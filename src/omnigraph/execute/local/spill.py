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
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.local.frame import Frame
from omnigraph.ir import reads
from omnigraph.plan.physical import DistinctOn, Find, Follow, Keep, Weigh, with_input

_FIRST_PARTS = 16
_PARTITIONS = 32
_WEIGHT = "weight"
_CHAIN = (
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
)

Run = Callable[[Frame], Frame]


@dataclass(frozen=True, slots=True)
class SpillSpace:
    """Where rows wait that do not fit, and how many bytes of them."""

    directory: str | None
    limit_bytes: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Parts:
    """A pattern cut at its first scan: what is run for some of the scan's rows at a time."""

    above: Any
    first: Any


def frames_in_parts(first: Run, above: Run, start: Frame) -> Iterator[Frame]:
    """The rows in parts that fit; a part that does not is cut again."""
    begin = first(start)
    at, size = 0, max(1, begin.length // _FIRST_PARTS)
    while at < begin.length:
        rows = np.arange(at, min(at + size, begin.length))
        try:
            part = above(begin.take(rows, ordered=True))
        except ResourceLimit as limit:
            if limit.fields.get("limit") != "memory" or size == 1:
                raise
            size = max(1, size // 4)
            continue
        at += len(rows)
        yield part


def parts_of(op: Any) -> Parts | None:
    """None when the rows of a pattern depend on one another, or nothing can be cut."""
    chain = []
    while isinstance(op, _CHAIN):
        chain.append(op)
        op = op.input
    if not isinstance(op, reads.Rows) or op.variables or len(chain) < 2:
        return None
    above: Any = reads.Rows()
    for step in reversed(chain[:-1]):
        above = with_input(step, above)
    return Parts(above, chain[-1])


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
        if frame.paths or frame.scores or frame.columns or frame.origin is not None:
            raise ResourceLimit(
                "paths and scores of so many rows cannot be kept on disk; narrow the query or "
                "raise memory_bytes",
                limit="memory",
            )
        columns: dict[str, Any] = {f"p{v}": b.positions for v, b in frame.bindings.items()}
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
        return self._frame(f"SELECT {self._names()} FROM spilled ORDER BY {keys}")

    def groups(self) -> Iterator[Frame]:
        """Some groups at a time, each with all of its rows."""
        for part in range(_PARTITIONS):
            self._check()
            frame = self._frame(f"SELECT {self._names()} FROM spilled WHERE part = {part}")
            if frame.length:
                yield frame

    def _reserve_positions(self) -> None:
        """What comes back are four bytes an entity; even that may be too much."""
        assert self._like is not None
        ((rows,),) = self._connection.execute("SELECT count(*) FROM spilled").fetchall()
        needed = rows * 4 * max(1, len(self._like.bindings))
        if needed > self._space.memory_bytes:
            raise ResourceLimit(
                f"the answer has {rows:,} rows, {needed / 1e9:.1f} GB as positions alone; its "
                f"budget is {self._space.memory_bytes / 1e9:.1f} GB. Add a limit or raise "
                "memory_bytes",
                limit="memory",
                rows=rows,
                needed_bytes=needed,
            )

    def _partition(self, by: int) -> str:
        names = ", ".join(f"by{n}" for n in range(by))
        return f"hash({names}) % {_PARTITIONS} AS part" if by else "0 AS part"

    def _names(self) -> str:
        assert self._like is not None
        weights = [_WEIGHT] if self._like.weights is not None else []
        return ", ".join([*(f"p{v}" for v in self._like.bindings), *weights])

    def _frame(self, statement: str) -> Frame:
        assert self._like is not None
        found = self._connection.sql(statement).to_arrow_table()
        bindings = {
            v: replace(b, positions=found.column(f"p{v}").to_numpy().astype(np.int32, copy=False))
            for v, b in self._like.bindings.items()
        }
        weights = found.column(_WEIGHT).to_numpy() if self._like.weights is not None else None
        return Frame(found.num_rows, bindings, weights=weights)

    def _check(self) -> None:
        self._limits.check()
        used = sum(entry.stat().st_size for entry in os.scandir(self._file.parent))
        if used > self._space.limit_bytes:
            raise ResourceLimit(
                f"the query keeps more than {self._space.limit_bytes / 1e9:.1f} GB of rows on disk;"
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
    if pa.types.is_nested(values.type):
        raise ResourceLimit(
            "lists and objects of so many rows cannot be sorted or grouped on disk; narrow the "
            "query or raise memory_bytes",
            limit="memory",
        )
    return pc.add(values, 0.0) if pa.types.is_floating(values.type) else values
