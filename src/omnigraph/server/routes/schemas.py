"""`/schema`, `/schema/plan` and `/schema/apply`."""

from __future__ import annotations

from typing import Any

from omnigraph.policy import actions
from omnigraph.server import answers as tell
from omnigraph.server.calls import Call, noted
from omnigraph.server.replies import Refusal, Reply
from omnigraph.server.request_bodies import SchemaApplyRequest, SchemaPlanRequest, SchemaQuery
from omnigraph.server.route_entry import READ_STATUSES, WRITE_STATUSES, RouteEntry
from omnigraph.server.routes.long_work import may_respond_later
from omnigraph.server.routes.queries import state_of
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.identifiers import MAIN
from omnigraph.wire.records import record_to_json


def show_schema(call: Call) -> Reply:
    asked: SchemaQuery = call.query
    branch, at = state_of(asked.branch, asked.snapshot)
    found = call.graph.schema.show(branch, at=at)
    body = {**record_to_json(found), "schema_source": found.source}
    return Reply(body, etag=found.schema_version)


def _text(source: str) -> SourceText:
    """The text of a request. A client must not make the server read a file of that name."""
    return SourceText(source, "<schema>")


def plan_schema(call: Call) -> dict[str, Any]:
    body: SchemaPlanRequest = call.body
    plan = call.graph.schema.plan(
        _text(body.schema_source),
        branch=body.branch or MAIN,
        allow_data_loss=body.allow_data_loss,
        backfill=body.backfill,
        reembed=body.reembed,
        severity=body.severity,
        queries=_query_texts(body.queries, body.query_files),
        all_branches=body.all_branches,
    )
    return record_to_json(plan)


def _query_texts(queries: list[str] | None, files: list[str] | None) -> list[SourceText]:
    """The texts. A client must not make the server read a file of such a name."""
    texts = queries or []
    names = files or ["<query>"] * len(texts)
    if len(names) != len(texts):
        raise Refusal(400, "`query_files` names each of the `queries`")
    return [SourceText(text, name) for text, name in zip(texts, names, strict=True)]


def apply_schema(call: Call) -> dict[str, Any]:
    body: SchemaApplyRequest = call.body
    if (body.schema_source is None) == (body.plan is None):
        raise Refusal(400, "the body has either `schema_source` or `plan`")
    result = call.graph.schema.apply(
        _text(body.schema_source) if body.schema_source is not None else None,
        branch=body.branch or MAIN,
        allow_data_loss=body.allow_data_loss,
        backfill=body.backfill,
        reembed=body.reembed,
        severity=body.severity,
        plan=body.plan,
        message=body.message,
        if_commit=body.if_commit,
        idempotency_key=call.idempotency_key,
    )
    noted(call, result.commit, repeated=result.repeated)
    return {"uri": call.graph_id, **record_to_json(result)}


SCHEMA_ROUTES = (
    RouteEntry(
        "POST",
        "/schema/apply",
        "applySchema",
        "mutations",
        may_respond_later(apply_schema),
        "Change the schema as one commit.",
        action=actions.SCHEMA_APPLY,
        body=SchemaApplyRequest,
        answer=tell.SchemaApplyOutput,
        statuses=(*WRITE_STATUSES, 202, 412),
        admission="len(schema_source)",
        takes_key=True,
        is_async_work=True,
    ),
    RouteEntry(
        "GET",
        "/schema",
        "getSchema",
        "schema",
        show_schema,
        "The schema.",
        action=actions.READ,
        query=SchemaQuery,
        answer=tell.SchemaOutput,
        statuses=(304, 400, 401, 403, 404),
    ),
    RouteEntry(
        "POST",
        "/schema/plan",
        "planSchema",
        "schema",
        plan_schema,
        "What a schema change would do; nothing is written.",
        action=actions.READ,
        body=SchemaPlanRequest,
        answer=tell.SchemaPlanOutput,
        statuses=(*READ_STATUSES, 415),
    ),
)
