"""Whole Arrow columns as the cells of CSV (RFC 4180).

NULL and NaN are empty cells, and the empty text is two quotes. Lists and objects are JSON, blobs
are `base64:…`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.values.json_columns import json_texts, text_bytes

_QUOTED = r'[",\r\n]|^$|^\s|\s$'
_UNQUOTED_JSON = (pa.types.is_date, pa.types.is_timestamp, pa.types.is_binary)


def csv_header(names: Sequence[str], line_end: str = "\r\n") -> bytes:
    """The record of the column names."""
    return (",".join(quoted_cells(pa.array(names, pa.string())).to_pylist()) + line_end).encode()


def csv_records(columns: Sequence[pa.Array], line_end: str = "\r\n") -> bytes:
    """One record per row."""
    cells = [pc.fill_null(_cells(column), "") for column in columns]
    joined = pc.binary_join_element_wise(*cells, ",")
    return text_bytes(pc.binary_join_element_wise(joined, line_end, ""))


def _cells(column: pa.Array) -> pa.Array:
    """One cell per value, with its quotes; NULL for NULL."""
    kind = column.type
    if pa.types.is_string(kind):
        return quoted_cells(column)
    if pa.types.is_floating(kind):
        return json_texts(pc.if_else(pc.is_finite(column), column, None))
    texts = json_texts(column)
    if pa.types.is_nested(kind):
        return quoted_cells(texts)
    if pa.types.is_large_binary(kind) or any(is_kind(kind) for is_kind in _UNQUOTED_JSON):
        # Their JSON texts hold nothing that must be quoted, except the quotes around them.
        return pc.utf8_trim(texts, '"')
    return texts


def quoted_cells(texts: pa.Array) -> pa.Array:
    """The texts, with quotes around those that need them."""
    special = pc.fill_null(pc.match_substring_regex(texts, pattern=_QUOTED), False)
    if not pc.any(special).as_py():
        return texts
    doubled = pc.replace_substring(texts, pattern='"', replacement='""')
    quoted = pc.binary_join_element_wise('"', doubled, '"', "")
    return pc.if_else(special, quoted, texts)
