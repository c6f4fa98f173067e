"""Entities as NDJSON lines that a load reads back to the same graph."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from omnigraph.catalog.annotations import default_of
from omnigraph.catalog.columns import ID, SOURCE, TARGET
from omnigraph.catalog.model import EdgeType, EntityType, NodeType
from omnigraph.values.blob_text import write_blob
from omnigraph.values.scalars import BlobType, ListType, ScalarKind, ScalarType, ValueType
from omnigraph.values.temporal import write_moment

Write = Callable[[Any], Any]

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def lines(entity: EntityType, tables: Iterator[pa.Table]) -> Iterator[bytes]:
    """One chunk of lines per table; ids only where no key spells them.

    NULLs are left out, except where a load would then put the default.
    """
    writers = {p.name: _writer(p.type) for p in entity.properties}
    keyed = isinstance(entity, NodeType) and bool(entity.key)
    names = [*([] if keyed else [ID]), *writers]
    nulls = {p.name for p in entity.properties if default_of(p) is not None}
    for table in tables:
        columns = [_values(table.column(name), writers.get(name)) for name in names]
        data = [
            {n: v for n, v in zip(names, row, strict=True) if v is not None or n in nulls}
            for row in zip(*columns, strict=True)
        ]
        yield "".join(_lines(entity, table, data)).encode()


def _lines(entity: EntityType, table: pa.Table, data: list[dict[str, Any]]) -> Iterator[str]:
    if not isinstance(entity, EdgeType):
        start = f'{{"type":{_encode(entity.name)},"data":'
        for row in data:
            yield f"{start}{_encode(row)}}}\n"
        return
    start = f'{{"edge":{_encode(entity.name)},"from":'
    ends = zip(table.column(SOURCE).to_pylist(), table.column(TARGET).to_pylist(), strict=True)
    for (source, target), row in zip(ends, data, strict=True):
        yield f'{start}{_encode(source)},"to":{_encode(target)},"data":{_encode(row)}}}\n'


def _values(column: pa.ChunkedArray, write: Write | None) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if write is None:
        return values
    return [None if value is None else write(value) for value in values]


def _writer(kind: ValueType) -> Write | None:
    """How a value is spelled when JSON does not have it."""
    match kind:
        case ScalarType(scalar):
            return _SCALARS.get(scalar)
        case ListType(element) if element in _SCALARS:
            return lambda items: [_SCALARS[element](item) for item in items]
        case BlobType():
            return write_blob
        case _:
            return None


def _moment(value: dt.datetime) -> str:
    return write_moment(value.replace(tzinfo=dt.UTC))


_SCALARS: dict[ScalarKind, Write] = {
    ScalarKind.DATE: lambda day: day.isoformat(),
    ScalarKind.DATETIME: _moment,
}
