"""The driver's view of rows that workers wrote: a `PreparedTable` of fragments, and its writer.

Workers write their rows before the driver can check them against the graph. If the checks pass, the
driver adopts the fragments. It writes rows again only if their fragment cannot be adopted: some of
its rows are stored already or occur again later in the input, or the table has moved to another
dataset since the workers wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID, EntityType
from omnigraph.integrity.violations import Violation
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.reads.scan import read_table
from omnigraph.lance_store.staging.written_fragments import (
    remove_rows,
    written_batches,
    written_dataset,
)
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store
from omnigraph.load.modes import LoadMode, LoadModes
from omnigraph.load.parsed_rows import AbsentColumns
from omnigraph.load.patch_build import PatchInput
from omnigraph.load.patch_rows import restored_patches
from omnigraph.load.prepare_rows import ABSENT, PLACE, file_and_line, place_of
from omnigraph.load.prepared import (
    BYTES_PER_CHUNK,
    PreparedFile,
    PreparedInput,
    PreparedTable,
    stored_columns,
    without_made_ids,
)
from omnigraph.load.rejected_input import refuse_too_many
from omnigraph.load.write_tables import LoadTableWriter, adopt
from omnigraph.manifest.changed_ids import ChangeListWriter, Op
from omnigraph.manifest.records import TablePin
from omnigraph.spark.load.load_tasks import TaskResult, WrittenRows, decode_texts
from omnigraph.values.identifiers import TableKey
from omnigraph.values.scalars import BlobType
from omnigraph.writes.changeset import AdoptRows

_HELD_ROWS = 500_000
"""The checked columns of more rows are not kept in memory, but read again by every check."""


def in_order(results: Iterable[TaskResult], file: int) -> list[TaskResult]:
    """The results of one file or frame in its order, each with the place before its first line."""
    ordered = sorted(results, key=lambda result: result.task)
    lines = 0
    for result in ordered:
        result.before = place_of(file, lines)
        lines += result.lines
    return ordered


def take_results(
    patches: PatchInput,
    store: Store,
    homes: Mapping[TableKey, DatasetVersion],
    results: Sequence[TaskResult],
    modes: LoadModes,
    named: Collection[TableKey] = (),
) -> None:
    """Take the rows that workers wrote, the patches, and the rows that they rejected.

    `homes` are the datasets for which they wrote. `named` are types that the input names even if it
    has no row of them. `results` come from `in_order`. The driver completes patches and writes
    whole rows of them, so the files of the workers are removed.
    """
    patched = patched_homes(homes, modes)
    try:
        _take_rejected(patches.prepared, results)
        for result in results:
            for part in result.parts:
                if part.key in patched:
                    entity = patches.prepared.catalog.entity_type(part.key)
                    placed = replace(part, before=result.before)
                    patches.add(entity, _restored(entity, store, patched[part.key], placed))
    finally:
        remove_written(store, patched, results)
    for key, home in homes.items():
        if key not in patched:
            _take_written(patches.prepared, store, key, home, results, is_named=key in named)


def patched_homes(
    homes: Mapping[TableKey, DatasetVersion], modes: LoadModes
) -> dict[TableKey, DatasetVersion]:
    """The homes of patches."""
    return {key: homes[key] for key in modes.with_mode(homes, (LoadMode.PATCH,))}


def _take_written(
    prepared: PreparedInput,
    store: Store,
    key: TableKey,
    home: DatasetVersion,
    results: Sequence[TaskResult],
    *,
    is_named: bool,
) -> None:
    parts = [
        replace(part, before=result.before)
        for result in results
        for part in result.parts
        if part.key == key
    ]
    if not parts and not is_named:
        return
    table = WrittenTable(prepared.catalog.entity_type(key), store, home, parts)
    if table.rows > _HELD_ROWS:
        prepared.index.offer_input(key, table.rows, table.checked_rows)
    else:
        for rows in table.checked_rows([*prepared.index.columns(key), PLACE]):
            prepared.index.add_input(table.entity, rows)
    for part in parts:
        prepared.note_ids(key, part.has_id())
        if part.absent is not None and AbsentColumns(decode_texts(part.absent)).names:
            prepared.generated.add(key)
    prepared.tables[key] = table


def _restored(
    entity: EntityType, store: Store, home: DatasetVersion, part: WrittenRows
) -> pa.Table:
    assert part.absent is not None
    stored = WrittenTable(entity, store, home, [part]).whole(part)
    return restored_patches(entity, stored, part.has_id(), decode_texts(part.absent))


def remove_written(
    store: Store, homes: Mapping[TableKey, DatasetVersion], results: Sequence[TaskResult]
) -> None:
    """Remove the files that workers wrote for these homes."""
    for result in results:
        for part in result.parts:
            home = homes.get(part.key)
            if home is not None:
                remove_rows(store, home.location, home.branch, part.fragments)


def _take_rejected(prepared: PreparedInput, results: Sequence[TaskResult]) -> None:
    """Raise if input is unreadable, if too much of it is wrong, or if reading stopped for that."""
    for result in results:
        if result.error is not None:
            raise result.error
    for result in results:
        file, before = file_and_line(result.before)
        violations = (_shifted(v, before) for v in result.violations)
        prepared.report.merge(violations, result.tally)
        prepared.broken += result.broken
        for line, found in result.rejected.rows.items():
            for violation in found.violations:
                number = place_of(file, before + line)
                prepared.rejected.add(number, _shifted(violation, before), found.row)
    if any(result.stopped for result in results):
        refuse_too_many(prepared, unread=True)


def _shifted(violation: Violation, lines: int) -> Violation:
    """The same violation, its line counted from the beginning of the file."""
    place = violation.place
    if place is None or place.line is None:
        return violation
    return replace(violation, place=replace(place, line=place.line + lines))


class WrittenTable:
    """All rows of one type, written for the dataset `at`, in the order of the input."""

    def __init__(
        self, entity: EntityType, store: Store, at: DatasetVersion, parts: Sequence[WrittenRows]
    ) -> None:
        self.entity = entity
        self.rows = sum(part.rows for part in parts)
        self.at = at
        self._store = store
        self._target = store.address(at)
        self._parts = tuple(parts)
        self._has_blobs = any(isinstance(p.type, BlobType) for p in entity.properties)

    def checked_rows(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """These columns, `PLACE` included, some rows at a time; ids that the load made are NULL."""
        stored = tuple(name for name in columns if name != PLACE)
        for part in self._parts:
            has_id = part.has_id() if ID in columns else None
            places = part.places() if PLACE in columns else None
            start = 0
            for table in self._batches(part, stored):
                end = start + table.num_rows
                if places is not None:
                    table = table.append_column(PLACE, pa.array(places[start:end]))
                if has_id is not None:
                    table = without_made_ids(table, has_id[start:end])
                yield table
                start = end

    @property
    def parts(self) -> Sequence[WrittenRows]:
        return self._parts

    def ids(self, part: WrittenRows) -> Iterator[pa.ChunkedArray]:
        """The ids of one part, some at a time."""
        return (table.column(ID) for table in self._batches(part, (ID,)))

    def whole(self, part: WrittenRows) -> pa.Table:
        """All columns of one part, blobs included, with places and what the rows leave out."""
        schema = table_schema(self.entity)
        with written_dataset(self._store, self.at, part.fragments) as dataset:
            table = read_table(dataset, schema.names).cast(schema)
        if part.absent is not None:
            table = table.append_column(ABSENT, decode_texts(part.absent))
        place = pa.field(PLACE, pa.int64(), nullable=False)
        return table.append_column(place, pa.array(part.places()))

    def chunks(self, most_bytes: int = BYTES_PER_CHUNK) -> Iterator[pa.Table]:
        for part in self._parts:
            yield self.whole(part)

    def _batches(self, part: WrittenRows, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        if self._has_blobs:
            # Lance's file reader counts the columns after a blob wrongly; a dataset does not.
            with written_dataset(self._store, self.at, part.fragments) as dataset:
                yield read_table(dataset, list(columns))
            return
        for fragment in part.fragments:
            yield from written_batches(self._target, fragment, columns)


class AdoptingWriter(LoadTableWriter):
    """The writer of a load whose rows are fragments already."""

    def append(self, table: PreparedTable, *, loses: bool = False) -> AdoptRows:
        assert isinstance(table, WrittenTable)
        pin, dataset, changes = self._begin(table.entity.table_key)
        fragments: tuple[str, ...] = ()
        key = table.entity.table_key
        for part in table.parts:
            if key in self._settled:
                rows = self._as_written(key, table.whole(part)).drop_columns([PLACE])
                fragments += self._write(dataset, rows)
                changes.add(Op.INSERT, rows.column(ID))
            else:
                fragments += self._fragments(table, part, pin, dataset)
                self._add_new(table, part, changes)
        self._add_lost(key, changes, loses=loses)
        return adopt(pin, fragments, changes.finish())

    def _changed(
        self, table: PreparedTable, pin: TablePin, dataset: Dataset, changes: ChangeListWriter
    ) -> tuple[str, ...]:
        """Adopt a part if all of its rows are new and are the last of their ids."""
        if isinstance(table, PreparedFile):  # the driver gave rows the stored values of defaults
            return super()._changed(table, pin, dataset, changes)
        assert isinstance(table, WrittenTable)
        key = table.entity.table_key
        fragments: tuple[str, ...] = ()
        if key in self._matched and self._index.is_empty(key):
            return fragments
        for part in table.parts:
            if self._all_new(table, pin, dataset, part):
                fragments += self._fragments(table, part, pin, dataset)
                self._add_new(table, part, changes)
            else:
                rows = stored_columns(table.entity, self._as_written(key, table.whole(part)))
                rows = self._differing(key, dataset, rows, changes)
                fragments += self._write(dataset, rows)
        return fragments

    @staticmethod
    def _add_new(table: WrittenTable, part: WrittenRows, changes: ChangeListWriter) -> None:
        for ids in table.ids(part):
            changes.add(Op.INSERT, ids)

    def _all_new(
        self, table: WrittenTable, pin: TablePin, dataset: Dataset, part: WrittenRows
    ) -> bool:
        key = table.entity.table_key
        if key not in self._settled and (key not in self._prepared.given_ids or pin.row_count == 0):
            return True
        ids = pa.chunked_array([c for ids in table.ids(part) for c in ids.chunks], pa.string())
        if key in self._settled:
            rows = pa.table({ID: ids, PLACE: part.places()})
            if not self._index.written_ids(key, rows).equals(ids.combine_chunks()):
                return False
        if key not in self._prepared.given_ids:
            return True
        return pin.row_count == 0 or find_rows(dataset, ids.combine_chunks()).num_rows == 0

    def _fragments(
        self, table: WrittenTable, part: WrittenRows, pin: TablePin, dataset: Dataset
    ) -> tuple[str, ...]:
        """The files of the part, or its rows written again if the table has moved."""
        if (pin.location, pin.branch) == (table.at.location, table.at.branch):
            return part.fragments
        return self._write(dataset, stored_columns(table.entity, table.whole(part)))
