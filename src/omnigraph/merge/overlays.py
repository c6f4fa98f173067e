"""Merged rows laid over a snapshot: the virtual ancestor of a criss-cross, on disk while it lives.

One file of a type, in the order of ids: what happened to each, which of its columns two ancestors
disagreed about, and its row if it has one. It is mapped, so only what a chunk of ids needs is read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID, EntityType
from omnigraph.diff.entity_rows import AlignedRows, align
from omnigraph.diff.id_runs import Scratch
from omnigraph.merge.three_way import Disputed, MergedRows

_FATE, _DISPUTED = "__fate", "__disputed"
_KEPT, _WRITTEN, _DELETED = range(3)


@dataclass(frozen=True, slots=True)
class Overlay:
    """Rows of one type that differ from what is below, and disputes about others."""

    batches: tuple[pa.RecordBatch, ...]
    first_ids: tuple[str, ...]

    def ids(self) -> Iterator[pa.Array]:
        for batch in self.batches:
            yield batch.column(ID)

    def over(self, below: AlignedRows, ids: pa.Array) -> AlignedRows:
        """The rows of sorted `ids`, `below` being what they are without this."""
        part = self._part(ids)
        if part.num_rows == 0:
            return below
        schema = below.rows.schema
        above = align(part.filter(pc.equal(part.column(_FATE), _WRITTEN)), ids, schema)
        gone = part.filter(pc.equal(part.column(_FATE), _DELETED)).column(ID)
        is_gone = pc.is_in(ids, value_set=gone.combine_chunks()).to_numpy(zero_copy_only=False)
        pick = np.where(above.present, len(ids), 0) + np.arange(len(ids))
        stacked = pa.concat_tables([below.rows, above.rows])
        present = (below.present & ~np.asarray(is_gone)) | above.present
        return AlignedRows(stacked.take(pa.array(pick)), present)

    def disputed(self, ids: pa.Array) -> Disputed:
        part = self._part(ids).select([ID, _DISPUTED])
        part = part.filter(pc.greater(pc.list_value_length(part.column(_DISPUTED)), 0))
        found = zip(part.column(ID).to_pylist(), part.column(_DISPUTED).to_pylist(), strict=True)
        return {entity_id: frozenset(names) for entity_id, names in found}

    def _part(self, ids: pa.Array) -> pa.Table:
        start = max(bisect_right(self.first_ids, ids[0].as_py()) - 1, 0)
        stop = bisect_left(self.first_ids, ids[-1].as_py())
        within = pa.Table.from_batches(
            self.batches[start : max(stop, start) + 1], self.batches[0].schema
        )
        return within.filter(pc.is_in(within.column(ID), value_set=ids))


def write_overlay(
    entity: EntityType, chunks: Iterable[MergedRows], scratch: Scratch
) -> Overlay | None:
    """Chunks in the order of ids; None when they change and dispute nothing."""
    path = str(scratch.new_file(".arrow"))
    own = [pa.field(ID, pa.string()), pa.field(_FATE, pa.int8())]
    own.append(pa.field(_DISPUTED, pa.list_(pa.string())))
    columns = [f.with_nullable(True) for f in table_schema(entity) if f.name != ID]
    schema = pa.schema([*own, *columns])
    first_ids = []
    with pa.ipc.new_file(path, schema) as writer:
        for chunk in chunks:
            for batch in _rows(chunk, schema).to_batches():
                first_ids.append(batch.column(ID)[0].as_py())
                writer.write_batch(batch)
    if not first_ids:
        return None
    reader = pa.ipc.open_file(pa.memory_map(path))
    batches = tuple(reader.get_batch(index) for index in range(reader.num_record_batches))
    return Overlay(batches, tuple(first_ids))


def _rows(chunk: MergedRows, schema: pa.Schema) -> pa.Table:
    written = chunk.written.column(ID).to_pylist()
    touched = {*written, *chunk.deleted.to_pylist()}
    kept = [entity_id for entity_id in chunk.disputed if entity_id not in touched]
    ids = pa.chunked_array([written, chunk.deleted, kept], pa.string())
    fates = [_WRITTEN] * len(written) + [_DELETED] * len(chunk.deleted) + [_KEPT] * len(kept)
    disputed = [sorted(chunk.disputed.get(entity_id, ())) for entity_id in ids.to_pylist()]
    rest = len(ids) - len(written)
    rows = [ids, pa.array(fates, pa.int8()), pa.array(disputed, pa.list_(pa.string()))]
    for field in list(schema)[len(rows) :]:
        values = chunk.written.column(field.name)
        rows.append(pa.chunked_array([*values.chunks, pa.nulls(rest, field.type)], field.type))
    table = pa.table(rows, schema=schema)
    return table.take(pc.sort_indices(table.column(ID))).combine_chunks()
