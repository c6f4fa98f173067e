"""Entities as CSV (RFC 4180) that a load reads back to the same graph.

NULL is an empty cell, and the empty text is two quotes, as a load reads them. Lists and vectors are
JSON, blobs `base64:…`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType, EntityType
from omnigraph.export.ndjson import content, json_texts
from omnigraph.values.scalars import (
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)

_TEXT = ScalarType(ScalarKind.STRING)
_QUOTED = r'[",\r\n]|^$'
_PUBLIC_NAMES = {SOURCE: "from", TARGET: "to"}


def csv_chunks(entity: EntityType, tables: Iterator[pa.Table]) -> Iterator[bytes]:
    """The header, and then one chunk of records per batch of rows."""
    kinds = _columns(entity)
    yield (",".join(_PUBLIC_NAMES.get(name, name) for name in kinds) + "\r\n").encode()
    for table in tables:
        for batch in table.to_batches():
            if batch.num_rows:
                yield content(_records(kinds, batch))


def _columns(entity: EntityType) -> dict[str, ValueType]:
    """The columns of a type; an id that a load derives from the key is left out."""
    kinds: dict[str, ValueType] = {} if entity.key else {ID: _TEXT}
    if isinstance(entity, EdgeType):
        kinds |= {SOURCE: _TEXT, TARGET: _TEXT}
    return kinds | {p.name: p.type for p in entity.properties}


def _records(kinds: dict[str, ValueType], rows: pa.RecordBatch) -> pa.Array:
    cells = [pc.fill_null(_cells(kind, rows.column(name)), "") for name, kind in kinds.items()]
    joined = pc.binary_join_element_wise(*cells, ",")
    return pc.binary_join_element_wise(joined, "\r\n", "")


def _cells(kind: ValueType, column: pa.Array) -> pa.Array:
    """One cell per value, with its quotes; NULL for NULL."""
    match kind:
        case ScalarType(ScalarKind.STRING) | EnumType():
            return _quoted(column)
        case ListType() | VectorType():
            return _quoted(json_texts(kind, column))
        case ScalarType(ScalarKind.DATE | ScalarKind.DATETIME) | BlobType():
            # Their JSON texts hold nothing that must be quoted, except the quotes around them.
            return pc.utf8_trim(json_texts(kind, column), '"')
        case _:
            return json_texts(kind, column)


def _quoted(texts: pa.Array) -> pa.Array:
    special = pc.fill_null(pc.match_substring_regex(texts, pattern=_QUOTED), False)
    if not pc.any(special).as_py():
        return texts
    doubled = pc.replace_substring(texts, pattern='"', replacement='""')
    quoted = pc.binary_join_element_wise('"', doubled, '"', "")
    return pc.if_else(special, quoted, texts)
