"""`/mutate`, its conditional twin and `/change`."""

from __future__ import annotations

from typing import Any

from omnigraph.mutate.mutation import MutationReceipt
from omnigraph.policy import actions
from omnigraph.server import answers as tell
from omnigraph.server.calls import Call, noted
from omnigraph.server.replies import CONDITION, Refusal
from omnigraph.server.request_bodies import ChangeRequest
from omnigraph.server.route_entry import CHANGE_BYTES, WRITE_STATUSES, RouteEntry
from omnigraph.server.routes.queries import source_of
from omnigraph.values.identifiers import MAIN
from omnigraph.wire.records import record_to_json

_CONDITION = "Omnigraph-If-Graph-Commit"


def refuse_condition(call: Call) -> None:
    """An unconditional route must not look as if it had honoured the header."""
    if call.headers_named(CONDITION):
        route = f"{call.route.path}/if-graph-commit"
        raise Refusal(400, f"{_CONDITION} is not honoured here: use {route}")


def condition(call: Call) -> str:
    """The raw commit id of the condition header."""
    given = call.headers_named(CONDITION)
    if len(given) != 1:
        raise Refusal(400, f"this route needs the header {_CONDITION} exactly once")
    try:
        value = given[0].decode("utf-8")
    except UnicodeDecodeError:
        raise Refusal(400, f"{_CONDITION} is not UTF-8") from None
    raw = value and value != "*" and not value.startswith("W/")
    if not raw or '"' in value or "," in value:
        raise Refusal(400, f"{_CONDITION} is one raw commit id, not {value!r}")
    return value


def mutate(call: Call) -> Any:
    refuse_condition(call)
    return _mutate(call, None)


def mutate_if(call: Call) -> Any:
    return _mutate(call, condition(call))


def _mutate(call: Call, if_commit: str | None) -> Any:
    body: ChangeRequest = call.body
    source = body.query if body.query is not None else body.query_source
    if source is None:
        raise Refusal(400, "the body does not fit: Object missing required field `query`")
    receipt = call.graph.mutate(
        source_of(source),
        body.name if body.name is not None else body.query_name,
        body.params,
        body.branch if body.branch is not None else MAIN,
        message=body.message,
        if_commit=if_commit,
        idempotency_key=call.key_or(body.idempotency_key),
    )
    return mutation_output(call, receipt)


def mutation_output(call: Call, receipt: MutationReceipt) -> dict[str, Any]:
    """The answer of a mutation, noted for the log and the metrics."""
    call.notes["query_name"] = receipt.query_name
    noted(call, receipt.commit, repeated=receipt.repeated)
    return record_to_json(receipt)


MUTATION_ROUTES = (
    RouteEntry(
        "POST",
        "/mutate",
        "mutate",
        "mutations",
        mutate,
        "Run a mutation as one commit.",
        action=actions.CHANGE,
        body=ChangeRequest,
        answer=tell.ChangeOutput,
        statuses=WRITE_STATUSES,
        admission=CHANGE_BYTES,
        takes_key=True,
    ),
    RouteEntry(
        "POST",
        "/mutate/if-graph-commit",
        "mutate_if_graph_commit",
        "mutations",
        mutate_if,
        "Run a mutation if a commit is still the head.",
        action=actions.CHANGE,
        body=ChangeRequest,
        answer=tell.ChangeOutput,
        statuses=(*WRITE_STATUSES, 412),
        admission=CHANGE_BYTES,
        takes_key=True,
    ),
    RouteEntry(
        "POST",
        "/change",
        "change",
        "mutations",
        mutate,
        "Run a mutation; use /mutate.",
        action=actions.CHANGE,
        body=ChangeRequest,
        answer=tell.ChangeOutput,
        statuses=WRITE_STATUSES,
        admission=CHANGE_BYTES,
        takes_key=True,
        successor="mutate",
    ),
)
