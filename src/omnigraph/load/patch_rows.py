"""Patches: rows of which only some columns are given, and the whole rows that they make.

A patch is a row of `patch_schema`. Its column `__absent` names the columns that the input leaves
out. `fold_patches` makes one patch of several with one id, `complete_patches` takes what a patch
leaves out from the stored row, or from the defaults if no row is stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import default_column, table_schema
from omnigraph.catalog.generated import fill_generated
from omnigraph.catalog.model import ID, EntityType, embedding_of
from omnigraph.load.json_columns import one_array
from omnigraph.load.parsed_rows import AbsentColumns, ParsedRows, raw_schema
from omnigraph.load.prepare_rows import ABSENT, PLACE, PreparedRows, known_ids
from omnigraph.writes.row_compare import Mask, differing_values

_FILLED = "="
"""Before the name of a column in which a value stands for NULL."""

RowNumbers = npt.NDArray[np.int64]


def patch_schema(entity: EntityType) -> pa.Schema:
    """All columns of the type, nullable; `__absent`; and the place of the row."""
    schema = raw_schema(entity).append(pa.field(ABSENT, pa.string()))
    return schema.append(pa.field(PLACE, pa.int64(), nullable=False))


def as_patches(rows: ParsedRows, places: npt.NDArray[np.int64]) -> pa.Table:
    """Parsed rows as patches; the id is NULL if a row has neither an id nor a key."""
    assert rows.absent is not None
    table = rows.table.set_column(0, rows.table.schema.field(0), known_ids(rows.entity, rows.table))
    columns = [*table.columns, pa.chunked_array([rows.absent]), pa.array(places)]
    return pa.table(columns, schema=patch_schema(rows.entity))


def storable_patches(rows: ParsedRows) -> PreparedRows:
    """Patches in the schema of their table, in which some columns may not be NULL.

    A zero or an empty text stands for such a NULL. `absent` says so, and `restored_patches` puts
    the NULL back. So Spark workers can write patches in the same way as whole rows.
    """
    assert rows.absent is not None
    ids = known_ids(rows.entity, rows.table)
    absent = rows.absent
    columns = [pc.fill_null(ids, "")]
    schema = table_schema(rows.entity)
    for field in list(schema)[1:]:
        column = rows.table.column(field.name)
        if not field.nullable and column.null_count:
            missing = column.is_null().combine_chunks()
            marked = pc.binary_join_element_wise(absent, f"{_FILLED}{field.name}", ",")
            absent = pc.if_else(missing, marked, absent)
            column = _chosen(column, _zeros(field.type, len(column)), missing.to_numpy(False))
        columns.append(column)
    has_id = ids.is_valid().to_numpy()
    stored = pa.table(columns, schema=schema)
    return PreparedRows(rows.entity, stored, rows.lines, None if has_id.all() else has_id, absent)


def restored_patches(
    entity: EntityType, stored: pa.Table, has_id: Mask | None, absent: pa.Array
) -> pa.Table:
    """What `storable_patches` stored, with places, as patches."""
    marks = AbsentColumns(pa.chunked_array([absent]))
    columns = []
    for field in raw_schema(entity):
        column = stored.column(field.name)
        missing = marks.of(f"{_FILLED}{field.name}")
        if field.name == ID and has_id is not None:
            missing = ~has_id
        if missing.any():
            column = _chosen(column, pa.nulls(len(missing), field.type), missing)
        columns.append(column)
    unmarked = pc.replace_substring_regex(absent, pattern=f",?{_FILLED}[^,]*", replacement="")
    columns += [pc.utf8_ltrim(unmarked, ","), stored.column(PLACE)]
    return pa.table(columns, schema=patch_schema(entity))


def _zeros(kind: pa.DataType, count: int) -> pa.Array:
    """As many values that are not NULL."""
    if pa.types.is_fixed_size_list(kind):
        zeros = pa.array(np.zeros(count * kind.list_size, np.float32))
        return pa.FixedSizeListArray.from_arrays(zeros, kind.list_size)
    if pa.types.is_list(kind):
        return pa.array([[]] * count, kind)
    if pa.types.is_string(kind) or pa.types.is_large_binary(kind):
        return pa.repeat(pa.scalar("" if pa.types.is_string(kind) else b"", kind), count)
    if pa.types.is_temporal(kind):
        size = np.int32 if pa.types.is_date32(kind) else np.int64
        return pa.array(np.zeros(count, size)).view(kind)
    return pa.array(np.zeros(count, np.int64)).cast(kind)


def fold_patches(patches: pa.Table) -> pa.Table:
    """One patch for each id, which changes what any of them changes; the last value wins.

    It has the place of the last one. Patches without an id stay as they are.
    """
    order = pc.sort_indices(patches, [(ID, "ascending"), (PLACE, "ascending")])
    patches = patches.take(order)
    ids = one_array(patches.column(ID))
    count = len(ids)
    same = pc.fill_null(pc.equal(ids.slice(1), ids.slice(0, max(count - 1, 0))), False)
    begins = np.concatenate([[True], ~np.asarray(same.to_numpy(zero_copy_only=False), bool)])
    starts = np.flatnonzero(begins[:count])
    last = np.append(starts[1:], count) - 1
    absent = AbsentColumns(patches.column(ABSENT))
    given: dict[str, RowNumbers] = {}
    for name in absent.names:
        rows = np.where(absent.of(name), -1, np.arange(count))
        newest = np.maximum.accumulate(rows)[last]
        given[name] = np.where(newest < starts, -1, newest)
    columns = []
    for field in patches.schema:
        found = last
        if field.name in given:
            found = np.where(given[field.name] < 0, last, given[field.name])
        columns.append(patches.column(field.name).take(pa.array(found)))
    folded = pa.table(columns, schema=patches.schema)
    place = folded.schema.get_field_index(ABSENT)
    spelled = _spelled_again(patches.schema.names, given, len(starts))
    folded = folded.set_column(place, folded.schema.field(place), spelled)
    return folded.take(pc.sort_indices(folded, [(PLACE, "ascending")]))


def _spelled_again(names: Sequence[str], given: dict[str, RowNumbers], count: int) -> pa.Array:
    texts = np.full(count, "", dtype=object)
    for name in (name for name in names if name in given):
        left_out = given[name] < 0
        texts[left_out] = [f"{text},{name}" if text else name for text in texts[left_out]]
    return pa.array(texts, pa.string())


def needed_columns(entity: EntityType, patches: pa.Table) -> list[str]:
    """The columns of stored rows that `complete_patches` reads."""
    absent = AbsentColumns(patches.column(ABSENT)).names
    sources = {
        embedding.source
        for declared in entity.properties
        if declared.name in absent and (embedding := embedding_of(declared)) is not None
    }
    return [name for name in raw_schema(entity).names if name in {ID, *absent, *sources}]


def complete_patches(
    entity: EntityType, patches: pa.Table, stored: pa.Table | None, now_millis: int
) -> pa.Table:
    """The whole rows of `raw_schema`. `stored` are the rows of the same ids, in the same order.

    None means that no row is stored: defaults apply, and `now_millis` is their `now()`. A vector
    that was made of a text stays if the text stays; else it is NULL, and a new one is made.
    """
    absent = AbsentColumns(patches.column(ABSENT))
    columns: dict[str, pa.ChunkedArray] = {}
    for field in raw_schema(entity):
        given = patches.column(field.name)
        left_out = absent.of(field.name)
        if left_out.any():
            kept = (
                default_column(entity, field, patches.num_rows)
                if stored is None
                else stored.column(field.name).cast(field.type)
            )
            given = _chosen(given, kept, left_out)
        columns[field.name] = given
    if stored is not None:
        _drop_outdated_vectors(entity, columns, absent, stored)
    whole = pa.table(list(columns.values()), schema=raw_schema(entity))
    return whole if stored is not None else fill_generated(entity, whole, absent.of, now_millis)


def _chosen(
    given: pa.ChunkedArray, kept: pa.Array | pa.ChunkedArray, left_out: Mask
) -> pa.ChunkedArray:
    """The kept values where the patch leaves the column out, else the given ones."""
    if left_out.all():
        return kept if isinstance(kept, pa.ChunkedArray) else pa.chunked_array([kept])
    rows = np.arange(len(given)) + np.where(left_out, len(given), 0)
    parts = [*given.chunks, *(kept.chunks if isinstance(kept, pa.ChunkedArray) else [kept])]
    return pa.chunked_array([pa.concat_arrays(parts).take(pa.array(rows))])


def _drop_outdated_vectors(
    entity: EntityType,
    columns: dict[str, pa.ChunkedArray],
    absent: AbsentColumns,
    stored: pa.Table,
) -> None:
    for declared in entity.properties:
        embedding = embedding_of(declared)
        left_out = absent.of(declared.name)
        if embedding is None or not left_out.any():
            continue
        source = embedding.source
        changed = left_out & differing_values(stored.column(source), columns[source])
        if changed.any():
            vectors = columns[declared.name]
            nothing = pa.nulls(len(changed), vectors.type)
            columns[declared.name] = _chosen(vectors, nothing, changed)
