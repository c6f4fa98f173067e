"""Entities as NDJSON lines that a load reads back to the same graph."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType, EntityType, NodeType, default_of
from omnigraph.export.json_texts import encode, json_texts, text_literals
from omnigraph.values.scalars import ScalarKind, ScalarType, ValueType


def lines(entity: EntityType, tables: Iterator[pa.Table]) -> Iterator[bytes]:
    """One chunk of lines per batch of rows; ids only where no key spells them.

    NULLs are left out, except where a load would then put the default.
    """
    for table in tables:
        for batch in table.to_batches():
            if batch.num_rows:
                yield _content(_lines(entity, batch))


def _lines(entity: EntityType, rows: pa.RecordBatch) -> pa.Array:
    data = _data(entity, rows)
    if not isinstance(entity, EdgeType):
        start = f'{{"type":{encode(entity.name)},"data":'
        return pc.binary_join_element_wise(start, data, "}\n", "")
    return pc.binary_join_element_wise(
        f'{{"edge":{encode(entity.name)},"from":',
        text_literals(rows.column(SOURCE)),
        ',"to":',
        text_literals(rows.column(TARGET)),
        ',"data":',
        data,
        "}\n",
        "",
    )


def _data(entity: EntityType, rows: pa.RecordBatch) -> pa.Array:
    """The object of the properties of every row."""
    kinds: dict[str, ValueType] = {p.name: p.type for p in entity.properties}
    if not (isinstance(entity, NodeType) and entity.key):
        kinds = {ID: ScalarType(ScalarKind.STRING), **kinds}
    spelled_nulls = {p.name for p in entity.properties if default_of(p) is not None}
    members = []
    for name, kind in kinds.items():
        texts = json_texts(kind, rows.column(name))
        if name in spelled_nulls:
            texts = pc.fill_null(texts, "null")
        members.append(pc.binary_join_element_wise(f"{encode(name)}:", texts, ""))
    if not members:
        return pa.repeat("{}", rows.num_rows)
    inner = pc.binary_join_element_wise(*members, ",", null_handling="skip")
    return pc.binary_join_element_wise("{", inner, "}", "")


def _content(texts: pa.Array) -> bytes:
    """All texts one after the other, which is how Arrow has them."""
    offsets = memoryview(texts.buffers()[1]).cast("i")
    first, last = offsets[texts.offset], offsets[texts.offset + len(texts)]
    return bytes(memoryview(texts.buffers()[2])[first:last])
