"""The steps of a schema change from their JSON: the other direction of `PlannedStep.to_dict`."""

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
from omnigraph.schema import steps as st
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

_GENERATED = {str(made): made for made in map(GeneratedDefault, GENERATED_KINDS)}
_STEPS: dict[str, Any] = {st.kind_of(s): s for s in get_args(st.SchemaStep)}
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
