"""Schema changes and upkeep of a graph on a server."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.evolve.apply import SchemaResult
from omnigraph.evolve.plan import SchemaPlan
from omnigraph.graph.reads import QuerySource, query_source
from omnigraph.graph.schema_changes import (
    SchemaDiff,
    SchemaSource,
    SchemaVersion,
    read_schema,
)
from omnigraph.maintain.cleanup import CleanupReport
from omnigraph.maintain.status import GraphStatus, IndexStatus
from omnigraph.maintain.verify import VerifyReport
from omnigraph.manifest.commit_graph import CommitName, name_text
from omnigraph.manifest.records import RecoveryAudit
from omnigraph.manifest.schemas import AcceptedSchema
from omnigraph.remote.exchanges import Exchange, asked, get, post, refuse_spark
from omnigraph.remote.read_operations import state
from omnigraph.remote.write_operations import write
from omnigraph.values.known_names import AUTO, LOCAL, SPARK, require_engine
from omnigraph.values.scalars import LiteralValue
from omnigraph.wire.records import record_from_json

# Schema


def show_schema(branch: str, at: CommitName | None) -> Exchange[AcceptedSchema]:
    where = yield from state(branch, at)
    return record_from_json(AcceptedSchema, (yield from asked(get("/schema", *where.items()))))


def _members(
    schema: SchemaSource | None,
    branch: str,
    allow_data_loss: bool,
    backfill: Mapping[str, LiteralValue] | None,
    reembed: bool,
    severity: Mapping[str, str] | None,
) -> dict[str, Any]:
    # The text is read and parsed here, so a mistake in a file is reported with its name.
    source = None if schema is None else read_schema(schema)[1]
    return {
        "schema_source": source,
        "branch": branch,
        "allow_data_loss": allow_data_loss,
        "backfill": dict(backfill) if backfill else None,
        "reembed": reembed,
        "severity": dict(severity) if severity else None,
    }


def plan_schema(
    schema: SchemaSource,
    branch: str,
    allow_data_loss: bool,
    backfill: Mapping[str, LiteralValue] | None,
    reembed: bool,
    severity: Mapping[str, str] | None,
    queries: Sequence[QuerySource],
    all_branches: bool,
    engine: str,
) -> Exchange[SchemaPlan]:
    require_engine(engine, "schema plan", (AUTO, LOCAL, SPARK))
    refuse_spark(engine, "schema plan")
    sources = [query_source(source) for source in queries]
    body = {
        **_members(schema, branch, allow_data_loss, backfill, reembed, severity),
        "queries": [source.text for source in sources] or None,
        "query_files": [source.file for source in sources] or None,
        "all_branches": all_branches,
    }
    found = yield from asked(post("/schema/plan", body, is_long=True))
    return record_from_json(SchemaPlan, found)


def apply_schema(
    schema: SchemaSource | None,
    branch: str,
    allow_data_loss: bool,
    backfill: Mapping[str, LiteralValue] | None,
    reembed: bool,
    severity: Mapping[str, str] | None,
    plan: SchemaPlan | Mapping[str, Any] | None,
    message: str | None,
    if_commit: str | None,
    idempotency_key: str | None,
    engine: str,
) -> Exchange[SchemaResult]:
    require_engine(engine, "schema apply", (AUTO, LOCAL, SPARK))
    refuse_spark(engine, "schema apply")
    if (schema is None) == (plan is None):
        raise InvalidArgument("give either a schema or a saved plan")
    body = {
        **_members(schema, branch, allow_data_loss, backfill, reembed, severity),
        "plan": plan.to_dict() if isinstance(plan, SchemaPlan) else plan,
        "message": message,
        "if_commit": if_commit,
    }
    found = yield from asked(write("/schema/apply", body, idempotency_key, is_long=True))
    return record_from_json(SchemaResult, found)


def diff_schemas(a: CommitName, b: CommitName) -> Exchange[SchemaDiff]:
    request = get("/schema/diff", ("from", name_text(a)), ("to", name_text(b)))
    return record_from_json(SchemaDiff, (yield from asked(request)))


def schema_history(branch: str, limit: int | None) -> Exchange[Sequence[SchemaVersion]]:
    found = yield from asked(get("/schema/history", ("branch", branch), ("limit", limit)))
    return [record_from_json(SchemaVersion, version) for version in found["versions"]]


# Upkeep


def _names(types: Sequence[str] | None) -> list[str] | None:
    return None if types is None else list(types)


def optimize(branch: str | None, types: Sequence[str] | None, engine: str) -> Exchange[list[str]]:
    require_engine(engine, "optimize")
    refuse_spark(engine, "optimize")
    body = {"branch": branch, "types": _names(types)}
    found = yield from asked(post("/optimize", body, writes=True, is_long=True))
    return list(found["skipped"])


def ensure_indices(branch: str, types: Sequence[str] | None, engine: str) -> Exchange[list[str]]:
    require_engine(engine, "ensure_indices")
    refuse_spark(engine, "ensure_indices")
    body = {"branch": branch, "types": _names(types)}
    found = yield from asked(post("/indexes", body, writes=True, is_long=True))
    return list(found["skipped"])


def index_status(branch: str) -> Exchange[list[IndexStatus]]:
    found = yield from asked(get("/indexes", ("branch", branch)))
    return [record_from_json(IndexStatus, index) for index in found["indexes"]]


def status() -> Exchange[GraphStatus]:
    return record_from_json(GraphStatus, (yield from asked(get("/status"))))


def cleanup(
    keep: int | None, older_than: str | dt.timedelta | None, confirm: bool
) -> Exchange[CleanupReport]:
    age = f"{older_than.total_seconds()}s" if isinstance(older_than, dt.timedelta) else older_than
    body = {"keep": keep, "older_than": age, "confirm": confirm}
    found = yield from asked(post("/cleanup", body, writes=confirm, is_long=True))
    return record_from_json(CleanupReport, found)


def verify(commits: int, full: bool) -> Exchange[VerifyReport]:
    body = {"commits": commits, "full": full}
    found = yield from asked(post("/verify", body, is_long=True))
    return record_from_json(VerifyReport, found)


def recoveries() -> Exchange[list[RecoveryAudit]]:
    found = yield from asked(get("/recoveries"))
    return [record_from_json(RecoveryAudit, audit) for audit in found["recoveries"]]
