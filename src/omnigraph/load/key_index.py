"""The columns that checks of a whole load compare: in Arrow while they are few, else read again.

Many rows are only offered: proofs read them again in chunks, and DuckDB gets them if a proof fails.
To hold them would cost more than to read them, because memory that is new to a process is slow.

DuckDB bounds its memory and keeps the rest on disk. It is started by the first query. Its tables
for the type with number n: `i<n>` has the checked columns and places of the input rows, `s<n>` the
checked columns of the stored rows, `gone<n>` the ids of stored rows that a mirror or a cascade
removes.

In modes that match, `match_edges` finds the stored edges that input rows without an id
mean. `m<n>` has the place of such a row, the id of the edge, and whether the two are equal. `r<n>`
then stands for `i<n>`: without equal rows, and with the ids of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID, SOURCE, TARGET, Catalog, EdgeType, EntityType
from omnigraph.integrity.rules import checked_columns, edges_touching
from omnigraph.load.json_columns import one_array
from omnigraph.load.prepare_rows import PLACE
from omnigraph.load.proofs import (
    DistinctRows,
    FoundEnds,
    IdHashes,
    IdSet,
    IdTable,
    all_among,
    no_row_twice,
)
from omnigraph.values.identifiers import TableKey

_ROWS_PER_BATCH = 1_000_000
_HELD_ROWS = 500_000
"""More input rows of a type are not held if they can be read again."""
_HELD_SHARE = 8
"""Input rows may take 1/8 of the memory limit outside DuckDB."""
MANY_ROWS = 2_000_000
"""For the proofs of a load of so many rows it is worth loading compiled loops."""

ReadStored = Callable[[Sequence[str]], pa.RecordBatchReader]
"""Reads these columns of the stored rows of a type."""
ReadInput = Callable[[Sequence[str]], Iterator[pa.Table]]
"""Reads these columns of the input rows of a type, some rows at a time."""


class KeyIndex:
    """One per load."""

    def __init__(self, catalog: Catalog, folder: Path, memory_bytes: int) -> None:
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._numbers = {t.table_key: n for n, t in enumerate(catalog.entity_types())}
        self._columns = {t.table_key: checked_columns(t) for t in catalog.entity_types()}
        self._schemas = {t.table_key: _narrow(t) for t in catalog.entity_types()}
        self._edges = {t.table_key: _edges_of(catalog, t) for t in catalog.entity_types()}
        self._spelled = {key: _spelling(names) for key, names in self._columns.items()}
        self._present: set[str] = set()
        self._held: dict[TableKey, list[pa.Table]] = {}
        self._held_bytes = 0
        self._offered: dict[TableKey, _OfferedRows] = {}
        self._input_ids: dict[TableKey, IdSet | None] = {}
        self._readers: dict[TableKey, tuple[int, ReadStored]] = {}
        self._epochs: dict[TableKey, str] = {}
        self._found_ends: dict[tuple[TableKey, TableKey], FoundEnds] = {}
        self._hashed_ids: dict[TableKey, DistinctRows] = {}
        self._matches: dict[TableKey, pa.Table] = {}
        self._resolved: dict[TableKey, pa.Table] = {}

    @property
    def memory_bytes(self) -> int:
        return self._memory_bytes

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
        """All input rows of a type, checked columns and place; None if they are not in memory."""
        if f"r{self._numbers[key]}" in self._present:
            return None
        return self._resolved[key] if key in self._resolved else self._all_held(key)

    def _all_held(self, key: TableKey) -> pa.Table | None:
        if f"i{self._numbers[key]}" in self._present:
            return None
        parts = self._held.get(key)
        if offered := self._offered.get(key):
            if offered.size is None or offered.size * _HELD_SHARE > self._memory_bytes:
                return None
            parts = [
                rows.cast(self._schemas[key]) for rows in offered.read(self._schemas[key].names)
            ]
        return pa.concat_tables(parts) if parts else self._schemas[key].empty_table()

    def chunks(self, key: TableKey, columns: Sequence[str]) -> Iterator[pa.Table] | None:
        """Columns of all input rows, some rows at a time; None if the rows are in DuckDB."""
        if key in self._offered and not self.is_resolved(key):
            return self._offered[key].read(columns)
        held = self.held(key)
        return None if held is None else iter([held.select(list(columns))])

    def has_no_row_twice(self, key: TableKey, columns: Sequence[str]) -> bool:
        """Proven: no two input rows have equal values, none of them NULL, in these columns."""
        chunks = self.chunks(key, columns)
        return chunks is not None and no_row_twice(chunks, self._folder)

    def input_ids(self, key: TableKey) -> IdSet | None:
        """The ids of all input rows; None if they are in DuckDB or too long."""
        if key not in self._input_ids:
            chunks = self.chunks(key, [ID])
            if chunks is None:
                return None
            ids = (chunk.column(ID) for chunk in chunks)
            self._input_ids[key] = self._id_set(ids, self.input_count(key))
        return self._input_ids[key]

    def _id_set(self, ids: Iterable[pa.ChunkedArray], count: int) -> IdSet | None:
        """The set of `count` ids; None if proofs cannot use them."""
        fits = IdTable.fits(count, self._memory_bytes)
        if fits and sum(map(self.input_count, self._numbers)) >= MANY_ROWS:
            return IdTable.of(ids, count)
        return IdHashes.of(ids, self._folder)

    def input_count(self, key: TableKey) -> int:
        """How many input rows of a type are held or offered, and not in DuckDB."""
        if key in self._offered:
            return self._offered[key].rows
        return sum(part.num_rows for part in self._held.get(key, ()))

    def has_distinct_ids(self, key: TableKey) -> bool:
        """Proven: no two input rows have one id."""
        if self._is_only_distinct(key):
            hashed = self._hashed_ids.get(key)
            if self.has_no_row_twice(key, [ID]) if hashed is None else hashed.are_distinct():
                return True
        ids = self.input_ids(key)
        return ids is not None and ids.are_distinct

    def _is_only_distinct(self, key: TableKey) -> bool:
        """No other proof needs the set of the ids: no row is stored, no input edge may end here."""
        return self.stored_count(key) == 0 and not any(map(self.input_count, self._edges[key]))

    def forget_ids(self) -> None:
        """Free the memory of `input_ids`, which makes them again if they are needed again."""
        self._input_ids.clear()

    def all_among(self, texts: Iterable[pa.ChunkedArray], known: Sequence[IdSet]) -> bool:
        """Proven: every text is in one of the sets."""
        return all_among(texts, known, self._folder)

    def has_no_stored_id(self, key: TableKey) -> bool:
        """Proven: no input row has the id of a stored row."""
        ids, stored = self.input_ids(key), self.stored_ids(key)
        return ids is not None and stored is not None and ids.has_none(stored, self._folder)

    def input(self, key: TableKey) -> str:
        """The name of the DuckDB table of input rows."""
        resolved = f"r{self._numbers[key]}"
        if key in self._resolved:
            self._create(resolved, key, placed=True)
            self.insert(resolved, self._resolved.pop(key))
        return resolved if resolved in self._present else self._unresolved(key)

    def _unresolved(self, key: TableKey) -> str:
        name = f"i{self._numbers[key]}"
        self._create(name, key, placed=True)
        if key in self._offered:
            for rows in self._offered.pop(key).read(self._schemas[key].names):
                self.insert(name, rows.cast(self._schemas[key]))
        if held := self._forget_held(key):
            self.insert(name, pa.concat_tables(held))
        return name

    def stored(self, key: TableKey) -> str:
        """The name of the DuckDB table of stored rows.

        It fails for rows that were never read, because a check of an empty table always passes.
        """
        name = f"s{self._numbers[key]}"
        if name not in self._present and key in self._readers:
            _, read = self._readers[key]
            self.fill_stored(key, read(self._columns[key]))
        assert name in self._present, f"the stored rows of {key} were not read"
        return name

    def offer_stored(self, key: TableKey, count: int, epoch: str, read: ReadStored) -> None:
        """Name the reader of `count` stored rows; it is called when a check needs them.

        `epoch` is the content epoch of these rows.
        """
        self._readers[key] = count, read
        self._epochs[key] = epoch

    def offer_ends(self, edge: TableKey, node: TableKey, found: FoundEnds) -> None:
        """Input edges whose ends are looked up among stored nodes while they are read."""
        self._found_ends[edge, node] = found

    def hash_ids(self, key: TableKey) -> DistinctRows:
        """For the ids of all input rows of a type, which are hashed while they are in memory."""
        self._hashed_ids[key] = DistinctRows(self._folder)
        return self._hashed_ids[key]

    def found_ends(self, edge: TableKey, node: TableKey) -> FoundEnds | None:
        """None if no ends were looked up, or if other nodes are stored now."""
        found = self._found_ends.get((edge, node))
        return found if found is not None and found.epoch == self._epochs.get(node) else None

    def stored_count(self, key: TableKey) -> int | None:
        """None if `offer_stored` was not called for the type."""
        return self._readers[key][0] if key in self._readers else None

    def stored_ids(self, key: TableKey) -> Iterator[pa.ChunkedArray] | None:
        """All stored ids, some at a time; None if `offer_stored` was not called for the type."""
        if key not in self._readers:
            return None
        count, read = self._readers[key]
        if count == 0:
            return iter(())
        return (pa.chunked_array([batch.column(0)]) for batch in read([ID]))

    def stored_id_set(self, key: TableKey) -> IdSet | None:
        """All stored ids; None if one is too long, or if they were not offered."""
        ids, count = self.stored_ids(key), self.stored_count(key)
        return None if ids is None or count is None else self._id_set(ids, count)

    def fill_stored(self, key: TableKey, rows: pa.Table | pa.RecordBatchReader) -> None:
        """Put stored rows into DuckDB; columns that they lack are NULL."""
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
        """The names of these columns in DuckDB."""
        return [self._spelled[key][name] for name in names]

    def offer_input(self, key: TableKey, count: int, read: ReadInput) -> None:
        """Name the reader of all input rows of a type, which has `count` of them."""
        self._offered[key] = _OfferedRows(read, count)
        self._input_ids.pop(key, None)

    def add_input(
        self, entity: EntityType, table: pa.Table, again: ReadInput | None = None
    ) -> None:
        """Hold rows in memory while they are few; many rows are read again, or go to DuckDB.

        `again` reads all input rows of the type, those of earlier calls too.
        """
        key = entity.table_key
        self._input_ids.pop(key, None)
        rows = table.select(self._schemas[key].names)
        if key in self._offered:
            self._offered[key].add(rows)
            return
        held = self._held.setdefault(key, [])
        held.append(rows.cast(self._schemas[key]))
        self._held_bytes += held[-1].nbytes
        if sum(part.num_rows for part in held) <= _HELD_ROWS:
            return
        if again is not None:
            self._offered[key] = _OfferedRows(again, 0, 0)
            for part in self._forget_held(key):
                self._offered[key].add(part)
        elif self._held_bytes * _HELD_SHARE > self._memory_bytes:
            self.input(key)

    def _forget_held(self, key: TableKey) -> list[pa.Table]:
        held = self._held.pop(key, [])
        self._held_bytes -= sum(rows.nbytes for rows in held)
        return held

    def matches(self, key: TableKey) -> str:
        """The name of the DuckDB table of matched input rows, which is empty at first."""
        name = f"m{self._numbers[key]}"
        if name not in self._present:
            self.run(f"CREATE TABLE {name} ({PLACE} BIGINT, {ID} VARCHAR, equal BOOLEAN)")
            self._present.add(name)
            if key in self._matches:
                self.insert(name, self._matches[key])
        return name

    def hold_matches(self, key: TableKey, matches: pa.Table) -> None:
        """Keep the columns of `matches` in memory until a query needs them."""
        self._matches[key] = matches

    def compare_matches(self, key: TableKey) -> None:
        """Let no matched row count as equal, so that all of them stay in the input."""
        if key in self._matches:
            found = self._matches[key]
            equal = pa.repeat(False, found.num_rows)
            self._matches[key] = found.set_column(2, found.schema.field(2), equal)
        name = f"m{self._numbers[key]}"
        if name in self._present:
            self.run(f"UPDATE {name} SET equal = false")

    def copy_input(self, other: KeyIndex, key: TableKey) -> None:
        """Take the input rows of a type from another index of the same load."""
        if key in other._offered and not other.is_resolved(key):
            self._offered[key] = other._offered[key]
            return
        held = other.held(key)
        if held is not None:
            self._held[key] = [held]
            self._held_bytes += held.nbytes
            return
        name = f"i{self._numbers[key]}"
        self._create(name, key, placed=True)
        for batch in other.batches(f"SELECT * FROM {other.input(key)}"):
            self.insert(name, pa.Table.from_batches([batch]))

    def has_matches(self, key: TableKey) -> bool:
        if key in self._matches:
            return bool(self._matches[key].num_rows)
        return self.has_rows(self.matches(key))

    def resolve(self, key: TableKey) -> None:
        """Let `input` and `held` follow the matches of a type."""
        self._input_ids.pop(key, None)
        held = self._all_held(key)
        if held is None:
            matches = self.matches(key)
            spelled = self.spelled(key, self._columns[key])
            columns = ", ".join(
                f"coalesce(m.{ID}, i.{ID}) AS {ID}" if name == ID else f"i.{name}"
                for name in (*spelled, PLACE)
            )
            name = f"r{self._numbers[key]}"
            self.run(
                f"CREATE TABLE {name} AS SELECT {columns} FROM {self._unresolved(key)} i "
                f"LEFT JOIN {matches} m USING ({PLACE}) WHERE m.equal IS NOT TRUE"
            )
            self._present.add(name)
            return
        found = self._matches.get(key)
        found = self.table(f"SELECT * FROM {self.matches(key)}") if found is None else found
        if found.num_rows == held.num_rows and pc.all(found.column("equal")).as_py():
            self._resolved[key] = held.slice(0, 0)
            return
        position = pc.index_in(held.column(PLACE), value_set=found.column(PLACE).combine_chunks())
        equal = pc.fill_null(found.column("equal").take(position), False)
        ids = pc.coalesce(found.column(ID).take(position), held.column(ID))
        renamed = held.set_column(held.schema.get_field_index(ID), held.schema.field(ID), ids)
        self._resolved[key] = renamed.filter(pc.invert(equal))

    def is_resolved(self, key: TableKey) -> bool:
        """`input` and `held` follow the matches of this type."""
        return key in self._resolved or f"r{self._numbers[key]}" in self._present

    def put_values(self, key: TableKey, rows: pa.Table) -> None:
        """Let `input` and `held` have these values of checked columns in the rows of these places.

        `forget_stored` takes them back, as it does with matches.
        """
        self._input_ids.pop(key, None)
        names = [name for name in rows.column_names if name != PLACE]
        held = self.held(key)
        if held is not None:
            position = pc.index_in(
                held.column(PLACE), value_set=rows.column(PLACE).combine_chunks()
            )
            for name in names:
                place = held.schema.get_field_index(name)
                values = pc.if_else(
                    position.is_valid(), rows.column(name).take(position), held.column(place)
                )
                held = held.set_column(place, held.schema.field(place), values)
            self._resolved[key] = held
            return
        resolved, spelled = f"r{self._numbers[key]}", self.spelled(key, names)
        if resolved not in self._present:
            self.run(f"CREATE TABLE {resolved} AS SELECT * FROM {self._unresolved(key)}")
            self._present.add(resolved)
        sets = ", ".join(f"{name} = n.{name}" for name in spelled)
        with self.shown(_renamed(rows, [*names, PLACE], [*spelled, PLACE])) as shown:
            self.run(
                f"UPDATE {resolved} SET {sets} FROM {shown} n WHERE {resolved}.{PLACE} = n.{PLACE}"
            )

    def has_renamed(self, key: TableKey) -> bool:
        """Some input row has the id of a stored edge that it may change."""
        if key in self._matches:
            equal = self._matches[key].column("equal")
            return bool(pc.any(pc.invert(equal), min_count=0).as_py())
        return self.has_rows(f"(SELECT 1 FROM {self.matches(key)} WHERE NOT equal)")

    def is_empty(self, key: TableKey) -> bool:
        """No input row is left to write: each of them equals a stored edge."""
        held = self.held(key)
        return not self.has_rows(self.input(key)) if held is None else held.num_rows == 0

    def written_ids(self, key: TableKey, rows: pa.Table) -> pa.Array:
        """The ids with which these rows are written; NULL for a row that is not written.

        A row is not written if a later row of the input has its id, or if it equals a stored edge.
        """
        with self.shown(rows.select([PLACE])) as shown:
            kept = self.table(
                f"SELECT {PLACE}, i.{ID} FROM {shown} JOIN {self.input(key)} i USING ({PLACE})"
            )
        position = pc.index_in(rows.column(PLACE), value_set=kept.column(PLACE).combine_chunks())
        ids = pc.coalesce(kept.column(ID).take(position), rows.column(ID))
        return one_array(pc.if_else(position.is_valid(), ids, pa.scalar(None, pa.string())))

    def is_kept(self, key: TableKey, rows: pa.Table) -> pa.ChunkedArray:
        """A mask of the rows that were not removed from the index."""
        with self.shown(rows.select([PLACE])) as shown:
            places = self.table(
                f"SELECT {PLACE} FROM {shown} SEMI JOIN {self._unresolved(key)} USING ({PLACE})"
            )
        found = places.column(PLACE).combine_chunks()
        return pc.is_in(rows.column(PLACE), value_set=found)

    def as_written(self, key: TableKey, rows: pa.Table) -> pa.Table:
        """`rows` with their `written_ids`, and without the rows that are not written."""
        ids = self.written_ids(key, rows)
        position = rows.schema.get_field_index(ID)
        renamed = rows.set_column(position, rows.schema.field(position), ids)
        return renamed.filter(ids.is_valid()) if ids.null_count else renamed

    def drop_earlier(self, key: TableKey) -> None:
        """Of several input rows with one id, keep only the last; the others are put aside."""
        self._input_ids.pop(key, None)
        name, aside = self._unresolved(key), f"i{self._numbers[key]}_earlier"
        self._create(aside, key, placed=True)
        earlier = (
            f"FROM {name} WHERE {ID} IS NOT NULL AND {PLACE} NOT IN "
            f"(SELECT max({PLACE}) FROM {name} WHERE {ID} IS NOT NULL GROUP BY {ID})"
        )
        self.run(f"INSERT INTO {aside} SELECT * {earlier}")
        self.run(f"DELETE {earlier}")

    def drop(self, key: TableKey, numbers: Collection[int]) -> list[str | None]:
        """Remove input rows by their places; returns the ids of those that were there.

        Of rows that were put aside, the last with such an id comes back.
        """
        self._input_ids.pop(key, None)
        name, aside = self._unresolved(key), f"i{self._numbers[key]}_earlier"
        with self.shown(pa.table({PLACE: pa.array(sorted(numbers), pa.int64())})) as shown:
            found = self.rows(f"SELECT {ID} FROM {name} SEMI JOIN {shown} USING ({PLACE})")
            self.run(f"DELETE FROM {name} WHERE {PLACE} IN (SELECT {PLACE} FROM {shown})")
        ids = [identity for (identity,) in found]
        if aside in self._present:
            with self.shown(pa.table({ID: pa.array(ids, pa.string())})) as shown:
                last = (
                    f"SELECT max({PLACE}) FROM {aside} SEMI JOIN {shown} USING ({ID}) GROUP BY {ID}"
                )
                self.run(f"INSERT INTO {name} SELECT * FROM {aside} WHERE {PLACE} IN ({last})")
            self.run(f"DELETE FROM {aside} WHERE {PLACE} IN (SELECT {PLACE} FROM {name})")
        return ids

    def left_out(self, key: TableKey, ids: pa.Array) -> str:
        """The name of the DuckDB table of these ids of rows that are not in the input."""
        name = f"out{self._numbers[key]}"
        if name not in self._present:
            self.run(f"CREATE TABLE {name} ({ID} VARCHAR)")
            self._present.add(name)
            self.insert(name, pa.table({ID: ids}))
        return name

    def forget_stored(self) -> None:
        """Forget the stored rows, because a newer snapshot has others."""
        self._readers.clear()
        self._epochs.clear()
        self._matches.clear()
        self._resolved.clear()
        self._input_ids.clear()
        for name in [n for n in self._present if not n.startswith("i")]:
            self.run(f"DROP TABLE {name}")
            self._present.remove(name)

    def insert(self, name: str, rows: pa.Table | pa.RecordBatchReader) -> None:
        """Insert rows by the order of their columns; the names do not matter."""
        # Under its own name, because other rows may be shown at the same time.
        with _Shown(self._connection, rows, "added") as added:
            self.run(f"INSERT INTO {name} SELECT * FROM {added}")

    def shown(self, rows: Any) -> _Shown:
        """Arrow rows as a table that queries can name, within a `with`."""
        return _Shown(self._connection, rows)

    def run(self, sql: str) -> None:
        self._connection.execute(sql).fetchall()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return list(self._connection.execute(sql).fetchall())

    def count(self, sql: str) -> int:
        return int(self.rows(sql)[0][0] or 0)

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """A large answer, a batch at a time. Run no other query until it is read."""
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


@dataclass(slots=True)
class _OfferedRows:
    """Input rows of a type that are not held."""

    read: ReadInput
    rows: int
    size: int | None = None
    """Bytes of the checked columns; None if they are not known."""

    def add(self, rows: pa.Table) -> None:
        self.rows += rows.num_rows
        self.size = None if self.size is None else self.size + rows.nbytes


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


def _edges_of(catalog: Catalog, entity: EntityType) -> list[TableKey]:
    """The edge types that may end at entities of this type."""
    if isinstance(entity, EdgeType):
        return []
    return [edge.table_key for edge in edges_touching(catalog, entity.table_key)]


def _narrow(entity: EntityType) -> pa.Schema:
    """The checked columns and the place; nullable, because ids that the load made are NULL here."""
    schema = table_schema(entity)
    checked = [schema.field(name).with_nullable(True) for name in checked_columns(entity)]
    return pa.schema([*checked, pa.field(PLACE, pa.int64())])


def _spelling(names: Sequence[str]) -> dict[str, str]:
    """Names for SQL: properties may be keywords, and DuckDB does not distinguish upper case."""
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
