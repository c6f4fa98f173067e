"""`/blob`: the bytes of one blob, or a range of them, without holding the blob.

The server never fetches an external blob. It redirects readers to those that it may name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from omnigraph.errors import ExternalBlobUnavailable
from omnigraph.graph.external_blob import ExternalBlob
from omnigraph.lance_store.reads.blob_reads import StoredBlob
from omnigraph.policy import actions
from omnigraph.server.byte_ranges import (
    ByteRange,
    is_that_tag,
    matches_strongly,
    matches_weakly,
    parse_range,
)
from omnigraph.server.calls import Call
from omnigraph.server.replies import Headers, Refusal
from omnigraph.server.route_entry import RouteEntry
from omnigraph.server.routes.queries import state_of
from omnigraph.server.streamed_replies import BodylessReply, stream_reply
from omnigraph.values.identifiers import EntityKind

_CHUNK = 4 * 1024 * 1024
_MEDIA = b"application/octet-stream"
_STATUSES = (206, 302, 304, 400, 401, 403, 404, 412, 416, 424, 500)


class BlobQuery(Struct):
    """One property of one entity. `branch` and `snapshot` exclude each other."""

    entity: str
    type: str
    id: str
    property: str
    branch: str | None = None
    snapshot: str | None = None


def blob(call: Call) -> Any:
    """GET and HEAD `/blob`. A HEAD reads no byte of the blob."""
    stored = _find(call)
    if isinstance(stored, ExternalBlob):
        return _redirect(stored)
    headers = _identity(stored)
    given = call.header
    if_match = given(b"if-match")
    if if_match is not None and not matches_strongly(if_match, stored.content_tag):
        raise Refusal(412, "the blob is another one now", headers, {"code": "conflict"})
    if_none_match = given(b"if-none-match")
    if if_none_match is not None and matches_weakly(if_none_match, stored.content_tag):
        return BodylessReply(304, [*headers, _length(stored.size)])
    headers = [*headers, (b"accept-ranges", b"bytes")]
    if call.scope["method"] == "HEAD":
        told = [*headers, (b"content-type", _MEDIA), _length(stored.size)]
        return BodylessReply(200, told)
    return _body(call, stored, headers)


def _redirect(blob: ExternalBlob) -> Any:
    """To an external blob; refused unless its base holds for the clients of this server."""
    try:
        location = blob.location()
    except ExternalBlobUnavailable as error:
        # The address may name a file of the host of the writer, so readers do not learn it here.
        raise ExternalBlobUnavailable(
            "the blob is external, and its base is not one to which this server sends readers",
            uri="",
            reason=error.reason,
        ) from None
    return BodylessReply(
        302,
        [
            (b"location", location.encode()),
            (b"cache-control", b"no-store"),
            (b"omnigraph-snapshot-id", blob.graph_commit_id.encode()),
            # Without a length the client would wait for the end of the connection.
            _length(0),
        ],
    )


def _body(call: Call, stored: StoredBlob, headers: Headers) -> Any:
    wanted = _range(call, stored)
    if wanted is not None:
        told = (b"content-range", wanted.content_range(stored.size).encode())
        if not wanted.satisfiable:
            raise Refusal(
                416,
                f"the blob has {stored.size:,} bytes: there is no such range",
                [*headers, told],
                {
                    "blob_range": {
                        "start": wanted.start,
                        "end": wanted.end,
                        "length": stored.size,
                    }
                },
            )
        headers = [*headers, told]
    place = wanted or ByteRange(0, stored.size)
    headers = [*headers, _length(place.end - place.start)]
    reply = stream_reply(_chunks(stored, place), call.state.streams, _MEDIA, headers=headers)
    reply.status = 200 if wanted is None else 206
    return reply


def _range(call: Call, stored: StoredBlob) -> ByteRange | None:
    condition = call.header(b"if-range")
    if condition is not None and not is_that_tag(condition, stored.content_tag):
        return None
    return parse_range(call.header(b"range"), stored.size)


def _chunks(stored: StoredBlob, place: ByteRange) -> Iterator[bytes]:
    for start in range(place.start, place.end, _CHUNK):
        yield stored.read(start, min(_CHUNK, place.end - start))


def _find(call: Call) -> StoredBlob | ExternalBlob:
    asked: BlobQuery = call.query
    if asked.entity not in (EntityKind.NODE.value, EntityKind.EDGE.value):
        raise Refusal(400, f"entity is node or edge, not {asked.entity[:60]!r}")
    branch, at = state_of(asked.branch, asked.snapshot)
    stored = call.graph.blob(asked.entity, asked.type, asked.id, asked.property, branch, at=at)
    call.notes["graph_commit_id"] = stored.graph_commit_id
    return stored


def _identity(stored: StoredBlob) -> Headers:
    return [
        (b"etag", f'"{stored.content_tag}"'.encode()),
        (b"omnigraph-snapshot-id", stored.graph_commit_id.encode()),
    ]


def _length(size: int) -> tuple[bytes, bytes]:
    return (b"content-length", str(size).encode())


BLOB_ROUTES = tuple(
    RouteEntry(
        method,
        "/blob",
        f"{method.lower()}Blob",
        "blobs",
        blob,
        summary,
        action=actions.READ,
        query=BlobQuery,
        media=("application/octet-stream",),
        statuses=_STATUSES,
    )
    for method, summary in (
        ("GET", "The bytes of a blob, or a range of them; a redirect to an external blob."),
        ("HEAD", "The size and the tag of a blob."),
    )
)
