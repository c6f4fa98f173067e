"""All prepared rows of a load, until `commit_load` writes them or finds a broken rule.

The local engine keeps them in files on local disk (`PreparedFile`). Spark workers have already
written them as fragments of their tables (`spark.load.written_tables.WrittenTable`). Either way the
columns that graph rules look at are in a `KeyIndex`.
"""

from __future__ import annotations

import mmap
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID, Catalog, EntityType, generated_defaults
from omnigraph.integrity.graph_checks import LeftOut
from omnigraph.integrity.violations import Place, Report, Tally, Violation
from omnigraph.load.key_index import KeyIndex
from omnigraph.load.prepare_rows import (
    ABSENT,
    PLACE,
    BrokenRows,
    RejectedRow,
    RejectedRows,
    RowJudge,
    file_and_line,
)
from omnigraph.load.rejects import RejectRules
from omnigraph.settings.models import LoadSettings
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.row_compare import Mask

_ROWS_PER_CHUNK = 1024 * 1024
BYTES_PER_CHUNK = 256 * 1024 * 1024
_MAPPED_BYTES = 64 * 1024 * 1024
"""After so many bytes of a mapped file, its pages in memory are given back."""


ReadAgain = Callable[[int, Collection[int]], Iterable[tuple[int, Any]]]
"""(number of a source, lines) -> these lines with their rows as they are in the source."""


class PreparedTable(Protocol):
    """All prepared rows of one type, in the order of the input."""

    entity: EntityType
    rows: int

    def chunks(self, most_bytes: int = BYTES_PER_CHUNK) -> Iterator[pa.Table]:
        """The rows with their places and what they leave out, some at a time."""


class AppendedRows(PreparedTable, Protocol):
    """A `PreparedTable` that this process fills."""

    def append(self, table: pa.Table, has_id: Mask | None = None) -> None:
        """Add rows with their places; `has_id` tells which came with an id, None if all did."""

    def checked_rows(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """These columns, some rows at a time; ids that the load made are NULL."""

    def close(self) -> None:
        """No row is added any more; from now on rows can be read."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What is wrong with rows of a load by themselves."""

    violations: Sequence[Violation]
    tally: Tally
    rows: Mapping[int, RejectedRow]
    broken: Sequence[BrokenRows]


@dataclass
class PreparedInput:
    """The prepared rows of a load."""

    catalog: Catalog
    index: KeyIndex
    folder: Path
    """For temporary files of the load; it is removed with them."""
    files: list[str] = field(default_factory=list)
    """The names of the sources; a place holds a position in this list."""
    tables: dict[TableKey, PreparedTable] = field(default_factory=dict)
    given_ids: set[TableKey] = field(default_factory=set)
    """Types with rows that came with an id or a key. Ids that a load makes never clash."""
    made_ids: set[TableKey] = field(default_factory=set)
    """Types with rows that came without an id and without a key."""
    generated: set[TableKey] = field(default_factory=set)
    """Types with rows for which this load made the default of a property."""
    nulled: dict[TableKey, int] = field(default_factory=dict)
    """How many values of updated rows the load set to NULL; known when the rows are written."""
    staged_since: int | None = None
    """Microseconds: no file that workers wrote for this load before its transaction is older."""
    rules: RejectRules = field(default_factory=RejectRules)
    report: Report = field(default_factory=Report)
    """What is wrong with rows by themselves; with `rules.skip` also what graph rules found."""
    rejected: RejectedRows = field(default_factory=RejectedRows)
    broken: list[BrokenRows] = field(default_factory=list)
    dropped: Counter[TableKey] = field(default_factory=Counter)
    """Prepared rows that a graph rule rejected; they are not in the index any more."""
    dropped_ids: dict[TableKey, set[str]] = field(default_factory=dict)
    read_again: ReadAgain | None = None
    """Reads rows of the input again, if it can be read twice."""

    def judge(self) -> RowJudge:
        """Checks rows by themselves, and keeps what it finds in this input."""
        now_millis = SYSTEM_CLOCK.now_micros() // 1000
        return RowJudge(self.report, self.rejected, self.broken, now_millis=now_millis)

    def findings(self) -> Findings:
        """A copy of what is wrong so far."""
        rows = {n: replace(r, violations=[*r.violations]) for n, r in self.rejected.rows.items()}
        return Findings(self.report.violations[:], self.report.tally.copy(), rows, self.broken[:])

    def begin_with(self, found: Findings) -> None:
        """Start with what is wrong with other rows of the same input."""
        self.report.merge(found.violations, found.tally)
        self.broken += found.broken
        for number, row in found.rows.items():
            self.rejected.rows[number] = replace(row, violations=[*row.violations])

    def left_out(self) -> LeftOut:
        """The broken rows, as the graph rules must know them."""
        ids: dict[TableKey, list[pa.Array]] = {}
        sources: dict[TableKey, list[pa.Array]] = {}
        for rows in self.broken:
            ids.setdefault(rows.key, []).append(rows.ids)
            if rows.sources is not None:
                sources.setdefault(rows.key, []).append(rows.sources)
        return LeftOut(
            {key: pa.concat_arrays(parts) for key, parts in ids.items()},
            {key: pa.concat_arrays(parts) for key, parts in sources.items()},
        )

    def drop(self, numbers: Collection[int]) -> int:
        """Leave rows out because a graph rule rejects them; how many there were."""
        found = 0
        for key in sorted(self.tables):
            ids = self.index.drop(key, numbers)
            self.dropped[key] += len(ids)
            self.dropped_ids.setdefault(key, set()).update(i for i in ids if i is not None)
            found += len(ids)
        return found

    @property
    def total(self) -> int:
        return sum(table.rows for table in self.tables.values())

    def place(self, number: int) -> Place:
        file, line = file_and_line(number)
        return Place(self.files[file], line, number)

    def keep(self, file: AppendedRows, rows: pa.Table, has_id: Mask | None) -> None:
        """Append rows to those of their type, and let the checks see them.

        The rows have a place each. `has_id` tells which came with an id; None if all did.
        """
        file.append(rows, has_id)
        self.note_ids(file.entity.table_key, has_id)
        checked = rows if has_id is None else without_made_ids(rows, has_id)
        self.index.add_input(file.entity, checked, file.checked_rows)

    def note_ids(self, key: TableKey, has_id: Mask | None) -> None:
        """Note that rows of a type came with ids, and that others did not; None if all did."""
        if has_id is None or has_id.any():
            self.given_ids.add(key)
        if has_id is not None:
            self.made_ids.add(key)


def without_made_ids(rows: pa.Table, has_id: Mask) -> pa.Table:
    """NULL instead of ids that this load made, because no other row can have them."""
    ids = pa.nulls(len(has_id), pa.string())
    if has_id.any():
        ids = pc.if_else(pa.array(has_id), rows.column(ID), pa.scalar(None, pa.string()))
    return rows.set_column(rows.schema.get_field_index(ID), ID, ids)


@contextmanager
def prepared_input(
    catalog: Catalog,
    settings: LoadSettings,
    rules: RejectRules,
    files: Iterable[str] = (),
) -> Iterator[PreparedInput]:
    """An empty `PreparedInput` whose files are removed at the end."""
    with tempfile.TemporaryDirectory(
        prefix="omnigraph-load-", dir=settings.temp_directory
    ) as folder:
        index = KeyIndex(catalog, Path(folder), settings.memory_bytes)
        try:
            prepared = PreparedInput(catalog, index, Path(folder), list(files), rules=rules)
            prepared.report = Report(files=prepared.files)
            prepared.rejected.kept = rules.keeps_rows
            yield prepared
        finally:
            index.close()


def placed_schema(entity: EntityType) -> pa.Schema:
    """The columns of the table, and the place."""
    return table_schema(entity).append(pa.field(PLACE, pa.int64(), nullable=False))


def prepared_schema(entity: EntityType) -> pa.Schema:
    """The columns of the table, what a row leaves out if defaults are generated, and the place."""
    schema = placed_schema(entity)
    if generated_defaults(entity):
        schema = schema.insert(len(schema) - 1, pa.field(ABSENT, pa.string()))
    return schema


def stored_columns(entity: EntityType, rows: pa.Table) -> pa.Table:
    """Prepared rows without places and without what they leave out."""
    return rows.select(table_schema(entity).names)


class PreparedFile:
    """A `PreparedTable` in one local file: append all rows, close it, then read them back.

    The file is mapped when it is read, so nothing is copied and only columns in use are read.
    """

    def __init__(self, entity: EntityType, path: Path, schema: pa.Schema) -> None:
        self.entity = entity
        self.rows = 0
        self._path = path
        self.schema = schema
        self._writer = pa.ipc.new_stream(str(path), self.schema)
        self._has_id: list[npt.NDArray[np.uint8] | None] = []
        """For each batch, the rows that came with an id, as bits; None if all did."""

    def append(self, table: pa.Table, has_id: Mask | None = None) -> None:
        start = 0
        for batch in table.to_batches():
            end = start + batch.num_rows
            self._writer.write_batch(batch)
            self._has_id.append(None if has_id is None else np.packbits(has_id[start:end]))
            start = end
        self.rows += table.num_rows

    def close(self) -> None:
        self._writer.close()

    def chunks(self, most_bytes: int = BYTES_PER_CHUNK) -> Iterator[pa.Table]:
        """The rows in chunks of the size of a fragment."""
        return in_chunks(self._batches(), bytes_per_chunk=most_bytes)

    def mapped(self, rows_per_chunk: int) -> Iterator[pa.Table]:
        """Chunks of any number of bytes."""
        return in_chunks(self._batches(), rows_per_chunk, bytes_per_chunk=None)

    def checked_rows(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """These columns, some rows at a time; ids that the load made are NULL."""
        names = list(columns)
        for table, has_id in self.appended():
            rows = table.select(names)
            if has_id is not None and ID in names:
                rows = without_made_ids(rows, has_id)
            yield rows

    def appended(self) -> Iterator[tuple[pa.Table, Mask | None]]:
        """All rows, some at a time, each time with the mask of those that came with an id."""
        for batch, bits in zip(self._batches(), self._has_id, strict=True):
            has_id = None
            if bits is not None:
                has_id = np.unpackbits(bits, count=batch.num_rows).astype(bool)
            yield pa.Table.from_batches([batch]), has_id

    def remove(self) -> None:
        """Remove the file, because its rows are kept elsewhere. It was closed."""
        self._path.unlink()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        with self._path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        size = 0
        with pa.ipc.open_stream(pa.py_buffer(mapped)) as reader:
            for batch in reader:
                yield batch
                size += batch.nbytes
                if size >= _MAPPED_BYTES:
                    # They count as memory of this process. What is used again is mapped again.
                    mapped.madvise(mmap.MADV_DONTNEED)
                    size = 0


def in_chunks(
    batches: Iterable[pa.RecordBatch],
    rows_per_chunk: int = _ROWS_PER_CHUNK,
    bytes_per_chunk: int | None = BYTES_PER_CHUNK,
) -> Iterator[pa.Table]:
    """The batches joined into tables; a table ends when it reaches the number of rows or bytes."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= rows_per_chunk or (bytes_per_chunk is not None and size >= bytes_per_chunk):
            rows = size = 0
            yield _joined(waiting)
    if waiting:
        yield _joined(waiting)


def _joined(waiting: list[pa.RecordBatch]) -> pa.Table:
    """One table of the batches. The list is emptied, so that it does not hold them longer."""
    table = pa.Table.from_batches(waiting)
    waiting.clear()
    return table


class RowsByPosition:
    """Takes rows of many batches by position; Arrow itself would join the batches each time."""

    def __init__(self, rows: pa.Table) -> None:
        self._batches = rows.to_batches()
        self._schema = rows.schema
        self._starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)])

    def take(self, ascending: npt.NDArray[np.int32]) -> pa.Table:
        cuts = np.searchsorted(ascending, self._starts)
        parts = [
            batch.take(pa.array(ascending[cuts[n] : cuts[n + 1]] - self._starts[n]))
            for n, batch in enumerate(self._batches)
            if cuts[n] < cuts[n + 1]
        ]
        return pa.Table.from_batches(parts, self._schema)
