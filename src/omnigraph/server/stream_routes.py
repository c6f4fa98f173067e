"""The routes with streams in either direction: loads, exports, the change feed, blobs."""

from __future__ import annotations

from omnigraph.graph import access as actions
from omnigraph.server import answers as tell
from omnigraph.server.query_answers import ARROW, NDJSON
from omnigraph.server.route_entry import RouteEntry
from omnigraph.server.routes import blobs, exports, feeds, loads

_LOAD = (202, 400, 401, 403, 404, 408, 409, 412, 413, 415, 424, 429, 503)
_FEED = (400, 401, 403, 404, 409, 410, 413, 429, 500, 503)
_STREAM = (400, 401, 403, 404, 409, 413, 415, 429, 503)
_BLOB = (206, 302, 304, 400, 401, 403, 404, 412, 416, 500)

LOADS = (
    RouteEntry(
        "POST",
        "/load/ndjson",
        "loadNdjson",
        "mutations",
        loads.load_stream,
        "Load a body of NDJSON, Parquet or Arrow as one commit, parsed as it arrives.",
        action=actions.CHANGE,
        query=loads.LoadQuery,
        strict_query=True,
        answer=tell.GraphBatchLoadOutput,
        body_media=loads.STREAM_MEDIA,
        body_limit="load_bytes",
        statuses=_LOAD,
        admission="body length",
        is_async_work=True,
        takes_key=True,
    ),
    RouteEntry(
        "POST",
        "/load/files",
        "loadFiles",
        "mutations",
        loads.load_files,
        "Load several files, sent as a tar archive, as one commit.",
        action=actions.CHANGE,
        query=loads.LoadQuery,
        strict_query=True,
        answer=tell.GraphBatchLoadOutput,
        body_media=(loads.TAR,),
        body_limit="load_bytes",
        statuses=_LOAD,
        admission="body length",
        is_async_work=True,
        takes_key=True,
    ),
    RouteEntry(
        "POST",
        "/load",
        "load",
        "mutations",
        loads.load,
        "Load NDJSON in a JSON body, or files that the operator allows, as one commit.",
        action=actions.CHANGE,
        body=loads.LoadRequest,
        answer=tell.IngestOutput,
        body_limit="load_bytes",
        statuses=_LOAD,
        admission="len(data)",
        is_async_work=True,
        takes_key=True,
    ),
    RouteEntry(
        "POST",
        "/ingest",
        "ingest",
        "mutations",
        loads.load,
        "Load NDJSON in a JSON body; use /load.",
        action=actions.CHANGE,
        body=loads.LoadRequest,
        answer=tell.IngestOutput,
        body_limit="load_bytes",
        statuses=_LOAD,
        admission="len(data)",
        is_async_work=True,
        takes_key=True,
        successor="load",
    ),
)

EXPORTS = (
    RouteEntry(
        "POST",
        "/export",
        "export",
        "queries",
        exports.export,
        "All entities of one state as NDJSON.",
        action=actions.EXPORT,
        body=exports.ExportRequest,
        media=(NDJSON,),
        statuses=_STREAM,
    ),
    RouteEntry(
        "POST",
        "/entities",
        "readEntities",
        "queries",
        exports.entities,
        "Entities of one type as an Arrow stream.",
        action=actions.READ,
        body=exports.EntitiesRequest,
        media=(ARROW,),
        statuses=_STREAM,
    ),
)

FEED = (
    RouteEntry(
        "GET",
        "/changes",
        "pollChanges",
        "changes",
        feeds.poll_changes,
        "The changes of a branch, commit by commit.",
        action=actions.READ,
        query=feeds.ChangesQuery,
        strict_query=True,
        answer=tell.ChangeFeedOutput,
        media=("application/json", feeds.EVENTS),
        statuses=(*_FEED, 406),
    ),
    RouteEntry(
        "POST",
        "/changes/baseline",
        "captureChangeBaseline",
        "changes",
        exports.baseline,
        "All entities of a branch, and the cursor of the feed behind them.",
        action=actions.EXPORT,
        body=exports.BaselineRequest,
        media=(NDJSON,),
        statuses=(*_FEED, 415),
    ),
    RouteEntry(
        "GET",
        "/changes/baseline",
        "pollChangeBaseline",
        "changes",
        feeds.baseline_page,
        "The first page of a baseline, whose cursor goes on in /changes.",
        action=actions.EXPORT,
        query=feeds.BaselineQuery,
        strict_query=True,
        answer=tell.ChangeFeedOutput,
        statuses=_FEED,
    ),
    RouteEntry(
        "GET",
        "/commits/{commit_id}/changes",
        "getCommitChanges",
        "changes",
        feeds.commit_changes,
        "What one commit changed.",
        action=actions.READ,
        query=feeds.CommitChangesQuery,
        strict_query=True,
        answer=tell.CommitChangesOutput,
        statuses=_FEED,
    ),
)

BLOBS = tuple(
    RouteEntry(
        method,
        "/blob",
        f"{method.lower()}Blob",
        "blobs",
        blobs.blob,
        summary,
        action=actions.READ,
        query=blobs.BlobQuery,
        media=("application/octet-stream",),
        statuses=_BLOB,
    )
    for method, summary in (
        ("GET", "The bytes of a blob, or a range of them."),
        ("HEAD", "The size and the tag of a blob."),
    )
)

STREAM_ROUTES = (*LOADS, *EXPORTS, *FEED, *BLOBS)
