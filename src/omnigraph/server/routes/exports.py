"""`/export`, `/changes/baseline` and `/entities`: one immutable state, sent while it is read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa
from msgspec import Struct, field

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import Catalog, EdgeType
from omnigraph.diff.change import ChangeFilter
from omnigraph.errors import InvalidArgument
from omnigraph.execute.answer_formats import ipc_chunks
from omnigraph.export.sorted_rows import sorted_rows
from omnigraph.feed import FeedRequest, cursor_behind
from omnigraph.graph import reads
from omnigraph.graph.export_streams import held_chunks, ndjson_stream
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.policy import actions
from omnigraph.policy.actions import EXPORT, READ
from omnigraph.scoping.visible_rows import VisibleRows
from omnigraph.server.calls import Call
from omnigraph.server.negotiation import choose_encoding
from omnigraph.server.query_answers import ARROW, NDJSON, NDJSON_HEADER
from omnigraph.server.replies import encode
from omnigraph.server.route_entry import RouteEntry
from omnigraph.server.routes.queries import state_of
from omnigraph.server.streamed_replies import StreamedReply, gathered, stream_reply
from omnigraph.values.arrow_types import with_zone
from omnigraph.values.identifiers import MAIN, EntityKind

_STREAM = (400, 401, 403, 404, 409, 413, 415, 429, 503)
_BASELINE = (400, 401, 403, 404, 409, 410, 413, 415, 429, 500, 503)


class ExportRequest(Struct, forbid_unknown_fields=True):
    """The state and the types that are exported."""

    branch: str | None = None
    snapshot: str | None = None
    type_names: list[str] = field(default_factory=list)
    every_id: bool = True
    """False leaves out ids that a load derives again, as `Graph.export` does."""


class BaselineRequest(Struct, forbid_unknown_fields=True):
    """The branch and the filter of the feed that goes on behind the baseline."""

    branch: str = MAIN
    kind: list[str] = field(default_factory=list)
    type: list[str] = field(default_factory=list)
    op: list[str] = field(default_factory=list)


class EntitiesRequest(Struct, forbid_unknown_fields=True):
    """Entities of one type: all, in any order or by id, or those with the given ids."""

    type: str
    ids: list[str] | None = None
    columns: list[str] | None = None
    branch: str | None = None
    snapshot: str | None = None
    sorted: bool = False


def export(call: Call) -> StreamedReply:
    """POST `/export`."""
    asked: ExportRequest = call.body
    branch, at = state_of(asked.branch, asked.snapshot)
    snapshot = _snapshot(call, EXPORT, branch, at)
    types = asked.type_names or None
    for name in types or ():
        snapshot.catalog.resolve(name)
    lines = ndjson_stream(
        call.graph.engine,
        snapshot,
        types,
        is_head=at is None,
        actor=call.actor,
        may_hold=not call.graph.read_only,
        every_id=asked.every_id,
    )
    return _reply(call, snapshot, lines)


def baseline(call: Call) -> StreamedReply:
    """POST `/changes/baseline`: the entities, and then the cursor behind them."""
    asked: BaselineRequest = call.body
    engine = call.graph.engine
    snapshot = _snapshot(call, EXPORT, asked.branch, None)
    wanted = ChangeFilter.of(asked.type or None, asked.kind or None, asked.op or None)
    wanted.check_types(snapshot.catalog)
    request = FeedRequest(asked.branch, wanted, goes_on=call.graph.seen)
    end = {
        "snapshot_commit_id": snapshot.graph_commit_id,
        "resume_cursor": cursor_behind(engine.reader, request, snapshot.graph_commit_id),
    }
    types = _types_of(snapshot.catalog, wanted)
    lines: Iterator[bytes] = iter(())
    if types and wanted.wants_op("insert"):
        may_hold = not call.graph.read_only
        lines = ndjson_stream(
            engine, snapshot, types, is_head=True, actor=call.actor, may_hold=may_hold
        )
    return _reply(call, snapshot, _with_end(lines, encode({"baseline": end}) + b"\n"))


def _types_of(catalog: Catalog, wanted: ChangeFilter) -> list[str]:
    found = []
    for entity in catalog.entity_types():
        kind = EntityKind.EDGE if isinstance(entity, EdgeType) else EntityKind.NODE
        if wanted.wants_table(kind.value, (entity.name,)):
            found.append(entity.name)
    return found


def _with_end(lines: Iterator[bytes], end: bytes) -> Iterator[bytes]:
    yield from lines
    yield end


def entities(call: Call) -> StreamedReply:
    """POST `/entities`: rows of one type as an Arrow stream."""
    asked: EntitiesRequest = call.body
    branch, at = state_of(asked.branch, asked.snapshot)
    snapshot = _snapshot(call, READ, branch, at)
    chunks = _arrow(_entity_tables(call, snapshot, asked))
    may_hold = not call.graph.read_only
    held = held_chunks(
        call.graph.engine, chunks, is_head=at is None, actor=call.actor, may_hold=may_hold
    )
    return _reply(call, snapshot, held, ARROW.encode())


def _entity_tables(call: Call, snapshot: Snapshot, asked: EntitiesRequest) -> Iterator[pa.Table]:
    engine = call.graph.engine
    entity = snapshot.catalog.resolve(asked.type)
    if asked.sorted:
        if asked.ids is not None or asked.columns is not None:
            raise InvalidArgument("`sorted` gives all entities with all columns")
        schema = table_schema(entity)
        yield schema.empty_table()
        yield from sorted_rows(engine.store, snapshot, entity, engine.settings.load)
        return
    # The rows of ids are few; they also check the names of the columns.
    chosen = reads.read_type(engine, snapshot, asked.type, asked.ids or [], asked.columns)
    yield chosen
    if asked.ids is None:
        visible = VisibleRows(engine.store, snapshot)
        for rows in visible.batches(entity.table_key, chosen.column_names):
            yield with_zone(rows)


def _arrow(tables: Iterator[pa.Table]) -> Iterator[bytes]:
    first = next(tables)
    schema = first.schema.remove_metadata()
    batches = (batch for table in chain([first], tables) for batch in table.to_batches())
    return ipc_chunks(schema, (batch.cast(schema) for batch in batches))


def _snapshot(call: Call, action: str, branch: str, at: str | None) -> Snapshot:
    snapshot = call.graph.state(action, branch, at=at)
    call.notes["graph_commit_id"] = snapshot.graph_commit_id
    return snapshot


def _reply(
    call: Call, snapshot: Snapshot, chunks: Iterator[bytes], media_type: bytes = NDJSON_HEADER
) -> StreamedReply:
    return stream_reply(
        _admitted(call, gathered(chunks)),
        call.state.streams,
        media_type,
        encoding=choose_encoding(call.header(b"accept-encoding")),
        headers=[(b"omnigraph-snapshot-id", snapshot.graph_commit_id.encode())],
    )


def _admitted(call: Call, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The chunks, counted as one stream until they end or their reader goes away."""
    with call.state.admission.stream():
        yield from chunks


EXPORT_ROUTES = (
    RouteEntry(
        "POST",
        "/export",
        "export",
        "queries",
        export,
        "All entities of one state as NDJSON.",
        action=actions.EXPORT,
        body=ExportRequest,
        media=(NDJSON,),
        statuses=_STREAM,
    ),
    RouteEntry(
        "POST",
        "/entities",
        "readEntities",
        "queries",
        entities,
        "Entities of one type as an Arrow stream.",
        action=actions.READ,
        body=EntitiesRequest,
        media=(ARROW,),
        statuses=_STREAM,
    ),
    RouteEntry(
        "POST",
        "/changes/baseline",
        "captureChangeBaseline",
        "changes",
        baseline,
        "All entities of a branch, and the cursor of the feed behind them.",
        action=actions.EXPORT,
        body=BaselineRequest,
        media=(NDJSON,),
        statuses=_BASELINE,
    ),
)
