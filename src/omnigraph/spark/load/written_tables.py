"""Rows that workers wrote as fragments, seen as the spool of a load."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID, EntityType
from omnigraph.integrity.rules import checked_columns
from omnigraph.integrity.violations import Report
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.reads.scan import read_table
from omnigraph.lance_store.staging.written_fragments import (
    write_target,
    write_to,
    written_columns,
    written_dataset,
)
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store
from omnigraph.load.prepare_rows import PLACE, file_and_line, place_of
from omnigraph.load.prepared import PreparedInput, PreparedTable
from omnigraph.load.write_tables import LoadTableWriter, adopt, differing
from omnigraph.manifest.changed_ids import ChangeListWriter, Op
from omnigraph.manifest.records import TablePin
from omnigraph.spark.load.load_tasks import Lines, TaskResult, WrittenRows, decode_lines, shifted
from omnigraph.values.identifiers import TableKey
from omnigraph.values.scalars import BlobType
from omnigraph.writes.changeset import AdoptRows


@dataclass(frozen=True, slots=True)
class PlacedPart:
    """A part with the place of its first line: file number and lines before, as one number."""

    part: WrittenRows
    offset: int

    @property
    def places(self) -> Lines:
        return decode_lines(self.part.lines) + self.offset


class WrittenTable:
    """All rows of one type, already written for the dataset `at`, in the order of the input."""

    def __init__(
        self, entity: EntityType, store: Store, at: DatasetVersion, parts: Sequence[PlacedPart]
    ) -> None:
        self.entity = entity
        self.rows = sum(placed.part.rows for placed in parts)
        self.at = at
        self._store = store
        self._target = write_target(store, at)
        self._parts = tuple(parts)
        self._has_blobs = any(isinstance(p.type, BlobType) for p in entity.properties)

    def narrow(self) -> Iterator[tuple[PlacedPart, pa.Table]]:
        """The checked columns of each part, with places; ids that were made here are NULL."""
        columns = checked_columns(self.entity)
        for placed in self._parts:
            table = self._columns(placed, columns)
            given = placed.part.has_id()
            if given is not None:
                ids = pc.if_else(pa.array(given), table.column(ID), pa.scalar(None, pa.string()))
                table = table.set_column(0, ID, ids)
            yield placed, table.append_column(PLACE, pa.array(placed.places))

    def ids(self) -> Iterator[tuple[PlacedPart, pa.ChunkedArray]]:
        for placed in self._parts:
            yield placed, self._columns(placed, (ID,)).column(ID)

    def whole(self, placed: PlacedPart) -> pa.Table:
        """All columns of one part, blobs included, with places."""
        schema = table_schema(self.entity)
        with written_dataset(self._store, self.at, placed.part.fragments) as dataset:
            table = read_table(dataset, schema.names).cast(schema)
        place = pa.field(PLACE, pa.int64(), nullable=False)
        return table.append_column(place, pa.array(placed.places))

    def chunks(self) -> Iterator[pa.Table]:
        """A part at a time."""
        for placed in self._parts:
            yield self.whole(placed)

    def _columns(self, placed: PlacedPart, columns: tuple[str, ...]) -> pa.Table:
        if self._has_blobs:
            # Lance's file reader counts the columns behind a blob wrongly; a dataset does not.
            with written_dataset(self._store, self.at, placed.part.fragments) as dataset:
                return read_table(dataset, list(columns))
        parts = (written_columns(self._target, f, columns) for f in placed.part.fragments)
        return pa.concat_tables(parts)


Placed = tuple[TaskResult, int]
"""A report and the place before the first line of its piece."""


def in_order(results: Iterable[TaskResult], file: int) -> list[Placed]:
    """The reports of one file or frame, in its order, placed behind each other."""
    placed: list[Placed] = []
    before = 0
    for result in sorted(results, key=lambda result: result.task):
        placed.append((result, place_of(file, before)))
        before += result.lines
    return placed


def take_written(
    prepared: PreparedInput,
    store: Store,
    homes: Mapping[TableKey, DatasetVersion],
    results: Sequence[Placed],
    named: Collection[TableKey] = (),
) -> None:
    """Judge the reports and hand their rows to the checks; `homes` is where they were written.

    `named` are types that the input speaks of even when it has no row of them.
    """
    _judge(results, prepared.files)
    for key, home in homes.items():
        parts = [
            PlacedPart(part, offset)
            for result, offset in results
            for part in result.parts
            if part.key == key
        ]
        if parts or key in named:
            entity = prepared.catalog.entity_type(key)
            _take(prepared, key, WrittenTable(entity, store, home, parts))


def _judge(results: Sequence[Placed], files: Sequence[str]) -> None:
    """Raise what the workers found wrong: unreadable input first, then broken rules."""
    for result, _ in results:
        if result.error is not None:
            raise result.error
    report = Report(files=files)
    for result, offset in results:
        _, before = file_and_line(offset)
        report.merge((shifted(v, before) for v in result.violations), result.counts)
    report.raise_if_any()


def _take(prepared: PreparedInput, key: TableKey, spool: WrittenTable) -> None:
    """Hand the narrow columns to the checks."""
    for placed, table in spool.narrow():
        given = placed.part.has_id()
        if given is None or given.any():
            prepared.given_ids.add(key)
        prepared.index.add_input(spool.entity, table)
    prepared.spools[key] = spool


class AdoptingWriter(LoadTableWriter):
    """The writer of a load whose spools are fragments already."""

    def append(self, spool: PreparedTable) -> AdoptRows:
        assert isinstance(spool, WrittenTable)
        pin, dataset, changes = self._begin(spool.entity.table_key)
        fragments: tuple[str, ...] = ()
        for placed, ids in spool.ids():
            fragments += self._fragments(spool, placed, pin, dataset)
            changes.add(Op.INSERT, ids)
        return adopt(pin, fragments, changes.finish())

    def _changed(
        self, spool: PreparedTable, pin: TablePin, dataset: Dataset, changes: ChangeListWriter
    ) -> tuple[str, ...]:
        """A part none of whose rows is stored, or said again later, is adopted as it is."""
        assert isinstance(spool, WrittenTable)
        key = spool.entity.table_key
        fragments: tuple[str, ...] = ()
        for placed, ids in spool.ids():
            if self._all_new(key, pin, dataset, placed, ids):
                fragments += self._fragments(spool, placed, pin, dataset)
                changes.add(Op.INSERT, ids)
            else:
                rows = self._latest(key, spool.whole(placed)).drop_columns([PLACE])
                fragments += write_to(dataset, differing(dataset, rows, changes))
        return fragments

    def _all_new(
        self,
        key: TableKey,
        pin: TablePin,
        dataset: Dataset,
        placed: PlacedPart,
        ids: pa.ChunkedArray,
    ) -> bool:
        if key not in self._prepared.given_ids:
            return True
        if len(self._latest(key, pa.table({PLACE: placed.places}))) < len(ids):
            return False
        return pin.row_count == 0 or find_rows(dataset, ids.combine_chunks()).num_rows == 0

    def _fragments(
        self, spool: WrittenTable, placed: PlacedPart, pin: TablePin, dataset: Dataset
    ) -> tuple[str, ...]:
        """The part's own files, or the same rows again when the table has another home now."""
        if (pin.location, pin.branch) == (spool.at.location, spool.at.branch):
            return placed.part.fragments
        return write_to(dataset, spool.whole(placed).drop_columns([PLACE]))
