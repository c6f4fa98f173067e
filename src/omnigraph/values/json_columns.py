"""Whole Arrow columns as JSON texts, in the forms of `json_values`.

A column is written by a few Arrow functions, because a loop over its values takes several times as
long. The texts are those that Python's `json` writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.values.blob_values import write_blob
from omnigraph.values.json_values import finite, json_value

encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

_ESCAPED = r'["\\\x00-\x1f]'

_SPACE, _QUOTE, _BACKSLASH, _NINE = map(ord, ' "\\9')

_PLAIN_NUMBER = r"^-?\d+(\.\d+)?$"

_SMALLEST_PLAIN = 1e-4
"""Below this number Python writes an exponent, and Arrow does not."""

_NULL = "null"


def json_rows(rows: pa.RecordBatch) -> pa.Array:
    """One object per row, with every column; NULL is `null`."""
    members = [
        pc.binary_join_element_wise(f"{encode(name)}:", pc.fill_null(json_texts(c), _NULL), "")
        for name, c in zip(rows.schema.names, rows.columns, strict=True)
    ]
    if not members:
        return pa.repeat("{}", rows.num_rows)
    inner = members[0] if len(members) == 1 else pc.binary_join_element_wise(*members, ",")
    return pc.binary_join_element_wise("{", inner, "}", "")


def json_texts(column: pa.Array) -> pa.Array:
    """One text per value, NULL for NULL. NaN and infinities are `null`."""
    kind = column.type
    if pa.types.is_string(kind):
        return text_literals(column)
    if pa.types.is_integer(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind):
        return _numbers(column.cast(pa.float64()))
    if pa.types.is_boolean(kind):
        return pc.if_else(column, "true", "false")
    if pa.types.is_date32(kind):
        return pc.binary_join_element_wise('"', column.cast(pa.string()), '"', "")
    if pa.types.is_timestamp(kind) and kind.unit == "ms" and kind.tz in (None, "UTC"):
        return _moments(column)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(column)
    if pa.types.is_struct(kind):
        return _objects(column)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _by_python(column, lambda content: encode(write_blob(content)))
    return _by_python(column, lambda value: encode(finite(json_value(value))))


def text_literals(column: pa.Array) -> pa.Array:
    """Texts in quotes; Python writes those with characters that must be escaped."""
    quoted = pc.binary_join_element_wise('"', column, '"', "")
    found = _bytes_of(column)
    # All bytes at once, because a regular expression takes longer than to write the texts.
    if not ((found < _SPACE) | (found == _QUOTE) | (found == _BACKSLASH)).any():
        return quoted
    special = pc.match_substring_regex(column, pattern=_ESCAPED)
    return _replaced(quoted, special, column, encode)


def text_bytes(texts: pa.Array) -> bytes:
    """All texts joined: the value buffer of the Arrow array."""
    if len(texts) == 0:
        return b""
    offsets = memoryview(texts.buffers()[1]).cast("i")
    first, last = offsets[texts.offset], offsets[texts.offset + len(texts)]
    return bytes(memoryview(texts.buffers()[2])[first:last])


def _bytes_of(texts: pa.Array) -> npt.NDArray[np.uint8]:
    """All bytes of the texts; there may be bytes of NULLs among them."""
    _, offsets, content = texts.buffers()
    if len(texts) == 0 or content is None:
        return np.empty(0, np.uint8)
    places = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(content, np.uint8)[places[0] : places[-1]]


def _numbers(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    whole = pc.invert(pc.match_substring(texts, pattern="."))
    plain: pa.Array | pa.Scalar = pa.scalar(True)
    if (_bytes_of(texts) > _NINE).any():  # an exponent, a NaN or an infinity
        plain = pc.match_substring_regex(texts, pattern=_PLAIN_NUMBER)
    small = pc.and_(pc.less(pc.abs(column), _SMALLEST_PLAIN), pc.not_equal(column, 0.0))
    dotted = pc.if_else(whole, pc.binary_join_element_wise(texts, ".0", ""), texts)
    return _replaced(dotted, pc.or_(pc.invert(plain), small), column, _number)


def _number(value: float) -> str:
    written = finite(value)
    return _NULL if written is None else float.__repr__(written)


def _moments(column: pa.Array) -> pa.Array:
    """`2026-04-14T10:00:00Z`; milliseconds only when they are not zero."""
    texts = column.cast(pa.timestamp("ms")).cast(pa.string())
    texts = pc.replace_substring(texts, pattern=" ", replacement="T")
    texts = pc.replace_substring(texts, pattern=".000", replacement="")
    return pc.binary_join_element_wise('"', texts, 'Z"', "")


def _lists(column: pa.Array) -> pa.Array:
    if pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    if column.offset:
        # Arrow refuses a mask together with offsets that do not start at zero.
        column = column.take(pa.array(np.arange(len(column))))
    mask = column.is_null() if column.null_count else None
    items = pc.fill_null(json_texts(column.values), _NULL)
    lists = pa.ListArray.from_arrays(column.offsets, items, mask=mask)
    return pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")


def _objects(column: pa.Array) -> pa.Array:
    fields = pa.RecordBatch.from_arrays(column.flatten(), [field.name for field in column.type])
    texts = json_rows(fields) if fields.num_columns else pa.repeat("{}", len(column))
    return pc.if_else(column.is_valid(), texts, None) if column.null_count else texts


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
