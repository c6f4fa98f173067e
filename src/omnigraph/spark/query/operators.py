"""Drive a read plan on Spark: a table from operator to function, each giving a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from omnigraph.errors import EngineCannot
from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.plan.physical import DistinctOn, Find, Follow, LookUp, Weigh
from omnigraph.spark.query.aggregates import aggregate
from omnigraph.spark.query.blocks import anti_join, optional
from omnigraph.spark.query.compilation import Compilation
from omnigraph.spark.query.expand import expand, weigh
from omnigraph.spark.query.ordering import order, page
from omnigraph.spark.query.outputs import output_type
from omnigraph.spark.query.pushed_filters import conditions_of
from omnigraph.spark.query.rows import Output, SparkRows


def compile_plan(plan: Any, compilation: Compilation) -> SparkRows:
    """The whole plan as one lazy DataFrame, but for searches whose depth only data tells."""
    return _run(plan, _one_row(compilation), compilation)


def _one_row(compilation: Compilation) -> SparkRows:
    return SparkRows(compilation.tables.sessions.session.range(1), at_most=1, is_unit=True)


def _run(op: Any, start: SparkRows, compilation: Compilation) -> SparkRows:
    operate = _OPERATE.get(type(op))
    if operate is None:
        raise EngineCannot.of("spark", type(op).__name__)
    return operate(op, start, compilation)


def _rows(op: reads.Rows, start: SparkRows, compilation: Compilation) -> SparkRows:
    return start


def _scan(op: reads.NodeScan, start: SparkRows, compilation: Compilation) -> SparkRows:
    return _scanned(op.variable, (), None, _run(op.input, start, compilation), compilation)


def _find(op: Find, start: SparkRows, compilation: Compilation) -> SparkRows:
    predicates = list(op.where)
    if op.look_up is not None:
        predicates.append(_named(op.look_up, op.variable, compilation))
    at_most = None if op.look_up is None else _names(op.look_up, op.variable, compilation)
    rows = _run(op.input, start, compilation)
    rows = _scanned(op.variable, predicates, at_most, rows, compilation)
    for predicate in predicates:
        rows = rows.where(compilation.expressions.column(predicate, rows))
    return rows


def _scanned(
    variable: ex.Variable,
    predicates: Sequence[ex.Expression],
    at_most: int | None,
    rows: SparkRows,
    compilation: Compilation,
) -> SparkRows:
    """Every row with every node that storage does not rule out."""
    conditions = conditions_of(predicates, compilation.expressions.scalars)
    bound, frame = compilation.tables.entities(variable, conditions)
    most = None if at_most is None or rows.at_most is None else at_most * rows.at_most
    if not rows.is_unit:
        frame = rows.frame.crossJoin(frame)
    return replace(rows.bind(variable, bound, frame), at_most=most)


def _named(look_up: LookUp, variable: ex.Variable, compilation: Compilation) -> ex.Expression:
    """A lookup as the predicate it was made from."""
    name = ex.PropertyOf(
        variable, look_up.property, _type_of(look_up.property, variable, compilation)
    )
    if look_up.several:
        return ex.InList(name, look_up.wanted)
    return ex.Compare("=", name, look_up.wanted)


def _names(look_up: LookUp, variable: ex.Variable, compilation: Compilation) -> int | None:
    """How many entities a lookup can find."""
    if look_up.per_row:
        return len(variable.types)
    assert isinstance(look_up.wanted, ex.Constant | ex.ParameterRef)
    given = compilation.expressions.scalars.plain(look_up.wanted)
    return len(variable.types) * (len(given or ()) if look_up.several else 1)


def _type_of(name: str, variable: ex.Variable, compilation: Compilation) -> ex.ExpressionType:
    properties = compilation.expressions.catalog.resolve(variable.types[0]).properties
    return next((p.type for p in properties if p.name == name), ex.STRING)


def _expand(op: reads.Expand, start: SparkRows, compilation: Compilation) -> SparkRows:
    return expand(op, _run(op.input, start, compilation), compilation)


def _follow(op: Follow, start: SparkRows, compilation: Compilation) -> SparkRows:
    rows = _run(op.input, start, compilation)
    rows = expand(op.expand, rows, compilation, op.where_edge, op.where_target)
    for predicate in (*op.where_edge, *op.where_target):
        rows = rows.where(compilation.expressions.column(predicate, rows))
    return rows


def _weigh(op: Weigh, start: SparkRows, compilation: Compilation) -> SparkRows:
    return weigh(op.expand, _run(op.input, start, compilation), compilation)


def _distinct_on(op: DistinctOn, start: SparkRows, compilation: Compilation) -> SparkRows:
    rows = _run(op.input, start, compilation)
    columns = [c for v in sorted(op.variables) for c in rows.bindings[v].identity]
    return replace(rows, frame=rows.frame.dropDuplicates(columns), weight=None)


def _filter(op: reads.Filter, start: SparkRows, compilation: Compilation) -> SparkRows:
    rows = _run(op.input, start, compilation)
    return rows.where(compilation.expressions.guarded(op.predicate, rows))


def _anti_join(op: reads.AntiJoin, start: SparkRows, compilation: Compilation) -> SparkRows:
    rows = _run(op.input, start, compilation)
    return anti_join(op, rows, lambda inner, begin: _run(inner, begin, compilation))


def _optional(op: reads.Optional, start: SparkRows, compilation: Compilation) -> SparkRows:
    rows = _run(op.input, start, compilation)
    return optional(op, rows, lambda inner, begin: _run(inner, begin, compilation))


def _project(op: reads.Project, start: SparkRows, compilation: Compilation) -> SparkRows:
    rows = _run(op.input, start, compilation)
    expressions = compilation.expressions
    names = [f"c{number}" for number in range(len(op.columns))]
    values = [
        expressions.guarded(column.value, rows).alias(name)
        for name, column in zip(names, op.columns, strict=True)
    ]
    outputs = {
        column.name: Output(name, output_type(column.value, rows, expressions.catalog))
        for name, column in zip(names, op.columns, strict=True)
    }
    return SparkRows(rows.frame.select(*values), outputs=outputs)


def _distinct(op: reads.Distinct, start: SparkRows, compilation: Compilation) -> SparkRows:
    rows = _run(op.input, start, compilation)
    return replace(rows, frame=rows.frame.distinct())


def _aggregate(op: reads.Aggregate, start: SparkRows, compilation: Compilation) -> SparkRows:
    # An order below serves `collect` alone, which takes it from the ties.
    below = op.input.input if isinstance(op.input, reads.OrderBy) else op.input
    return aggregate(op, _run(below, start, compilation), compilation.expressions)


def _order(op: reads.OrderBy, start: SparkRows, compilation: Compilation) -> SparkRows:
    return order(op, _run(op.input, start, compilation), compilation.expressions)


def _limit(op: reads.Limit, start: SparkRows, compilation: Compilation) -> SparkRows:
    rows = _run(op.input, start, compilation)
    return page(op, rows, compilation.expressions.scalars)


_OPERATE: dict[type, Callable[[Any, SparkRows, Compilation], SparkRows]] = {
    reads.Rows: _rows,
    reads.NodeScan: _scan,
    Find: _find,
    reads.Expand: _expand,
    Follow: _follow,
    Weigh: _weigh,
    DistinctOn: _distinct_on,
    reads.Filter: _filter,
    reads.AntiJoin: _anti_join,
    reads.Optional: _optional,
    reads.Project: _project,
    reads.Distinct: _distinct,
    reads.Aggregate: _aggregate,
    reads.OrderBy: _order,
    reads.Limit: _limit,
}
