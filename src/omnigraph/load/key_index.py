"""What the batch-wide checks look at: Arrow columns while they are few, DuckDB where joins are due.

In DuckDB memory is bounded and the rest on disk; it starts when something is asked of it. `i<n>`
holds the checked columns of the input rows of a type with their places, `s<n>` those of the stored
rows of a snapshot, `gone<n>` ids of stored rows that a cascade removes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID, SOURCE, TARGET, Catalog, EntityType
from omnigraph.integrity.rules import checked_columns
from omnigraph.load.prepare_rows import PLACE
from omnigraph.values.identifiers import TableKey

_ROWS_PER_BATCH = 1_000_000
_ROWS_PER_INSERT = 500_000
_HELD_SHARE = 8
"""Which part of the memory limit input rows may take outside DuckDB."""
_BYTES_PER_STORED_ID = 256
"""What an id and its place in a hash table take, generously."""

ReadStored = Callable[[Sequence[str]], pa.RecordBatchReader]
"""Reads these columns of the stored rows of a type."""


class KeyIndex:
    """One per load."""

    def __init__(self, catalog: Catalog, folder: Path, memory_bytes: int) -> None:
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._numbers = {t.table_key: n for n, t in enumerate(catalog.entity_types())}
        self._columns = {t.table_key: checked_columns(t) for t in catalog.entity_types()}
        self._schemas = {t.table_key: _narrow(t) for t in catalog.entity_types()}
        self._spelled = {key: _spelling(names) for key, names in self._columns.items()}
        self._present: set[str] = set()
        self._held: dict[TableKey, list[pa.Table]] = {}
        self._held_bytes = 0
        self._readers: dict[TableKey, tuple[int, ReadStored]] = {}

    @cached_property
    def _connection(self) -> Any:
        return duckdb.connect(
            ":memory:",
            config={
                "memory_limit": f"{self._memory_bytes // (1 << 20)}MiB",
                "temp_directory": str(self._folder / "duckdb"),
                "preserve_insertion_order": "false",
            },
        )

    def close(self) -> None:
        if "_connection" in self.__dict__:
            self._connection.close()

    def held(self, key: TableKey) -> pa.Table | None:
        """All input rows of a type, if they are in memory: checked columns and place."""
        if f"i{self._numbers[key]}" in self._present:
            return None
        parts = self._held.get(key)
        return pa.concat_tables(parts) if parts else self._schemas[key].empty_table()

    def input(self, key: TableKey) -> str:
        """The table of input rows; empty when there are none."""
        name = f"i{self._numbers[key]}"
        self._create(name, key, placed=True)
        if held := self._held.pop(key, None):
            self._held_bytes -= sum(rows.nbytes for rows in held)
            self.insert(name, pa.concat_tables(held))
        return name

    def stored(self, key: TableKey) -> str:
        """The table of stored rows. A check of rows that were never read would pass in silence."""
        name = f"s{self._numbers[key]}"
        if name not in self._present and key in self._readers:
            _, read = self._readers[key]
            self.fill_stored(key, read(self._columns[key]))
        assert name in self._present, f"the stored rows of {key} were not read"
        return name

    def offer_stored(self, key: TableKey, count: int, read: ReadStored) -> None:
        """There are `count` stored rows; `read` gets them when somebody asks."""
        self._readers[key] = count, read

    def stored_count(self, key: TableKey) -> int | None:
        """None: nobody offered them."""
        return self._readers[key][0] if key in self._readers else None

    def stored_ids(self, key: TableKey) -> pa.ChunkedArray | None:
        """All stored ids, unless they are too many for memory or were not offered."""
        count, read = self._readers.get(key, (None, None))
        if count is None or read is None or count * _BYTES_PER_STORED_ID > self._memory_bytes:
            return None
        if count == 0:
            return pa.chunked_array([], pa.string())
        return read([ID]).read_all().column(ID)

    def fill_stored(self, key: TableKey, rows: pa.Table | pa.RecordBatchReader) -> None:
        """Stored rows; of columns that they do not have, NULL."""
        name = f"s{self._numbers[key]}"
        self._create(name, key, placed=False)
        names = [c for c in self._columns[key] if c in rows.schema.names]
        columns = ", ".join(self.spelled(key, names))
        with self.shown(_renamed(rows, names, self.spelled(key, names))) as shown:
            self.run(f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {shown}")

    def has_rows(self, name: str) -> bool:
        return bool(self.rows(f"SELECT 1 FROM {name} LIMIT 1"))

    def gone(self, key: TableKey) -> str:
        name = f"gone{self._numbers[key]}"
        if name not in self._present:
            self.run(f"CREATE TABLE {name} ({ID} VARCHAR)")
            self._present.add(name)
        return name

    def columns(self, key: TableKey) -> tuple[str, ...]:
        return self._columns[key]

    def spelled(self, key: TableKey, names: Sequence[str]) -> list[str]:
        """What the tables here call these columns."""
        return [self._spelled[key][name] for name in names]

    def add_input(self, entity: EntityType, table: pa.Table) -> None:
        """Held in memory while they are few, else inserted in large pieces."""
        key = entity.table_key
        held = self._held.setdefault(key, [])
        held.append(table.select(self._schemas[key].names).cast(self._schemas[key]))
        self._held_bytes += held[-1].nbytes
        rows = sum(part.num_rows for part in held)
        if rows >= _ROWS_PER_INSERT and self._held_bytes * _HELD_SHARE > self._memory_bytes:
            self.input(key)

    def forget_stored(self) -> None:
        """A newer snapshot has other rows."""
        self._readers.clear()
        for name in [n for n in self._present if not n.startswith("i")]:
            self.run(f"DROP TABLE {name}")
            self._present.remove(name)

    def insert(self, name: str, rows: pa.Table | pa.RecordBatchReader) -> None:
        """Column by column, whatever they are called."""
        # Under another name: rows may be added while others are shown.
        with _Shown(self._connection, rows, "added") as added:
            self.run(f"INSERT INTO {name} SELECT * FROM {added}")

    def shown(self, rows: Any) -> _Shown:
        """Arrow rows as a table that queries can name."""
        return _Shown(self._connection, rows)

    def run(self, sql: str) -> None:
        self._connection.execute(sql).fetchall()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return list(self._connection.execute(sql).fetchall())

    def count(self, sql: str) -> int:
        return int(self.rows(sql)[0][0] or 0)

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """A large answer, a batch at a time; run nothing else until it is read."""
        reader: pa.RecordBatchReader = self._connection.sql(sql).to_arrow_reader(_ROWS_PER_BATCH)
        yield from reader

    def table(self, sql: str) -> pa.Table:
        return self._connection.sql(sql).to_arrow_table()

    def _create(self, name: str, key: TableKey, *, placed: bool) -> None:
        if name in self._present:
            return
        empty = self._schemas[key].empty_table()
        empty = empty.rename_columns([*self.spelled(key, self._columns[key]), PLACE])
        empty = empty if placed else empty.drop_columns([PLACE])
        with _Shown(self._connection, empty, "added") as added:
            self.run(f"CREATE TABLE {name} AS SELECT * FROM {added}")
        self._present.add(name)


class _Shown:
    """A registered Arrow object, for the time of a `with`."""

    def __init__(self, connection: Any, rows: Any, name: str = "shown") -> None:
        self._connection = connection
        self._rows = rows
        self._name = name

    def __enter__(self) -> str:
        self._connection.register(self._name, self._rows)
        return self._name

    def __exit__(self, *_: object) -> None:
        self._connection.unregister(self._name)


def _narrow(entity: EntityType) -> pa.Schema:
    """The checked columns and the place, all nullable: an id that was made here counts as none."""
    schema = table_schema(entity)
    checked = [schema.field(name).with_nullable(True) for name in checked_columns(entity)]
    return pa.schema([*checked, pa.field(PLACE, pa.int64())])


def _spelling(names: Sequence[str]) -> dict[str, str]:
    """Names for SQL: properties may be words of DuckDB's, which takes `name` and `Name` for one."""
    system = (ID, SOURCE, TARGET)
    return {name: name if name in system else f"p{n}" for n, name in enumerate(names)}


def _renamed(
    rows: pa.Table | pa.RecordBatchReader, names: Sequence[str], spelled: Sequence[str]
) -> pa.Table | pa.RecordBatchReader:
    """These columns under other names."""
    if isinstance(rows, pa.Table):
        return rows.select(names).rename_columns(spelled)
    fields = [
        rows.schema.field(name).with_name(other) for name, other in zip(names, spelled, strict=True)
    ]
    schema = pa.schema(fields)
    batches = (pa.record_batch(batch.select(names).columns, schema=schema) for batch in rows)
    return pa.RecordBatchReader.from_batches(schema, batches)
