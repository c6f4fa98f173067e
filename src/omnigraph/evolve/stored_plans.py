"""Plans of the past: read from their JSON, or told by the commit that carried one out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnigraph.catalog.identity import shape_hash
from omnigraph.evolve.checks import SchemaViolation
from omnigraph.evolve.plan import BranchOutlook, NewSchema, SchemaPlan
from omnigraph.evolve.stored_queries import BrokenQuery
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import Commit
from omnigraph.schema.changes import Granted, read_severity
from omnigraph.schema.evolve import plan_changes
from omnigraph.schema.read_steps import planned_step_from_json


def plan_of_commit(
    reader: ManifestReader, commit: Commit, new: NewSchema, granted: Granted, graph_id: str
) -> SchemaPlan:
    """The plan that a commit carried out. The schema that it set has the steps."""
    assert commit.parent_commit_id is not None
    parent = CommitGraph(reader).find(commit.parent_commit_id, commit.graph_branch)
    before = reader.schemas.read(parent.schema_id).catalog
    accepted = reader.schemas.read(commit.schema_id)
    return SchemaPlan(
        graph_id=graph_id,
        graph_branch=commit.graph_branch,
        base_commit_id=commit.parent_commit_id,
        base_schema_hash=shape_hash(before),
        target_schema_hash=accepted.schema_hash,
        schema_source=new.source,
        granted=granted,
        steps=tuple(map(planned_step_from_json, accepted.steps)),
        warnings=plan_changes(before, new.catalog, granted).warnings,
    )


def plan_from_json(data: Mapping[str, Any]) -> SchemaPlan:
    granted = Granted(
        data["allow_data_loss"],
        data["backfill"],
        data["reembed"],
        read_severity(data["severity"]),
    )
    return SchemaPlan(
        graph_id=data["graph_id"],
        graph_branch=data["graph_branch"],
        base_commit_id=data["base_commit_id"],
        base_schema_hash=data["base_schema_hash"],
        target_schema_hash=data["target_schema_hash"],
        schema_source=data["schema_source"],
        granted=granted,
        steps=tuple(map(planned_step_from_json, data["steps"])),
        requires=tuple(data["requires"]),
        violations=tuple(map(_violation, data["violations"])),
        warnings=tuple(data["warnings"]),
        branches=tuple(map(_outlook, data["branches"])),
        stored_queries=tuple(BrokenQuery(**query) for query in data["stored_queries"]),
    )


def _violation(data: Mapping[str, Any]) -> SchemaViolation:
    return SchemaViolation(**{**data, "sample_ids": tuple(data["sample_ids"])})


def _outlook(data: Mapping[str, Any]) -> BranchOutlook:
    return BranchOutlook(data["name"], data["supported"], tuple(data["reasons"]))
