"""Entities as NDJSON lines that a load reads back to the same graph.

Whole columns are written at once (`values.json_columns`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType, EntityType, default_of
from omnigraph.values.json_columns import encode, json_texts, text_bytes, text_literals


def lines(
    entity: EntityType, tables: Iterator[pa.Table], *, every_id: bool = False
) -> Iterator[bytes]:
    """One chunk of lines per batch of rows. NULLs are left out unless there is a default.

    A load would put the default where a NULL is left out, so that NULL is written. An id stands in
    `data`, and only if the type has no key, because a load derives the id from the key. With
    `every_id` each line has its `id` beside `data`, for readers that derive none.
    """
    for table in tables:
        for batch in table.to_batches():
            if batch.num_rows:
                yield text_bytes(_lines(entity, batch, every_id))


def _lines(entity: EntityType, rows: pa.RecordBatch, every_id: bool) -> pa.Array:
    parts: list[str | pa.Array] = []
    is_edge = isinstance(entity, EdgeType)
    start = f'{{"{"edge" if is_edge else "type"}":{encode(entity.name)}'
    if every_id:
        parts += [f'{start},"id":', text_literals(rows.column(ID))]
        start = ""
    if is_edge:
        parts += [f'{start},"from":', text_literals(rows.column(SOURCE))]
        parts += [',"to":', text_literals(rows.column(TARGET))]
        start = ""
    parts += [f'{start},"data":', _data(entity, rows, every_id), "}\n"]
    return pc.binary_join_element_wise(*parts, "")


def _data(entity: EntityType, rows: pa.RecordBatch, every_id: bool) -> pa.Array:
    """The object of the properties of every row."""
    names = [p.name for p in entity.properties]
    if not entity.key and not every_id:
        names = [ID, *names]
    spelled_nulls = {p.name for p in entity.properties if default_of(p) is not None}
    members = []
    for name in names:
        texts = json_texts(rows.column(name))
        if name in spelled_nulls:
            texts = pc.fill_null(texts, "null")
        members.append(pc.binary_join_element_wise(f"{encode(name)}:", texts, ""))
    if not members:
        return pa.repeat("{}", rows.num_rows)
    inner = pc.binary_join_element_wise(*_some_text(members), ",", null_handling="skip")
    return pc.binary_join_element_wise("{", inner, "}", "")


def _some_text(members: list[pa.Array]) -> list[pa.Array]:
    """The members, with an empty text where all are NULL, because Arrow would drop such a row."""
    if any(member.null_count == 0 for member in members):
        return members
    nothing = functools.reduce(pc.and_, [member.is_null() for member in members])
    return [pc.if_else(nothing, "", members[0]), *members[1:]]
