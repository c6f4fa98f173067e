"""Checks of stored rows in this process; DuckDB keeps to a memory limit and spills to disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from omnigraph.evolve.checks import (
    STAGE,
    CheckedTables,
    CheckEngine,
    ReadStored,
    Relations,
    RowCheck,
    RuleBreaks,
    made_batches,
    sql_names,
)
from omnigraph.lance_store.reads.scan import read_batches
from omnigraph.progress import teller
from omnigraph.values.identifiers import TableKey
from omnigraph.yielding import GiveWay

_BATCH_ROWS = 64 * 1024


class _Here:
    """The `CheckEngine` of this process."""

    def by_row(self, tables: CheckedTables, table: TableKey, check: RowCheck) -> RuleBreaks:
        return check.run(_stored(tables, table))

    @contextmanager
    def relations(self, tables: CheckedTables) -> Iterator[Relations]:
        with tempfile.TemporaryDirectory(prefix="omnigraph-checks-") as folder:
            database = duckdb.connect(
                ":memory:",
                config={
                    "memory_limit": f"{max(tables.memory_bytes // (1 << 20), 64)}MiB",
                    "temp_directory": folder,
                    "preserve_insertion_order": "false",
                },
            )
            try:
                yield _Database(tables, database)
            finally:
                database.close()


CHECK_HERE: CheckEngine = _Here()


def check_here(_: int) -> CheckEngine:
    """A `ChooseEngine` without Spark."""
    return CHECK_HERE


@dataclass(slots=True)
class _Database:
    """`Relations` in DuckDB."""

    tables: CheckedTables
    database: Any
    names: dict[str, str] = field(default_factory=dict)

    def read(self, name: str, table: TableKey, columns: Sequence[str]) -> None:
        self.database.register(name, _reader(self.tables, table, columns))
        self.names[name] = name

    def keep(self, name: str, statement: str) -> None:
        self.database.execute(f"CREATE TEMP TABLE {name} AS {statement.format(**self.names)}")
        self.names[name] = name

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.database.sql(statement.format(**self.names)).fetchall()
        return found


def _stored(tables: CheckedTables, table: TableKey) -> ReadStored:
    """Reads stored columns, tells how far it is, and gives way to writers of this process."""
    dataset = tables.store.open(tables.snapshot.pin(tables.before(table)).at)
    total, tell = tables.row_count(table), teller()  # DuckDB reads in its own threads

    def read(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        done, give_way = 0, GiveWay()
        for batch in read_batches(dataset, names, batch_rows=_BATCH_ROWS):
            yield batch
            give_way()
            done += batch.num_rows
            tell(f"checking {table.type_name}", done, total, "rows", STAGE)

    return read


def _reader(tables: CheckedTables, table: TableKey, names: Sequence[str]) -> pa.RecordBatchReader:
    batches = made_batches(tables.columns[table], names, _stored(tables, table))
    first = next(batches, None)
    if first is None:
        kinds = pa.schema([pa.field(name, pa.string()) for name in sql_names(names)])
        return pa.RecordBatchReader.from_batches(kinds, [])

    def all_of() -> Iterator[pa.RecordBatch]:
        yield first
        yield from batches

    return pa.RecordBatchReader.from_batches(first.schema, all_of())
