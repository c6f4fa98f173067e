"""`/queries`: the stored queries of a graph."""

from __future__ import annotations

from typing import Any

from omnigraph.mutate.mutation import MutationReceipt
from omnigraph.policy import actions
from omnigraph.server import answers as tell
from omnigraph.server.calls import Call
from omnigraph.server.query_answers import ANSWER_MEDIA, answer_media, query_reply
from omnigraph.server.request_bodies import BranchQuery, InvokeQueryRequest
from omnigraph.server.route_entry import CHANGE_BYTES, WRITE_STATUSES, RouteEntry
from omnigraph.server.routes.mutations import condition, mutation_output, refuse_condition
from omnigraph.server.routes.queries import state_of
from omnigraph.wire.records import record_to_json


def list_queries(call: Call) -> dict[str, Any]:
    """GET `/queries`: those that the actor may run."""
    return {
        "queries": [record_to_json(query) for query in call.graph.queries.list(call.query.branch)]
    }


def validate_queries(call: Call) -> dict[str, Any]:
    """GET `/queries/validation`: which of them do not fit the schema of a branch."""
    return record_to_json(call.graph.queries.validate(call.query.branch))


def invoke_query(call: Call) -> Any:
    """POST `/queries/{name}`."""
    refuse_condition(call)
    return _invoke(call, None)


def invoke_query_if(call: Call) -> Any:
    """POST `/queries/{name}/if-graph-commit`."""
    return _invoke(call, condition(call))


def stored_identity(call: Call) -> Any:
    """What makes two runs of a stored query alike."""
    return call.graph_id, "stored query", call.path["name"]


def _invoke(call: Call, if_commit: str | None) -> Any:
    body: InvokeQueryRequest = call.body or InvokeQueryRequest()
    branch, at = state_of(body.branch, body.snapshot)
    found = call.graph.queries.run(
        call.path["name"],
        body.params,
        branch,
        at=at,
        timeout=call.timeout(body.timeout_ms),
        cancel=call.cancel,
        message=body.message,
        if_commit=if_commit,
        idempotency_key=call.key_or(body.idempotency_key),
        expect_mutation=body.expect_mutation,
    )
    if isinstance(found, MutationReceipt):
        return mutation_output(call, found)
    call.notes["query_name"] = found.query_name
    call.notes["graph_commit_id"] = found.graph_commit_id
    return query_reply(call, found, answer_media(call))


STORED_QUERY_ROUTES = (
    RouteEntry(
        "GET",
        "/queries",
        "list_queries",
        "queries",
        list_queries,
        "The stored queries that the actor may run.",
        action=actions.READ,
        query=BranchQuery,
        answer=tell.QueriesCatalogOutput,
        statuses=(401, 403, 404),
    ),
    RouteEntry(
        "GET",
        "/queries/validation",
        "validate_queries",
        "queries",
        validate_queries,
        "The stored queries that do not fit the schema of a branch.",
        action=actions.READ,
        query=BranchQuery,
        answer=tell.QueryValidationOutput,
        statuses=(401, 403, 404),
    ),
    RouteEntry(
        "POST",
        "/queries/{name}",
        "invoke_query",
        "queries",
        invoke_query,
        "Run a stored query: the answer of /query or of /mutate.",
        action=actions.INVOKE_QUERY,
        body=InvokeQueryRequest,
        body_optional=True,
        answer=tell.ReadOutput | tell.ChangeOutput,
        media=ANSWER_MEDIA,
        statuses=(*WRITE_STATUSES, 304, 406, 500),
        admission=CHANGE_BYTES,
        takes_key=True,
        inline_key=stored_identity,
    ),
    RouteEntry(
        "POST",
        "/queries/{name}/if-graph-commit",
        "invoke_query_if_graph_commit",
        "queries",
        invoke_query_if,
        "Run a stored mutation if a commit is still the head.",
        action=actions.INVOKE_QUERY,
        body=InvokeQueryRequest,
        body_optional=True,
        answer=tell.ChangeOutput,
        statuses=(*WRITE_STATUSES, 412, 500),
        admission=CHANGE_BYTES,
        takes_key=True,
    ),
)
