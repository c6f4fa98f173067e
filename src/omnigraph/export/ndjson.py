"""Entities as NDJSON lines that a load reads back to the same graph.

Whole columns are written at once, as the same texts that Python's `json` writes (`json_texts`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType, EntityType, default_of
from omnigraph.values.json_values import write_blob
from omnigraph.values.scalars import (
    FLOAT_KINDS,
    INTEGER_KINDS,
    BlobType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)

encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


_ESCAPED = r'["\\\x00-\x1f]'


_PLAIN_NUMBER = r"^-?\d+(\.\d+)?$"


_SMALLEST_PLAIN = 1e-4
"""Below this number Python writes an exponent, and Arrow does not."""


def lines(entity: EntityType, tables: Iterator[pa.Table]) -> Iterator[bytes]:
    """One chunk of lines per batch of rows.

    An id is written only if the type has no key, because a load derives the id from the key. NULLs
    are left out, except where a load would put the default instead.
    """
    for table in tables:
        for batch in table.to_batches():
            if batch.num_rows:
                yield content(_lines(entity, batch))


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
    if not entity.key:
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


def content(texts: pa.Array) -> bytes:
    """All texts joined: the value buffer of the Arrow array."""
    offsets = memoryview(texts.buffers()[1]).cast("i")
    first, last = offsets[texts.offset], offsets[texts.offset + len(texts)]
    return bytes(memoryview(texts.buffers()[2])[first:last])


def json_texts(kind: ValueType, column: pa.Array) -> pa.Array:
    """One text per value, NULL for NULL."""
    match kind:
        case ScalarType(scalar):
            return _scalars(scalar, column)
        case ListType(element):
            return _lists(element, column)
        case VectorType():
            return _lists(ScalarKind.F32, column)
        case BlobType():
            return _by_python(column, lambda content: encode(write_blob(content)))
        case _:
            return text_literals(column)


def text_literals(column: pa.Array) -> pa.Array:
    """Texts in quotes; Python writes those with characters that must be escaped."""
    special = pc.match_substring_regex(column, pattern=_ESCAPED)
    quoted = pc.binary_join_element_wise('"', column, '"', "")
    return _replaced(quoted, special, column, encode)


def _scalars(kind: ScalarKind, column: pa.Array) -> pa.Array:
    if kind in INTEGER_KINDS:
        return column.cast(pa.string())
    if kind in FLOAT_KINDS:
        return _numbers(column.cast(pa.float64()))
    if kind is ScalarKind.BOOL:
        return pc.if_else(column, "true", "false")
    if kind is ScalarKind.DATE:
        return pc.binary_join_element_wise('"', column.cast(pa.string()), '"', "")
    if kind is ScalarKind.DATETIME:
        return _moments(column)
    return text_literals(column)


def _numbers(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    whole = pc.invert(pc.match_substring(texts, pattern="."))
    plain = pc.match_substring_regex(texts, pattern=_PLAIN_NUMBER)
    small = pc.and_(pc.less(pc.abs(column), _SMALLEST_PLAIN), pc.not_equal(column, 0.0))
    dotted = pc.if_else(whole, pc.binary_join_element_wise(texts, ".0", ""), texts)
    return _replaced(dotted, pc.or_(pc.invert(plain), small), column, float.__repr__)


def _moments(column: pa.Array) -> pa.Array:
    """`2026-04-14T10:00:00Z`; milliseconds only when they are not zero."""
    texts = pc.replace_substring(column.cast(pa.string()), pattern=" ", replacement="T")
    texts = pc.replace_substring(texts, pattern=".000", replacement="")
    return pc.binary_join_element_wise('"', texts, 'Z"', "")


def _lists(element: ScalarKind, column: pa.Array) -> pa.Array:
    if pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    if column.offset:
        # Arrow refuses a mask together with offsets that do not start at zero.
        column = column.take(pa.array(np.arange(len(column))))
    mask = column.is_null() if column.null_count else None
    lists = pa.ListArray.from_arrays(column.offsets, _scalars(element, column.values), mask=mask)
    return pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")


def _replaced(
    texts: pa.Array, special: pa.Array, column: pa.Array, write: Callable[[Any], str]
) -> pa.Array:
    """The texts, with those of `special` rows written by `write`."""
    special = pc.fill_null(special, False)
    if not pc.any(special).as_py():
        return texts
    written = [write(value) for value in column.filter(special).to_pylist()]
    return pc.replace_with_mask(texts, special, pa.array(written, pa.string()))


def _by_python(column: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    values = (None if value is None else write(value) for value in column.to_pylist())
    return pa.array(values, pa.string(), size=len(column))
