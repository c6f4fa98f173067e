"""Schemas, their steps, plans and results over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnigraph.catalog.serialize import catalog_from_json
from omnigraph.evolve.apply import SchemaResult
from omnigraph.evolve.plan import SchemaPlan
from omnigraph.evolve.stored_plans import plan_from_json
from omnigraph.graph.schema_changes import SchemaDiff, SchemaVersion
from omnigraph.manifest.schemas import AcceptedSchema
from omnigraph.schema.read_steps import planned_step_from_json
from omnigraph.wire.commits import commit_from_json, commit_to_json

Json = dict[str, Any]


def accepted_schema_to_json(accepted: AcceptedSchema) -> Json:
    return {**accepted.to_dict(), "steps": [dict(step) for step in accepted.steps]}


def accepted_schema_from_json(data: Mapping[str, Any]) -> AcceptedSchema:
    return AcceptedSchema(
        data["schema_id"],
        data["schema_source"],
        catalog_from_json(data["catalog"]),
        data["fingerprint"],
        tuple(data["steps"]),
        data["schema_version"],
    )


def schema_plan_to_json(plan: SchemaPlan) -> Json:
    return plan.to_dict()


def schema_result_to_json(result: SchemaResult) -> Json:
    return {
        **result.to_dict(),
        "commit": commit_to_json(result.commit) if result.commit else None,
        "plan": schema_plan_to_json(result.plan),
    }


def schema_result_from_json(data: Mapping[str, Any]) -> SchemaResult:
    commit = data["commit"]
    return SchemaResult(
        plan_from_json(data["plan"]),
        commit_from_json(commit) if commit else None,
        data["repeated"],
    )


def schema_diff_from_json(data: Mapping[str, Any]) -> SchemaDiff:
    steps = tuple(map(planned_step_from_json, data["steps"]))
    return SchemaDiff(data["from_commit_id"], data["to_commit_id"], steps)


def schema_version_to_json(version: SchemaVersion) -> Json:
    return {**version.to_dict(), "commit": commit_to_json(version.commit)}


def schema_version_from_json(data: Mapping[str, Any]) -> SchemaVersion:
    return SchemaVersion(
        commit_from_json(data["commit"]), data["schema_hash"], tuple(data["steps"])
    )
