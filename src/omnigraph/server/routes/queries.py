"""`/query`, `/read`, `/explain` and `/profile`."""

from __future__ import annotations

from typing import Any

from omnigraph.execute.query_types import QueryResult
from omnigraph.graph.reads import NAMES_THEN
from omnigraph.policy import actions
from omnigraph.server import answers as tell
from omnigraph.server.calls import Call
from omnigraph.server.query_answers import ANSWER_MEDIA, answer_media, json_object, query_reply
from omnigraph.server.replies import Refusal, Reply
from omnigraph.server.request_bodies import QueryRequest, ReadRequest
from omnigraph.server.route_entry import READ_STATUSES, RouteEntry
from omnigraph.server.streamed_replies import StreamedReply
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.identifiers import MAIN
from omnigraph.wire.records import record_to_json

_LONGEST_IDENTITY = 4096


def state_of(branch: str | None, snapshot: str | None) -> tuple[str, str | None]:
    """(branch, at) of a request that names at most one of them."""
    if branch is not None and snapshot is not None:
        raise Refusal(400, "a request names `branch` or `snapshot`, not both")
    return branch if branch is not None else MAIN, snapshot


def _named_state(body: QueryRequest) -> tuple[str, str | None, str]:
    """(branch, at, names). With `names` a request has a snapshot and the branch of the names."""
    if body.names is None:
        return *state_of(body.branch, body.snapshot), NAMES_THEN
    return body.branch if body.branch is not None else MAIN, body.snapshot, body.names


def source_of(text: str) -> SourceText:
    """The text of a request. A client must not make the server read a file of that name."""
    return SourceText(text, "<query>")


def run_query(call: Call) -> QueryResult:
    """Run the query of the body, within the limits of this request."""
    body: QueryRequest = call.body
    branch, at, names = _named_state(body)
    result = call.graph.query(
        source_of(body.query),
        body.name,
        body.params,
        branch,
        at=at,
        timeout=call.timeout(body.timeout_ms),
        cancel=None if call.is_inline else call.cancel,
        names=names,
    )
    _note(call, result)
    return result


def _note(call: Call, result: QueryResult) -> None:
    call.notes["query_name"] = result.query_name
    call.notes["graph_commit_id"] = result.graph_commit_id


def query_identity(call: Call) -> Any:
    """What makes two runs of `/query` alike, so that the pace of one tells that of the next.

    None for a long text, because the identities of many queries are kept.
    """
    body: QueryRequest = call.body
    if len(body.query) > _LONGEST_IDENTITY:
        return None
    return call.graph_id, body.query, body.name


def query(call: Call) -> Reply | StreamedReply:
    """POST `/query`, in the form that the client accepts."""
    media = answer_media(call)
    return query_reply(call, run_query(call), media)


def kept_query(call: Call) -> Reply | StreamedReply | None:
    """The answer of POST `/query`, if an equal request had it since the last commit."""
    body: QueryRequest = call.body
    if body.snapshot is not None or body.names is not None:
        return None
    branch = body.branch if body.branch is not None else MAIN
    result = call.graph.kept_answer(source_of(body.query), body.name, body.params, branch)
    if result is None:
        return None
    _note(call, result)
    return query_reply(call, result, answer_media(call))


def read(call: Call) -> dict[str, Any]:
    """POST `/read`: the answer of 0.10, which has no `graph_commit_id`."""
    old: ReadRequest = call.body
    call.body = QueryRequest(old.query_source, old.query_name, old.params, old.branch, old.snapshot)
    found = json_object(run_query(call))
    del found["graph_commit_id"]
    return found


def explain(call: Call) -> dict[str, Any]:
    body: QueryRequest = call.body
    branch, at, names = _named_state(body)
    source = source_of(body.query)
    return record_to_json(
        call.graph.explain(source, body.name, body.params, branch, at=at, names=names)
    )


def profile(call: Call) -> dict[str, Any]:
    body: QueryRequest = call.body
    branch, at, names = _named_state(body)
    found = call.graph.profile(
        source_of(body.query),
        body.name,
        body.params,
        branch,
        at=at,
        timeout=call.timeout(body.timeout_ms),
        cancel=call.cancel,
        names=names,
    )
    return record_to_json(found)


QUERY_ROUTES = (
    RouteEntry(
        "POST",
        "/query",
        "query",
        "queries",
        query,
        "Run a read query.",
        action=actions.READ,
        body=QueryRequest,
        answer=tell.ReadOutput,
        media=ANSWER_MEDIA,
        statuses=(*READ_STATUSES, 304, 406, 415),
        inline_key=query_identity,
        kept=kept_query,
    ),
    RouteEntry(
        "POST",
        "/read",
        "read",
        "queries",
        read,
        "Run a read query; use /query.",
        action=actions.READ,
        body=ReadRequest,
        answer=tell.LegacyReadOutput,
        statuses=(*READ_STATUSES, 415),
        successor="query",
    ),
    RouteEntry(
        "POST",
        "/explain",
        "explain",
        "queries",
        explain,
        "The plan of a query.",
        action=actions.READ,
        body=QueryRequest,
        answer=tell.QueryPlanOutput,
        statuses=(*READ_STATUSES, 415),
    ),
    RouteEntry(
        "POST",
        "/profile",
        "profile",
        "queries",
        profile,
        "Run a query; its plan with rows and times.",
        action=actions.READ,
        body=QueryRequest,
        answer=tell.QueryPlanOutput,
        statuses=(*READ_STATUSES, 415),
    ),
)
