"""What one Spark task of a load does: parse a piece of input, check it, write its rows.

A task holds nothing but its plan and its piece, so it can run anywhere and again: only what the
winning attempt returns is adopted, files of the others are never named by anything.
"""

from __future__ import annotations

import os
import pickle
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph import failpoints
from omnigraph.catalog.model import ID, Catalog, EdgeType, EntityType
from omnigraph.embed.choose import choose_provider
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.errors import OmnigraphError
from omnigraph.integrity.row_checks import check_rows
from omnigraph.integrity.violations import Place, Places, Report, Violation
from omnigraph.lance_store.staging.written_fragments import WriteTarget, write_rows
from omnigraph.load.complete_rows import as_stored, with_ids
from omnigraph.load.sources import ReadOptions, Source
from omnigraph.load.typed_rows import Parsed, TypedRows
from omnigraph.settings.models import EmbeddingSettings
from omnigraph.spark.load.input_pieces import Piece, read_batches, read_piece
from omnigraph.spark.load.line_runs import Lines, encode_lines
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.derived import fill_embeddings

_ROWS_PER_FRAGMENT = 1024 * 1024
_BYTES_PER_FRAGMENT = 256 * 1024**2
RESULT = "task long, result binary"


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What every task of a load needs to know."""

    catalog: Catalog
    targets: Mapping[TableKey, WriteTarget]
    options: ReadOptions
    embedding: EmbeddingSettings
    """Of the graph, if some property wants vectors; workers then need the provider's key."""


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """Some fragments of one table, in row order, and the lines of their rows."""

    key: TableKey
    fragments: tuple[str, ...]
    rows: int
    lines: bytes
    given: bytes | None
    """Which rows came with an id or key, compressed; None when all did."""

    def has_id(self) -> npt.NDArray[np.bool_] | None:
        """Which rows came with an id or key; None when all did."""
        return None if self.given is None else np.frombuffer(zlib.decompress(self.given), np.bool_)


@dataclass(slots=True)
class TaskResult:
    """What a task tells the driver; lines count from the beginning of its piece."""

    task: int
    lines: int = 0
    bytes_read: int = 0
    parts: list[WrittenPart] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    error: OmnigraphError | None = None


def run_tasks(plan: LoadPlan, pieces: tuple[Piece, ...]) -> Any:
    """A function for `mapInArrow` over the numbers of the pieces."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = TaskResult(number)
                blocks = read_piece(pieces[number], plan.catalog, plan.options, result)
                yield _as_batch(run_task(plan, blocks, result))

    return run


def run_frame(plan: LoadPlan, source: Source) -> Any:
    """A function for `mapInArrow` over the rows themselves; a partition is a task."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        result = TaskResult(import_module("pyspark").TaskContext.get().partitionId())
        blocks = read_batches(source, batches, plan.catalog, plan.options, result)
        yield _as_batch(run_task(plan, blocks, result))

    return run


def run_task(plan: LoadPlan, blocks: Iterator[Parsed], result: TaskResult) -> TaskResult:
    """Fill `result` from the blocks of one piece."""
    report = Report()
    writers: dict[TableKey, _PartWriter] = {}
    try:
        provider = choose_provider(plan.embedding, os.environ, SYSTEM_CLOCK)
        for block in blocks:
            _take(plan, block, report, provider, writers)
            result.bytes_read += block.bytes_read
        if report.total == 0:
            for writer in writers.values():
                result.parts += writer.finish()
            failpoints.hit("pipeline.task_written")
    except OmnigraphError as error:
        # Bad input stays bad: told to the driver instead of tried four times.
        result.error = error
    result.violations = report.violations
    result.counts = report.counts
    return result


def _take(
    plan: LoadPlan,
    block: Parsed,
    report: Report,
    provider: EmbeddingProvider,
    writers: dict[TableKey, _PartWriter],
) -> None:
    for problem in block.problems:
        table = problem.entity.table_key if problem.entity is not None else None
        place = Place(block.file, problem.line)
        found = Violation(problem.rule, table, None, problem.property, problem.message, place)
        report.add(problem.rule, 1, [found])
    for entity, parts in _by_type(block).items():
        rows = _in_line_order(entity, parts)
        table = with_ids(entity, rows.table)
        if report.total == 0:
            table = fill_embeddings(entity, table, provider)
        check_rows(entity, table, report, _places(block.file, rows.lines))
        if report.total == 0:
            key = entity.table_key
            if key not in writers:
                writers[key] = _PartWriter(key, plan.targets[key])
            writers[key].add(as_stored(entity, table), rows.lines, _given(rows))


def _places(file: str, lines: Lines) -> Places:
    return lambda row: Place(file, int(lines[row]))


def _by_type(block: Parsed) -> dict[EntityType, list[TypedRows]]:
    found: dict[EntityType, list[TypedRows]] = {}
    for rows in block.rows:
        found.setdefault(rows.entity, []).append(rows)
    return found


def _in_line_order(entity: EntityType, parts: list[TypedRows]) -> TypedRows:
    if len(parts) == 1 and (np.diff(parts[0].lines) > 0).all():
        return parts[0]
    lines = np.concatenate([part.lines for part in parts])
    order = np.argsort(lines, kind="stable")
    table = pa.concat_tables([part.table for part in parts])
    return TypedRows(entity, table.take(pa.array(order)), lines[order])


def _given(rows: TypedRows) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if not isinstance(rows.entity, EdgeType) and rows.entity.key:
        return np.ones(len(rows.lines), bool)
    return np.asarray(rows.table.column(ID).is_valid().to_numpy())


class _PartWriter:
    """Gathers rows of one table and writes them when they fill a fragment."""

    def __init__(self, key: TableKey, target: WriteTarget) -> None:
        self._key = key
        self._target = target
        self._waiting: list[tuple[pa.Table, Lines, Any]] = []
        self._rows = self._bytes = 0
        self._parts: list[WrittenPart] = []

    def add(self, table: pa.Table, lines: Lines, given: Any) -> None:
        self._waiting.append((table, lines, given))
        self._rows += table.num_rows
        self._bytes += table.nbytes
        if self._rows >= _ROWS_PER_FRAGMENT or self._bytes >= _BYTES_PER_FRAGMENT:
            self._write()

    def finish(self) -> list[WrittenPart]:
        if self._waiting:
            self._write()
        return self._parts

    def _write(self) -> None:
        tables, lines, given = zip(*self._waiting, strict=True)
        rows = pa.concat_tables(tables)
        flags = np.concatenate(given)
        part = WrittenPart(
            self._key,
            write_rows(self._target, rows),
            rows.num_rows,
            encode_lines(np.concatenate(lines)),
            None if flags.all() else zlib.compress(flags.tobytes(), 1),
        )
        self._parts.append(part)
        self._waiting, self._rows, self._bytes = [], 0, 0


def shifted(violation: Violation, lines: int) -> Violation:
    """The same finding, its line counted from the beginning of the file."""
    place = violation.place
    if place is None or place.line is None:
        return violation
    return replace(violation, place=replace(place, line=place.line + lines))


def _as_batch(result: TaskResult) -> pa.RecordBatch:
    return pa.record_batch({"task": [result.task], "result": [pickle.dumps(result)]})
