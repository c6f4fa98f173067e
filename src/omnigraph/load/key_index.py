"""What the batch-wide checks look at, in DuckDB: bounded memory, the rest on disk.

`i<n>` holds the checked columns of the input rows of a type with their places, `s<n>` those of the
stored rows of a snapshot, `gone<n>` ids of stored rows that a cascade removes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.columns import ID
from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.integrity.rules import checked_columns
from omnigraph.load.spool import PLACE
from omnigraph.values.identifiers import TableKey

_ROWS_PER_BATCH = 1_000_000
_ROWS_PER_INSERT = 500_000


class KeyIndex:
    """One per load."""

    def __init__(self, catalog: Catalog, folder: Path, memory_bytes: int) -> None:
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": f"{memory_bytes // (1 << 20)}MiB",
                "temp_directory": str(folder / "duckdb"),
                "preserve_insertion_order": "false",
            },
        )
        self._numbers = {t.table_key: n for n, t in enumerate(catalog.entity_types())}
        self._columns = {t.table_key: checked_columns(t) for t in catalog.entity_types()}
        self._catalog = catalog
        self._present: set[str] = set()
        self._waiting: dict[TableKey, list[pa.Table]] = {}

    def close(self) -> None:
        self._connection.close()

    def input(self, key: TableKey) -> str:
        """The table of input rows; empty when there are none."""
        name = f"i{self._numbers[key]}"
        self._create(name, key, f", {PLACE} BIGINT")
        if waiting := self._waiting.pop(key, None):
            self.insert(name, pa.concat_tables(waiting))
        return name

    def stored(self, key: TableKey) -> str:
        """The table of stored rows. A check of rows that were never read would pass in silence."""
        name = f"s{self._numbers[key]}"
        assert name in self._present, f"the stored rows of {key} were not read"
        return name

    def fill_stored(self, key: TableKey, rows: pa.Table | pa.RecordBatchReader) -> None:
        """Stored rows; of columns that they do not have, NULL."""
        name = f"s{self._numbers[key]}"
        self._create(name, key, "")
        columns = quoted([c for c in self._columns[key] if c in rows.schema.names])
        with self.shown(rows) as shown:
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

    def add_input(self, entity: EntityType, table: pa.Table) -> None:
        """Inserted in large pieces, at the latest when somebody asks for the table."""
        key = entity.table_key
        waiting = self._waiting.setdefault(key, [])
        waiting.append(table.select([*self._columns[key], PLACE]))
        if sum(rows.num_rows for rows in waiting) >= _ROWS_PER_INSERT:
            self.input(key)

    def forget_stored(self) -> None:
        """A newer snapshot has other rows."""
        for name in [n for n in self._present if not n.startswith("i")]:
            self.run(f"DROP TABLE {name}")
            self._present.remove(name)

    def insert(self, name: str, rows: pa.Table | pa.RecordBatchReader) -> None:
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

    def _create(self, name: str, key: TableKey, more: str) -> None:
        if name in self._present:
            return
        schema = table_schema(self._catalog.entity_type(key))
        empty = schema.empty_table().select(list(self._columns[key]))
        with _Shown(self._connection, empty, "added") as added:
            self.run(f"CREATE TABLE {name} AS SELECT * FROM {added}")
        if more:
            self.run(f"ALTER TABLE {name} ADD COLUMN {PLACE} BIGINT")
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


def quoted(names: Sequence[str], prefix: str = "") -> str:
    """Columns for SQL: property names may be any word of DuckDB's."""
    return ", ".join(f'{prefix}"{name}"' for name in names)
