"""The rows of a query as JSON, NDJSON, CSV or an Arrow stream, one batch of rows at a time.

The command line and the server write answers with these functions. Only one batch is in memory.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa

from omnigraph.execute.query_types import QueryResult
from omnigraph.values.csv_columns import csv_header, csv_records
from omnigraph.values.json_columns import encode, json_rows, text_bytes

ROWS_AT_ONCE = 8192


def answer_heading(result: QueryResult) -> dict[str, Any]:
    """The answer without its rows. An answer without columns does not list them."""
    heading = result.heading()
    if not heading["columns"]:
        del heading["columns"]
    return heading


def json_chunks(result: QueryResult) -> Iterator[bytes]:
    """One JSON object: `QueryResult.to_dict` as text."""
    yield (encode(answer_heading(result))[:-1] + ',"rows":[').encode()
    between = b""
    for batch in result.batches(ROWS_AT_ONCE):
        if batch.num_rows:
            yield between + _joined(json_rows(batch), ",")
            between = b","
    yield b"]}"


def ndjson_chunks(result: QueryResult) -> Iterator[bytes]:
    """The heading with `"kind": "metadata"`, and then one row on each line."""
    yield (encode({"kind": "metadata", **answer_heading(result)}) + "\n").encode()
    for batch in result.batches(ROWS_AT_ONCE):
        if batch.num_rows:
            yield _joined(json_rows(batch), "\n") + b"\n"


def csv_chunks(result: QueryResult, line_end: str = "\r\n") -> Iterator[bytes]:
    """A header and one record for each row."""
    yield csv_header(result.columns, line_end)
    for batch in result.batches(ROWS_AT_ONCE):
        if batch.num_rows:
            yield csv_records(batch.columns, line_end)


def arrow_chunks(result: QueryResult, heading: dict[str, str] | None = None) -> Iterator[bytes]:
    """An Arrow IPC stream; `heading` becomes the metadata of its schema."""
    batches = result.batches(ROWS_AT_ONCE)
    first = next(batches)
    schema = first.schema.with_metadata({**(first.schema.metadata or {}), **(heading or {})})
    return ipc_chunks(schema, chain([first], batches))


def ipc_chunks(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Batches of this schema as an Arrow IPC stream, one chunk for each."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield _taken(sink)
    yield _taken(sink)


def _joined(texts: pa.Array, between: str) -> bytes:
    """The texts with `between` after each but the last."""
    # One list of all texts is joined at once; the last text then has nothing behind it.
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return text_bytes(pa.compute.binary_join(whole, between))


def _taken(sink: io.BytesIO) -> bytes:
    written = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return written
