"""`Prefer: respond-async`, and `/operations`: work that a client does not wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from omnigraph.commit.operation_log import (
    CANCELLED,
    FAILED,
    SUCCEEDED,
    OperationLog,
    RunningOperation,
)
from omnigraph.errors import NotFound, OmnigraphError, ResourceLimit
from omnigraph.policy import actions
from omnigraph.policy.actions import ADMIN
from omnigraph.progress import ProgressStep, heard_by
from omnigraph.server import answers as tell
from omnigraph.server.calls import Call, in_thread
from omnigraph.server.replies import Reply, reply_of
from omnigraph.server.request_bodies import OperationsQuery
from omnigraph.server.route_entry import RouteEntry
from omnigraph.values.identifiers import MAIN

_FAILS_AT_ONCE_SECONDS = 0.05
_COMMITS = {
    "applySchema": "schema_apply",
    "mergeBranches": "merge",
    "revertCommit": "revert",
    **dict.fromkeys(("load", "ingest", "loadNdjson", "loadFiles"), "load"),
}
"""Operation id of a route -> operation of the commit that it makes."""


def may_respond_later(handler: Callable[[Call], Any]) -> Callable[[Call], Awaitable[Any]]:
    """The handler; with `Prefer: respond-async` it answers 202 and goes on by itself."""

    @wraps(handler)
    async def answer(call: Call) -> Any:
        if not wants_later(call):
            return await in_thread(call, lambda: handler(call))
        return await run_later(call, lambda: handler(call))

    return answer


def wants_later(call: Call) -> bool:
    given = call.header(b"prefer")
    if given is None:
        return False
    return "respond-async" in {part.strip().lower() for part in given.split(",")}


async def run_later(
    call: Call,
    work: Callable[[], Any],
    branch: str | None = None,
    *,
    unused: Callable[[], None] = lambda: None,
) -> Reply:
    """Start the work, and answer with its operation; `unused` is called when it never starts.

    A refusal that comes at once, such as one of the policy, is the answer itself.
    """
    log = operations_of(call)
    loop = asyncio.get_running_loop()
    kind = call.route.operation_id
    target = branch or getattr(call.body, "target", None) or getattr(call.body, "branch", None)
    try:
        operation = await loop.run_in_executor(
            call.state.writes,
            lambda: log.begin(
                kind, call.actor, call.idempotency_key, _COMMITS.get(kind), target or MAIN
            ),
        )
    except BaseException:
        unused()
        raise
    call.operation_key = operation.begun.idempotency_key
    call.cancel = operation.cancel
    running = loop.run_in_executor(
        call.state.writes, lambda: _carry_out(call, log, operation, work)
    )
    running.add_done_callback(lambda ended: unused() if ended.cancelled() else None)
    await asyncio.wait({running}, timeout=_FAILS_AT_ONCE_SECONDS)
    failure = running.result() if running.done() else None
    if failure is not None:
        raise failure
    name = operation.begun.operation_id
    found = await loop.run_in_executor(call.state.reads, lambda: log.show(name))
    place = f"/graphs/{call.graph_id}/operations/{name}".encode()
    return Reply(found, 202, [(b"location", place), (b"preference-applied", b"respond-async")])


def _carry_out(
    call: Call, log: OperationLog, operation: RunningOperation, work: Callable[[], Any]
) -> Exception | None:
    """Run the work and record its end; returns the error that it ended with."""
    operation.started_at = call.state.now_micros()

    def hear(step: ProgressStep) -> None:
        progress = {
            "done": step.done,
            "total": step.total,
            "unit": step.unit,
            "note": step.what,
        }
        operation.reached(progress, publishes=step.stage == "publish")

    try:
        with heard_by(hear):
            found = work()
    except Exception as error:  # noqa: BLE001 - the record of the operation gets it
        cancelled = isinstance(error, ResourceLimit) and error.limit == "cancelled"
        envelope = reply_of(error, call.request_id).body
        log.end(operation, CANCELLED if cancelled else FAILED, error=envelope)
        return error
    body = found.body if isinstance(found, Reply) else found
    log.end(operation, SUCCEEDED, result=body)
    return None


def operations_of(call: Call) -> OperationLog:
    return call.graph.engine.operations


def _may_see_all(call: Call) -> bool:
    try:
        call.graph.require(ADMIN)
    except OmnigraphError:
        return False
    return True


def list_operations(call: Call) -> dict[str, Any]:
    asked: OperationsQuery = call.query
    everything = _may_see_all(call)
    found = [
        operation
        for operation in operations_of(call).list(read_only=call.graph.read_only)
        if (everything or operation["actor_id"] == call.actor)
        and asked.status in (None, operation["status"])
    ]
    return {"operations": [_shown(call, operation) for operation in found]}


def _shown(call: Call, operation: dict[str, Any]) -> dict[str, Any]:
    """An operation of another actor has no result and no error.

    Both may contain values that the rules hide from the actor who asks.
    """
    if operation["actor_id"] == call.actor:
        return operation
    return {name: value for name, value in operation.items() if name not in ("result", "error")}


def _own(call: Call) -> dict[str, Any]:
    name = call.path["operation_id"]
    found = operations_of(call).show(name, read_only=call.graph.read_only)
    if found["actor_id"] != call.actor and not _may_see_all(call):
        raise NotFound(f"no operation {name!r}; they are kept for a day")
    return _shown(call, found)


def show_operation(call: Call) -> dict[str, Any]:
    return _own(call)


def cancel_operation(call: Call) -> dict[str, Any]:
    _own(call)
    return _shown(call, operations_of(call).ask_cancel(call.path["operation_id"]))


OPERATION_ROUTES = (
    RouteEntry(
        "GET",
        "/operations",
        "listOperations",
        "operations",
        list_operations,
        "Long work that this actor started.",
        action=actions.READ,
        query=OperationsQuery,
        answer=tell.OperationListOutput,
        statuses=(400, 401, 403, 404),
    ),
    RouteEntry(
        "GET",
        "/operations/{operation_id}",
        "getOperation",
        "operations",
        show_operation,
        "The state of long work.",
        action=actions.READ,
        answer=tell.OperationOutput,
        statuses=(401, 403, 404),
    ),
    RouteEntry(
        "DELETE",
        "/operations/{operation_id}",
        "cancelOperation",
        "operations",
        cancel_operation,
        "Ask long work to stop.",
        action=actions.READ,
        answer=tell.OperationOutput,
        statuses=(401, 403, 404, 409),
    ),
)
