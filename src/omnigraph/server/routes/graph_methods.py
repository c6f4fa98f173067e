"""Routes for the methods of `Graph` that the HTTP contract has no route for.

With them a `RemoteGraph` has the methods of a `Graph`: edits, vectors, indexes, checks, and the
history of the schema.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from omnigraph.policy import actions
from omnigraph.server.answers import OptimizeOutput, WriteOutput
from omnigraph.server.calls import Call, noted
from omnigraph.server.request_bodies import CommitQuery
from omnigraph.server.route_entry import READ_STATUSES, SMALL_WRITE, WRITE_STATUSES, RouteEntry
from omnigraph.values.identifiers import MAIN
from omnigraph.wire.records import record_to_json


class TypeEdits(Struct, forbid_unknown_fields=True):
    """Rows of one type to insert or upsert, and ids to delete."""

    insert: list[dict[str, Any]] | None = None
    upsert: list[dict[str, Any]] | None = None
    delete: list[str] = field(default_factory=list)


class ApplyRequest(Struct, forbid_unknown_fields=True):
    """Edits of several types, by type, as one commit."""

    edits: dict[str, TypeEdits]
    branch: str = MAIN
    message: str | None = None
    if_commit: str | None = None


class EmbedTextsRequest(Struct, forbid_unknown_fields=True):
    """The types whose missing vectors are made; by default all."""

    branch: str = MAIN
    types: list[str] | None = None
    message: str | None = None
    engine: str = "local"


class IndexesRequest(Struct, forbid_unknown_fields=True):
    """The types whose declared indexes are built; by default all."""

    branch: str = MAIN
    types: list[str] | None = None


class IndexesQuery(Struct):
    """The branch whose indexes are shown."""

    branch: str = MAIN


class VerifyRequest(Struct, forbid_unknown_fields=True):
    """How many commits are checked, and whether all values of indexes are compared."""

    commits: int = 20
    full: bool = False


class SchemaDiffQuery(Struct):
    """Two states whose schemas are compared."""

    before: str = field(name="from")
    after: str = field(name="to", default=MAIN)


class SchemaHistoryQuery(Struct):
    """The branch whose schema changes are listed, and how many of them."""

    branch: str = MAIN
    limit: int | None = None


class EmbedOutput(WriteOutput):
    """What was embedded: texts that were sent, and texts that an earlier run had sent."""

    embedded: int = 0
    requested: int = 0
    resumed: int = 0


class IndexesOutput(Struct):
    """The declared indexes."""

    indexes: list[dict[str, Any]]


class VerifyOutput(Struct):
    """The violated invariants."""

    ok: bool
    findings: list[dict[str, Any]]
    counts: dict[str, int]
    checked: dict[str, int]


class SchemaStepsOutput(Struct):
    """The steps of one commit."""

    steps: list[dict[str, Any]]


class SchemaDiffOutput(Struct):
    """The steps between two schemas."""

    from_commit_id: str
    to_commit_id: str
    step_count: int
    steps: list[dict[str, Any]]


class SchemaHistoryOutput(Struct):
    """The commits that changed the schema."""

    versions: list[dict[str, Any]]


def apply(call: Call) -> dict[str, Any]:
    body: ApplyRequest = call.body
    edits = {
        name: {
            "insert": edit.insert,
            "upsert": edit.upsert,
            "delete": edit.delete,
        }
        for name, edit in body.edits.items()
    }
    receipt = call.graph.apply(
        edits,
        body.branch,
        message=body.message,
        if_commit=body.if_commit,
        idempotency_key=call.idempotency_key,
    )
    noted(call, receipt.commit, repeated=receipt.repeated)
    return record_to_json(receipt)


def embed(call: Call) -> dict[str, Any]:
    body: EmbedTextsRequest = call.body
    receipt = call.graph.embed(body.branch, body.types, message=body.message, engine=body.engine)
    noted(call, receipt.write.commit, repeated=False)
    return record_to_json(receipt)


def show_indexes(call: Call) -> dict[str, Any]:
    asked: IndexesQuery = call.query
    found = call.graph.index_status(asked.branch)
    return {"indexes": [record_to_json(index) for index in found]}


def build_indexes(call: Call) -> dict[str, Any]:
    body: IndexesRequest = call.body
    skipped = call.graph.ensure_indices(body.branch, body.types)
    return {"graph_branch": body.branch, "skipped": skipped}


def verify(call: Call) -> dict[str, Any]:
    body: VerifyRequest = call.body
    return record_to_json(call.graph.verify(body.commits, full=body.full))


def schema_steps(call: Call) -> dict[str, Any]:
    asked: CommitQuery = call.query
    steps = call.graph.commits.schema_steps(call.path["commit_id"], asked.branch)
    return {"steps": [dict(step) for step in steps]}


def schema_diff(call: Call) -> dict[str, Any]:
    asked: SchemaDiffQuery = call.query
    return record_to_json(call.graph.schema.diff(asked.before, asked.after))


def schema_history(call: Call) -> dict[str, Any]:
    asked: SchemaHistoryQuery = call.query
    found = call.graph.schema.history(asked.branch, asked.limit)
    return {"versions": [record_to_json(version) for version in found]}


METHOD_ROUTES = (
    RouteEntry(
        "POST",
        "/apply",
        "applyEdits",
        "mutations",
        apply,
        "Insert, upsert and delete entities of several types as one commit.",
        action=actions.CHANGE,
        body=ApplyRequest,
        body_limit="load_bytes",
        answer=WriteOutput,
        statuses=(*WRITE_STATUSES, 412),
        admission="body length",
        takes_key=True,
    ),
    RouteEntry(
        "POST",
        "/embed",
        "embed",
        "mutations",
        embed,
        "Make the missing vectors of @embed properties, as one commit.",
        action=actions.CHANGE,
        body=EmbedTextsRequest,
        answer=EmbedOutput,
        statuses=WRITE_STATUSES,
        admission=SMALL_WRITE,
    ),
    RouteEntry(
        "GET",
        "/indexes",
        "listIndexes",
        "management",
        show_indexes,
        "The declared indexes, and how many entities they cover.",
        action=actions.ADMIN,
        query=IndexesQuery,
        answer=IndexesOutput,
        statuses=READ_STATUSES,
    ),
    RouteEntry(
        "POST",
        "/indexes",
        "buildIndexes",
        "management",
        build_indexes,
        "Build the indexes that the schema declares.",
        action=actions.ADMIN,
        body=IndexesRequest,
        answer=OptimizeOutput,
        statuses=WRITE_STATUSES,
        admission=SMALL_WRITE,
    ),
    RouteEntry(
        "POST",
        "/verify",
        "verify",
        "management",
        verify,
        "Check every invariant of the store.",
        action=actions.ADMIN,
        body=VerifyRequest,
        answer=VerifyOutput,
        statuses=(*READ_STATUSES, 415),
    ),
    RouteEntry(
        "GET",
        "/commits/{commit_id}/schema-steps",
        "getSchemaSteps",
        "schema",
        schema_steps,
        "The steps of a commit that changed the schema.",
        action=actions.READ,
        query=CommitQuery,
        answer=SchemaStepsOutput,
        statuses=READ_STATUSES,
    ),
    RouteEntry(
        "GET",
        "/schema/diff",
        "diffSchemas",
        "schema",
        schema_diff,
        "The steps from the schema of one state to that of another.",
        action=actions.READ,
        query=SchemaDiffQuery,
        answer=SchemaDiffOutput,
        statuses=READ_STATUSES,
    ),
    RouteEntry(
        "GET",
        "/schema/history",
        "listSchemaVersions",
        "schema",
        schema_history,
        "The commits that changed the schema of a branch, newest first.",
        action=actions.READ,
        query=SchemaHistoryQuery,
        answer=SchemaHistoryOutput,
        statuses=READ_STATUSES,
    ),
)
