"""The answer of a query in the form that the client asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from omnigraph.execute.answer_formats import (
    answer_heading,
    arrow_chunks,
    csv_chunks,
    json_chunks,
    ndjson_chunks,
)
from omnigraph.execute.query_types import QueryResult
from omnigraph.server.calls import Call
from omnigraph.server.negotiation import choose_encoding, choose_media
from omnigraph.server.replies import Refusal, Reply, has_tag
from omnigraph.server.streamed_replies import StreamedReply, gathered, stream_reply
from omnigraph.values.json_values import json_value

JSON, NDJSON = "application/json", "application/x-ndjson"
ARROW, CSV = "application/vnd.apache.arrow.stream", "text/csv"
ANSWER_MEDIA = (JSON, NDJSON, ARROW, CSV)
NDJSON_HEADER = b"application/x-ndjson; charset=utf-8"

_HEADERS = {
    JSON: b"application/json",
    NDJSON: NDJSON_HEADER,
    ARROW: ARROW.encode(),
    CSV: b"text/csv; charset=utf-8; header=present",
}
_WHOLE_ROWS = 1024
"""An answer with more rows is sent batch by batch."""
_encoder = msgspec.json.Encoder()
_PLAIN = frozenset(
    kind.id
    for kind in (
        *(pa.bool_(), pa.string(), pa.large_string(), pa.null()),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64()),
    )
)
"""Kinds of columns whose Python values JSON has a form for."""


def answer_media(call: Call) -> str:
    """The media type of the answer; 406 when the client takes none of them."""
    found = choose_media(call.header(b"accept"), ANSWER_MEDIA)
    if found is None:
        raise Refusal(406, f"this route answers with {', '.join(ANSWER_MEDIA)}")
    return found


def query_reply(call: Call, result: QueryResult, media: str) -> Reply | StreamedReply:
    """A few rows as one body, more of them batch by batch while they are sent."""
    if len(result) > _WHOLE_ROWS:
        return _streamed(call, result, media)
    forms = result.forms
    content = forms.get(media) if forms is not None else None
    reply = Reply(content, media_type=_HEADERS[media], etag=result.graph_commit_id)
    if forms is not None and result.at is None:
        reply.snapshot = result.snapshot
    if content is not None:
        reply.is_kept = True
        return reply
    reply.body = json_body(result) if media == JSON else b"".join(_CHUNKS[media](result))
    if forms is not None:
        forms.put(media, reply.body)
    return reply


def json_body(result: QueryResult) -> bytes:
    """One JSON object. For a few rows this takes a tenth of the time of `json_chunks`."""
    return _encoder.encode(json_object(result))


def json_object(result: QueryResult) -> dict[str, Any]:
    """The answer of `/query` for an encoder that writes NaN as null, as msgspec does."""
    rows: Any = result.to_pylist()
    if _needs_forms(result):
        rows = [json_value(row) for row in rows]
    return {**answer_heading(result), "rows": rows}


def _needs_forms(result: QueryResult) -> bool:
    """Whether a column holds values that JSON has no form for."""
    return any(kind.id not in _PLAIN for kind in result.kinds)


def _streamed(call: Call, result: QueryResult, media: str) -> Reply | StreamedReply:
    tag = f'W/"{result.graph_commit_id}"'.encode()
    if has_tag(call.header(b"if-none-match"), result.graph_commit_id):
        return Reply(b"", 304, [(b"etag", tag)])
    return stream_reply(
        gathered(_CHUNKS[media](result)),
        call.state.streams,
        _HEADERS[media],
        encoding=choose_encoding(call.header(b"accept-encoding")),
        headers=[(b"etag", tag)],
        gone=call.cancel.set,
    )


def _arrow(result: QueryResult) -> Iterator[bytes]:
    """The heading is metadata of the schema."""
    return arrow_chunks(
        result,
        {
            "query_name": result.query_name,
            "graph_branch": result.graph_branch,
            "graph_commit_id": result.graph_commit_id,
            "row_count": str(result.row_count),
            "target": _encoder.encode(result.target).decode(),
        },
    )


_CHUNKS: dict[str, Callable[[QueryResult], Iterator[bytes]]] = {
    JSON: json_chunks,
    NDJSON: ndjson_chunks,
    ARROW: _arrow,
    CSV: csv_chunks,
}
