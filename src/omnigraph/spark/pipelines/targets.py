"""The DataFrame of a target: the columns of its type, and whether they fit the schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from importlib import import_module
from typing import Any

from omnigraph.catalog.model import (
    ID,
    SOURCE,
    TARGET,
    Catalog,
    EdgeType,
    EntityType,
    default_of,
    embedding_of,
)
from omnigraph.errors import NotFound, PipelineFailed
from omnigraph.spark.column_types import spark_type
from omnigraph.spark.pipelines.flow import Problems
from omnigraph.spark.pipelines.model import Pipeline, PipelineTarget, TargetMode
from omnigraph.values.known_names import did_you_mean

Frame = Any
"""A `pyspark.sql.DataFrame`, classic or Connect."""

_ENDS = ("from", "to")


def check_targets(
    pipeline: Pipeline, catalog: Catalog, columns: Mapping[str, Sequence[str]], problems: Problems
) -> None:
    """Find targets that do not fit the schema. `columns` are those of sources that are known."""
    for target in pipeline.targets:
        try:
            entity = catalog.resolve(target.type)
        except NotFound as error:
            problems.add(f"target {target.type}: {error.message}", target.place)
            continue
        _check_target(target, entity, columns.get(target.origin), problems)
    _check_shared_types(pipeline, problems)


def _check_target(
    target: PipelineTarget,
    entity: EntityType,
    columns: Sequence[str] | None,
    problems: Problems,
) -> None:
    known = [ID, *(p.name for p in entity.properties)]
    what = f"target {target.type}"
    for name in target.columns or ():
        if name not in known:
            hint = did_you_mean(name, known)
            problems.add(f"{what}: there is no property {name!r}; {hint}", target.place)
    lower = None if columns is None else {c.lower() for c in columns}
    given = set(target.columns or ())
    if target.columns is None and lower is not None:
        given = {name for name in known if name.lower() in lower}
    is_known = target.columns is not None or lower is not None
    if is_known and target.mode is not TargetMode.PATCH:
        for name in required_properties(entity):
            if name not in given:
                problems.add(f"{what}: the required property {name!r} has no column", target.place)
    _check_ends(target, entity, lower, problems)


def _check_ends(
    target: PipelineTarget, entity: EntityType, columns: set[str] | None, problems: Problems
) -> None:
    what = f"target {target.type}"
    if not isinstance(entity, EdgeType):
        if target.ends is not None:
            problems.add(f"{what}: `ends` is for edges, and it is a node type", target.place)
        return
    if target.ends is not None or columns is None:
        return
    if not any(columns.issuperset(pair) for pair in (_ENDS, (SOURCE, TARGET))):
        problems.add(f"{what}: `ends` says which columns are `from` and `to`", target.place)


def _check_shared_types(pipeline: Pipeline, problems: Problems) -> None:
    """Several targets of one type are united, so they must have one mode and one scope."""
    first: dict[str, PipelineTarget] = {}
    for target in pipeline.targets:
        other = first.setdefault(target.type, target)
        if (other.mode, other.scope) != (target.mode, target.scope):
            problems.add(
                f"target {target.type}: another target of the type has another mode or scope",
                target.place,
            )
        elif target.mode is TargetMode.PATCH and _names(other) != _names(target):
            problems.add(
                f"target {target.type}: another target of the type patches other properties",
                target.place,
            )


def _names(target: PipelineTarget) -> frozenset[str]:
    return frozenset(target.columns or ())


def target_frames(
    pipeline: Pipeline, catalog: Catalog, frames: Mapping[str, Frame]
) -> dict[str, Frame]:
    """The rows of every type that the pipeline writes."""
    found: dict[str, list[Frame]] = {}
    for target in pipeline.targets:
        entity = catalog.resolve(target.type)
        found.setdefault(target.type, []).append(
            _target_frame(pipeline, target, entity, frames[target.origin])
        )
    return {
        name: reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
        for name, parts in found.items()
    }


def _target_frame(
    pipeline: Pipeline, target: PipelineTarget, entity: EntityType, frame: Frame
) -> Frame:
    f = import_module("pyspark.sql.functions")
    present = {name.lower(): name for name in frame.columns}
    chosen: dict[str, Any] = {}
    for name, text in _expressions(pipeline, target, entity, present).items():
        exact = present.get(text.lower())
        chosen[name] = f.col(f"`{exact}`") if exact is not None else f.expr(text)
    try:
        picked = frame.select(*[column.alias(name) for name, column in chosen.items()])
        return _fitted(f, picked, entity)
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "pyspark":
            raise
        first = str(error).strip().splitlines()[0]
        raise PipelineFailed(
            f"target {target.type}: {first}",
            pipeline=pipeline.name,
            step=target.origin,
            target=target.type,
        ) from error


def _expressions(
    pipeline: Pipeline, target: PipelineTarget, entity: EntityType, present: Mapping[str, str]
) -> dict[str, str]:
    """Property or end -> column or SQL expression."""
    found: dict[str, str] = {}
    if isinstance(entity, EdgeType):
        if target.ends is not None:
            found.update(target.ends)
        else:
            pair = next(
                (p for p in (_ENDS, (SOURCE, TARGET)) if all(n in present for n in p)), None
            )
            if pair is None:
                raise PipelineFailed(
                    f"target {target.type}: step {target.origin} has no columns `from` and `to`; "
                    "`ends` may name others",
                    pipeline=pipeline.name,
                    step=target.origin,
                    target=target.type,
                )
            found.update(zip(_ENDS, pair, strict=True))
    if target.columns is not None:
        return {**found, **target.columns}
    names = [ID, *(p.name for p in entity.properties)]
    return {**found, **{n: present[n.lower()] for n in names if n.lower() in present}}


def _fitted(f: Any, frame: Frame, entity: EntityType) -> Frame:
    """Cast texts to the types of their properties, and other values to text where it is wanted.

    CSV has only texts. Everything else is left to the checks of the load.
    """
    wanted = {p.name: spark_type(p.type) for p in entity.properties}
    columns = []
    for each in frame.schema.fields:
        column, kind = f.col(f"`{each.name}`"), each.dataType.typeName()
        target = wanted.get(each.name)
        if target is None:  # ids and ends are texts
            columns.append(column if kind == "string" else column.cast("string").alias(each.name))
            continue
        to = target.typeName()
        textual = (kind == "string") != (to == "string") and to not in ("array", "binary")
        plain = kind not in ("array", "struct", "map", "binary")
        if kind == "void" or (
            plain and to not in ("array", "binary") and (textual or kind == "decimal")
        ):
            column = column.cast(target).alias(each.name)
        columns.append(column)
    return frame.select(*columns)


def required_properties(entity: EntityType) -> list[str]:
    """Properties that every new entity must be given."""
    return [
        p.name
        for p in entity.properties
        if not p.nullable and default_of(p) is None and embedding_of(p) is None
    ]
