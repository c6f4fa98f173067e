"""Rows that workers wrote as fragments, seen as the spool of a load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID, EntityType
from omnigraph.integrity.rules import checked_columns
from omnigraph.lance_store.reads.scan import read_table
from omnigraph.lance_store.staging.written_fragments import (
    write_target,
    written_columns,
    written_dataset,
)
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.load.spool import PLACE
from omnigraph.spark.load.line_runs import Lines, decode_lines
from omnigraph.spark.load.load_tasks import WrittenPart
from omnigraph.values.scalars import BlobType


@dataclass(frozen=True, slots=True)
class PlacedPart:
    """A part with the place of its first line: file number and lines before, as one number."""

    part: WrittenPart
    offset: int

    @property
    def places(self) -> Lines:
        return decode_lines(self.part.lines) + self.offset


class WrittenSpool:
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
