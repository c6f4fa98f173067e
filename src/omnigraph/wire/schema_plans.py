"""Schemas, their steps, plans and results over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args

from omnigraph.catalog.declared_types import DeclaredType
from omnigraph.catalog.model import (
    GENERATED_KINDS,
    Annotation,
    Cardinality,
    Check,
    Constraint,
    GeneratedDefault,
    Index,
    Key,
    Range,
    Unique,
)
from omnigraph.catalog.serialize import catalog_from_json
from omnigraph.evolve.apply import SchemaResult
from omnigraph.evolve.checks import SchemaViolation
from omnigraph.evolve.plan import BranchOutlook, SchemaPlan
from omnigraph.evolve.stored_queries import BrokenQuery
from omnigraph.graph.schema_changes import SchemaDiff, SchemaVersion
from omnigraph.manifest.schemas import AcceptedSchema
from omnigraph.schema import steps as st
from omnigraph.schema.changes import Granted, read_severity
from omnigraph.schema.steps import PlannedStep, StepClass
from omnigraph.values.scalars import (
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)
from omnigraph.wire.changes import snake_case
from omnigraph.wire.commits import commit_from_json, commit_to_json

Json = dict[str, Any]

_GENERATED = {str(made): made for made in map(GeneratedDefault, GENERATED_KINDS)}


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


def schema_plan_from_json(data: Mapping[str, Any]) -> SchemaPlan:
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


def schema_result_to_json(result: SchemaResult) -> Json:
    return {
        **result.to_dict(),
        "commit": commit_to_json(result.commit) if result.commit else None,
        "plan": schema_plan_to_json(result.plan),
    }


def schema_result_from_json(data: Mapping[str, Any]) -> SchemaResult:
    commit = data["commit"]
    return SchemaResult(
        schema_plan_from_json(data["plan"]),
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


_STEPS: dict[str, Any] = {snake_case(s.__name__): s for s in get_args(st.SchemaStep)}
_KEYS = {"old": "from", "new": "to"}


def planned_step_from_json(data: Mapping[str, Any]) -> PlannedStep:
    return PlannedStep(
        step=step_from_json(data),
        step_class=StepClass(data["class"]),
        codes=tuple(data["codes"]),
        entities=data["entities"],
        bytes_estimate=data["bytes_estimate"],
        suggestion=data.get("suggestion"),
        allowed=data.get("allowed"),
    )


def step_from_json(data: Mapping[str, Any]) -> Any:
    """The step that `step_to_json` wrote; a kind that this release does not know is refused."""
    step = _STEPS.get(data["kind"])
    if step is None:
        return st.UnsupportedChange(data.get("text", data["kind"]), "an unknown kind of step")
    given = {}
    for field in fields(step):
        key = _KEYS.get(field.name, field.name)
        if key in data:
            given[field.name] = _step_value(step, field.name, data[key])
    return step(**given)


def _step_value(step: Any, name: str, value: Any) -> Any:
    match name, value:
        case (("property_type" | "from_type" | "to_type"), dict()):
            return _declared_type(value)
        case "conversion", str():
            return st.Conversion(value)
        case "constraint", dict():
            return _constraint(value)
        case "annotations", list():
            return tuple(map(_annotation, value))
        case (("old" | "new"), {"min": low, "max": high}) if step is st.ChangeCardinality:
            return Cardinality(low, high)
        case _, dict():
            return tuple(value.items())
        case _, list():
            return tuple(value)
        case _:
            return value


def _declared_type(data: Mapping[str, Any]) -> DeclaredType:
    return DeclaredType(_value_type(data), data["nullable"])


def _value_type(data: Mapping[str, Any]) -> ValueType:
    match data:
        case {"enum_values": values}:
            return EnumType(tuple(values))
        case {"scalar": {"Vector": width}}:
            return VectorType(width)
        case {"scalar": "Blob"}:
            return BlobType()
        case {"scalar": scalar, "list": True}:
            return ListType(ScalarKind(scalar))
        case _:
            return ScalarType(ScalarKind(data["scalar"]))


_NAMED: dict[str, type[Key | Unique | Index]] = {"Key": Key, "Unique": Unique, "Index": Index}


def _constraint(data: Mapping[str, Any]) -> Constraint:
    ((kind, value),) = data.items()
    if kind == "Range":
        return Range(value["property"], value["min"], value["max"])
    if kind == "Check":
        return Check(value["property"], value["pattern"])
    return _NAMED[kind](tuple(value))


def _annotation(data: Mapping[str, Any]) -> Annotation:
    value = data.get("value", [])
    arguments = value if isinstance(value, list) else [value]
    restored = tuple(_GENERATED.get(v, v) if isinstance(v, str) else v for v in arguments)
    return Annotation(data["name"], restored, tuple(data.get("kwargs", {}).items()))
