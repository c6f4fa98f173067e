"""Checks of a schema change on Spark: executors read the judged columns, fragment by fragment.

A rule about single rows is judged by the task that reads the rows. For rules about all rows the
tasks make the columns, and Spark groups and joins them. The answers are those of the local checks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from omnigraph.evolve.checks import (
    MOST_SAMPLES,
    STAGE,
    SYSTEM_COLUMNS,
    CheckedTables,
    ReadStored,
    Relations,
    RowCheck,
    RuleBreaks,
    made_batches,
    sql_names,
)
from omnigraph.evolve.local_checks import CHECK_HERE
from omnigraph.evolve.new_columns import NewColumns
from omnigraph.lance_store.reads.scan import ROWS_PER_TASK, fragment_groups, read_fragments
from omnigraph.lance_store.store import DatasetVersion, Store, VersionAddress
from omnigraph.progress import tell
from omnigraph.settings.models import PipelineSettings
from omnigraph.spark.column_types import spark_arrow_schema, spark_type, to_spark_batches
from omnigraph.spark.jobs import run_job, task_numbers
from omnigraph.spark.session import Session, spark_session
from omnigraph.spark.upkeep import SparkUpkeep
from omnigraph.values.identifiers import TableKey


@dataclass(frozen=True, slots=True)
class SparkChecks:
    """The `CheckEngine` of Spark."""

    settings: PipelineSettings
    rows_per_task: int = ROWS_PER_TASK

    def by_row(self, tables: CheckedTables, table: TableKey, check: RowCheck) -> RuleBreaks:
        if check.new.provider is not None:  # a provider of vectors is not sent to workers
            return CHECK_HERE.by_row(tables, table, check)
        at = _pinned(tables, table)
        groups = fragment_groups(tables.store, at, self.rows_per_task)

        def judge(store: Store, at: DatasetVersion, group: tuple[int, ...]) -> bytes:
            found = check.run(_reading(store.address(at), group))
            return json.dumps([found.count, found.sample_ids]).encode()

        def watch(done: int, total: int) -> None:
            tell(f"checking {table.type_name}", done, max(total, len(groups)), "tasks", STAGE)

        done = SparkUpkeep(self.settings).each("check", tables.store, at, groups, judge, watch)
        count, samples = 0, list[str]()
        for result in done:  # in the order of the stored rows
            assert result is not None
            some, ids = json.loads(result)
            count += some
            samples += ids
        return RuleBreaks(count, tuple(samples[:MOST_SAMPLES]))

    @contextmanager
    def relations(self, tables: CheckedTables) -> Iterator[Relations]:
        if any(columns.provider is not None for columns in tables.columns.values()):
            with CHECK_HERE.relations(tables) as here:
                yield here
            return
        found = _Frames(tables, spark_session(self.settings), self.rows_per_task)
        try:
            yield found
        finally:
            for frame in found.kept:
                frame.unpersist()


@dataclass(slots=True)
class _Frames:
    """`Relations` as DataFrames."""

    tables: CheckedTables
    session: Session
    rows_per_task: int
    frames: dict[str, Any] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)

    def read(self, name: str, table: TableKey, columns: Sequence[str]) -> None:
        new, at = self.tables.columns[table], _pinned(self.tables, table)
        schema = spark.StructType(
            [
                spark.StructField(named, _spark_type(new, column))
                for named, column in zip(sql_names(columns), columns, strict=True)
            ]
        )
        groups = fragment_groups(self.tables.store, at, self.rows_per_task)
        if not groups:
            self.frames[name] = self.session.createDataFrame([], schema)
            return
        make = _making(
            self.tables.store.address(at), groups, new, tuple(columns), spark_arrow_schema(schema)
        )
        numbers = task_numbers(self.session, len(groups))
        self.frames[name] = numbers.mapInArrow(make, schema)

    def keep(self, name: str, statement: str) -> None:
        self.frames[name] = self._frame(statement).persist()
        self.kept.append(self.frames[name])

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        frame = self._frame(statement)

        def watch(done: int, total: int) -> None:
            tell("checking", done, total, "tasks", STAGE)

        return [tuple(row) for row in run_job(self.session, "check", frame.collect, watch)]

    def _frame(self, statement: str) -> Any:
        named = {name: f for name, f in self.frames.items() if f"{{{name}}}" in statement}
        return self.session.sql(statement, **named)


def _spark_type(new: NewColumns, column: str) -> Any:
    if column in SYSTEM_COLUMNS:
        return spark.StringType()
    found = spark_type(new.column(column).after.type)
    # Arrow fills NULL lists with NULL items, and pyspark refuses to cast these otherwise.
    return spark.ArrayType(found.elementType) if isinstance(found, spark.ArrayType) else found


def _pinned(tables: CheckedTables, table: TableKey) -> DatasetVersion:
    return tables.snapshot.pin(tables.before(table)).at


def _reading(target: VersionAddress, fragments: tuple[int, ...]) -> ReadStored:
    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for table in read_fragments(target, fragments, columns):
            yield from table.to_batches()

    return read


def _making(
    target: VersionAddress,
    groups: tuple[tuple[int, ...], ...],
    new: NewColumns,
    columns: tuple[str, ...],
    wanted: pa.Schema,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over task numbers: the new columns of the fragments of each."""

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                read = _reading(target, groups[number])
                for made in made_batches(new, columns, read):
                    yield from to_spark_batches(pa.Table.from_batches([made]), wanted)

    return run
