"""Expand: the rows so far joined with pairs of ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import functions as F

from omnigraph.ir import expressions as ex
from omnigraph.ir.reads import Expand, ExpandMode
from omnigraph.spark.query.compilation import Compilation
from omnigraph.spark.query.edge_pairs import EdgePairs, Pairs
from omnigraph.spark.query.paths import path_pairs
from omnigraph.spark.query.pushed_filters import conditions_of
from omnigraph.spark.query.reach import reached_pairs
from omnigraph.spark.query.rows import Bound, Frame, SparkRows

_WEIGHT = "weight"

# So many rows are sent to every executor rather than shuffled to meet the edges.
_FEW_ROWS = 10_000


def expand(
    op: Expand,
    rows: SparkRows,
    compilation: Compilation,
    where_edge: Sequence[ex.Expression] = (),
    where_target: Sequence[ex.Expression] = (),
) -> SparkRows:
    """One row per match. The predicates only tell storage what it need not send."""
    scalars = compilation.expressions.scalars
    pairs = _pairs(op, rows, compilation, conditions_of(where_edge, scalars))
    joined = _joined(op, rows, pairs)
    if op.target_bound:
        met = replace(joined, frame=joined.frame.drop(*pairs.ends))
    else:
        met = _with_target(op, joined, pairs, compilation, conditions_of(where_target, scalars))
    if op.edge is None:
        return met
    return met.bind(op.edge, compilation.tables.naming(op.edge), met.frame)


def weigh(op: Expand, rows: SparkRows, compilation: Compilation) -> SparkRows:
    """Each row once, for as many rows as the Expand would make of it."""
    source = rows.bindings[op.source.id]
    edge = None if op.edge is None else compilation.tables.naming(op.edge)
    edges = EdgePairs(compilation.tables, op.steps, edge)
    pairs = edges.between(source.types, op.target.types)
    degree = f"{pairs.start.id}_degree"
    degrees = pairs.frame.groupBy(*pairs.start.columns).agg(F.count(F.lit(1)).alias(degree))
    frame = _gathered(rows).join(degrees, pairs.start.is_node(source))
    weight = F.col(degree) if rows.weight is None else F.col(rows.weight) * F.col(degree)
    frame = frame.withColumn(_WEIGHT, weight).drop(degree, *pairs.start.columns)
    return replace(rows, frame=frame, weight=_WEIGHT)


def _pairs(
    op: Expand, rows: SparkRows, compilation: Compilation, conditions: Sequence[str]
) -> Pairs:
    source = rows.bindings[op.source.id]
    match op.mode:
        case ExpandMode.EDGE:
            edge = None if op.edge is None else compilation.tables.naming(op.edge)
            edges = EdgePairs(compilation.tables, op.steps, edge, conditions)
            return edges.between(source.types, op.target.types)
        case ExpandMode.REACH:
            return reached_pairs(op, _sources(rows, source), source, compilation)
        case ExpandMode.TRAILS | ExpandMode.SHORTEST:
            return path_pairs(op, _sources(rows, source), source, compilation)


def _sources(rows: SparkRows, source: Bound) -> Frame:
    """Whoever is searched from, once."""
    found = rows.frame.select(*source.identity).where(F.col(source.id).isNotNull())
    return found.dropDuplicates(source.identity)


def _joined(op: Expand, rows: SparkRows, pairs: Pairs) -> SparkRows:
    source = rows.bindings[op.source.id]
    condition = pairs.start.is_node(source)
    if op.target_bound:
        condition = condition & pairs.end.is_node(rows.bindings[op.target.id])
    frame = _gathered(rows).join(pairs.frame, condition)
    paths = dict(rows.paths)
    if op.path is not None:
        (paths[op.path.id],) = pairs.extra
    return replace(rows, frame=frame, paths=paths, at_most=None)


def _gathered(rows: SparkRows) -> Frame:
    few = rows.at_most is not None and rows.at_most <= _FEW_ROWS
    return F.broadcast(rows.frame) if few else rows.frame


def _with_target(
    op: Expand,
    rows: SparkRows,
    pairs: Pairs,
    compilation: Compilation,
    conditions: Sequence[str],
) -> SparkRows:
    bound = compilation.tables.naming(op.target)
    frame = rows.frame.withColumnRenamed(pairs.end.id, bound.id)
    if bound.type is not None:
        frame = frame.withColumn(bound.type, pairs.end.type_name())
    frame = frame.drop(*pairs.ends)
    if bound.properties:
        _, targets = compilation.tables.entities(op.target, conditions)
        frame = frame.join(targets, on=bound.identity)
    return rows.bind(op.target, bound, frame)
