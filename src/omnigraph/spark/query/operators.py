"""Compile a read plan for Spark: a table from operator to function, each giving a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from omnigraph.errors import EngineCannot, InvalidArgument
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.storage_conditions import conditions_of
from omnigraph.plan.analysis import shared_with
from omnigraph.plan.physical import DistinctOn, Find, Follow, LookUp, Weigh
from omnigraph.spark.query.aggregates import aggregate, combine, groups_of
from omnigraph.spark.query.answers import output_type
from omnigraph.spark.query.best_rows import BestRows
from omnigraph.spark.query.expand import (
    broadcast_if_few,
    count_without_edges,
    expand,
    has_few_rows,
    weigh,
    with_late_columns,
    without_edges,
)
from omnigraph.spark.query.expressions import Expressions
from omnigraph.spark.query.graph_tables import Compilation
from omnigraph.spark.query.rows import Frame, Output, SparkColumn, SparkRows
from omnigraph.values.scalars import ScalarKind, ScalarType

# The largest offset and limit that Spark takes.
_LARGEST = 2**31 - 1
_MATCHED = "matched"
_COUNT = "count"
# A limit above this is not known to the tasks that read rows: they would sort too much.
_MOST_BEST = 10_000


def compile_plan(plan: Any, compilation: Compilation) -> SparkRows:
    """The whole plan as one lazy DataFrame.

    A search without a maximum of hops is the exception. It runs here, because only the data tells
    how deep it goes.
    """
    one_row = SparkRows(compilation.tables.sessions.session.range(1), at_most=1, is_unit=True)
    return _run(plan, one_row, compilation)


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
    """Every row combined with every node that storage does not exclude."""
    conditions = conditions_of(predicates, compilation.expressions.scalars.plain)
    bound, frame = compilation.tables.entities(variable, conditions)
    most = None if at_most is None or rows.at_most is None else at_most * rows.at_most
    if not rows.is_unit:
        frame = rows.frame.crossJoin(frame)
    return replace(rows.bind(variable, bound, frame), at_most=most)


def _named(look_up: LookUp, variable: ex.Variable, compilation: Compilation) -> ex.Expression:
    """The predicate that the planner made a lookup of."""
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
    if op.target_bound and not compilation.repeats and _makes_sets(op):
        # Few rows pass a hop between two nodes that are known. So equal rows are dropped after it
        # and not at each hop before it.
        return _expand(op, start, replace(compilation, repeats=True)).once()
    return expand(op, _before_hop(op, op.input, start, compilation), compilation)


def _makes_sets(op: Any) -> bool:
    """Whether the rows of an operator are different in their entities, but for repeated edges."""
    while isinstance(op, reads.Expand | reads.NodeScan | reads.Filter | Find | Follow):
        op = op.input
    return isinstance(op, reads.Rows)


def _before_hop(
    hop: reads.Expand, below: Any, start: SparkRows, compilation: Compilation
) -> SparkRows:
    """The rows that a hop starts from; the table of its nodes is not read where edges suffice."""
    match below:
        case reads.NodeScan(reads.Rows(), variable) if (
            start.is_unit and hop.source == variable and _edges_suffice(hop, compilation)
        ):
            return replace(start, every=variable)
        case _:
            return _run(below, start, compilation)


def _edges_suffice(hop: reads.Expand, compilation: Compilation) -> bool:
    """Whether a hop from every node needs only the edges: each edge has two nodes."""
    return (
        hop.mode is reads.ExpandMode.EDGE
        and hop.path is None
        and (not hop.target_bound or hop.target.id == hop.source.id)
        and not compilation.tables.naming(hop.source).properties
    )


def _follow(op: Follow, start: SparkRows, compilation: Compilation) -> SparkRows:
    rows = _before_hop(op.expand, op.input, start, compilation)
    rows = expand(op.expand, rows, compilation, op.where_edge, op.where_target)
    for predicate in (*op.where_edge, *op.where_target):
        rows = rows.where(compilation.expressions.column(predicate, rows))
    return rows


def _weigh(op: Weigh, start: SparkRows, compilation: Compilation) -> SparkRows:
    hops = [op.expand]
    below = op.input
    while isinstance(below, Weigh) and below.expand.source == op.expand.source:
        hops.append(below.expand)
        below = below.input
    return weigh(hops, _before_hop(hops[-1], below, start, compilation), compilation)


def _distinct_on(op: DistinctOn, start: SparkRows, compilation: Compilation) -> SparkRows:
    rows = _run(op.input, start, replace(compilation, repeats=True))
    columns = [c for v in sorted(op.variables) for c in rows.bindings[v].identity]
    return replace(rows, frame=rows.frame.dropDuplicates(columns), weight=None)


def _filter(op: reads.Filter, start: SparkRows, compilation: Compilation) -> SparkRows:
    rows = _run(op.input, start, compilation)
    return rows.where(compilation.expressions.guarded(op.predicate, rows))


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
    return SparkRows(rows.frame.select(*values), outputs=outputs, at_most=rows.at_most)


def _distinct(op: reads.Distinct, start: SparkRows, compilation: Compilation) -> SparkRows:
    rows = _run(op.input, start, compilation)
    return replace(rows, frame=rows.frame.distinct())


def _aggregate(op: reads.Aggregate, start: SparkRows, compilation: Compilation) -> SparkRows:
    # An order below is skipped, because only `collect` needs it and sorts by the ties itself.
    below = op.input.input if isinstance(op.input, reads.OrderBy) else op.input
    if start.is_unit and not compilation.tables.in_one_task:
        found = _grouped_scan(op, below, compilation) or _count_alone(op, below, start, compilation)
        if found is not None:
            return found
    return aggregate(op, _run(below, start, compilation), compilation.expressions)


def _grouped_scan(op: reads.Aggregate, below: Any, compilation: Compilation) -> SparkRows | None:
    """The aggregates of all nodes of a type, grouped where they are read; None for other ones."""
    tables = compilation.tables
    match below:
        case reads.NodeScan(reads.Rows(), ex.Variable(types=(name,)) as node) if not tables.best:
            groups = groups_of(op, node)
        case _:
            return None
    if groups is None:
        return None
    frame = tables.grouped(tables.snapshot.catalog.node_types[name], groups)
    return combine(op, groups, frame, compilation.expressions.catalog)


def _count_alone(
    op: reads.Aggregate, below: Any, start: SparkRows, compilation: Compilation
) -> SparkRows | None:
    """The number of nodes without an edge of one type; None for another aggregate."""
    hop = _hop_of_nodes_alone(below, start, compilation)
    if hop is None or op.keys or not op.aggregates:
        return None
    for column in op.aggregates:
        match column.value:
            case ex.AggregateCall("count", None):
                continue
            case ex.AggregateCall("count", ex.Whole(node)) if node == hop.source:
                continue
            case _:
                return None
    frame = count_without_edges(hop, hop.source, compilation.tables, _COUNT)
    if frame is None:
        return None
    return SparkRows(
        frame, outputs={c.name: Output(_COUNT, pa.int64()) for c in op.aggregates}, at_most=1
    )


def _order(op: reads.OrderBy, start: SparkRows, compilation: Compilation) -> SparkRows:
    return _sorted(op, _run(op.input, start, compilation), compilation.expressions)


def _sorted(op: reads.OrderBy, rows: SparkRows, expressions: Expressions) -> SparkRows:
    sort_keys = (*op.keys, *map(reads.SortKey, op.ties))
    keys = [_sort_column(key, rows, expressions) for key in sort_keys]
    return replace(rows, frame=rows.frame.orderBy(*keys))


def _sort_column(key: reads.SortKey, rows: SparkRows, expressions: Expressions) -> SparkColumn:
    value = expressions.column(key.value, rows)
    if key.descending:
        return value.desc_nulls_last()
    return value.asc_nulls_last() if key.nulls_last else value.asc_nulls_first()


def _limit(op: reads.Limit, start: SparkRows, compilation: Compilation) -> SparkRows:
    scalars = compilation.expressions.scalars
    skip = _amount(op.offset, "offset", scalars) or 0
    first = _amount(op.count, "limit", scalars)
    if skip > _LARGEST:
        raise InvalidArgument(f"offset is {skip:,}; engine 'spark' goes up to {_LARGEST:,}")
    # A larger limit is left out, because no answer is that long.
    if first is None or first > _LARGEST:
        rows = _run(op.input, start, compilation)
        return rows.on(rows.frame.offset(skip) if skip else rows.frame)
    if isinstance(op.input, reads.OrderBy) and not compilation.tables.in_one_task:
        return _first_of(op.input, skip, first, start, compilation)
    return _cut(_run(op.input, start, compilation), skip, first)


def _cut(rows: SparkRows, skip: int, first: int) -> SparkRows:
    frame = rows.frame.offset(skip) if skip else rows.frame
    return rows.on(frame.limit(first), at_most=first)


def _first_of(
    order: reads.OrderBy, skip: int, first: int, start: SparkRows, compilation: Compilation
) -> SparkRows:
    """The first rows of an order. Columns that only operators above read are joined to these."""
    tables = compilation.tables
    nodes = _nodes_of(order)
    needed = tables.needed.below(order, nodes, tables.snapshot.catalog)
    narrow = replace(compilation, tables=replace(tables, needed=needed), repeats=False)
    best = _best_rows(order, skip + first, start, narrow)
    narrow = replace(narrow, tables=replace(narrow.tables, best=best))
    rows = _cut(_run(order, start, narrow), skip, first)
    late = [node for node in nodes if node.id in needed.later]
    for node in late:
        rows = with_late_columns(node, needed.later[node.id], rows, tables)
    return _sorted(order, rows, compilation.expressions) if late else rows


def _nodes_of(op: Any) -> list[ex.Variable]:
    """The nodes that every row of a block has."""
    found: dict[int, ex.Variable] = {}
    while not isinstance(op, reads.Rows | reads.Project | reads.Aggregate):
        match op:
            case reads.NodeScan(_, variable) | Find(_, variable):
                found[variable.id] = variable
            case reads.Expand(target=variable) | Follow(expand=reads.Expand(target=variable)):
                found[variable.id] = variable
            case _:
                pass
        op = op.input
    return [] if not isinstance(op, reads.Rows) else list(found.values())


def _best_rows(
    order: reads.OrderBy, count: int, start: SparkRows, compilation: Compilation
) -> BestRows | None:
    """Which rows of the sorted entity are enough.

    None if an operator between its table and the order could drop one of them.
    """
    if not start.is_unit or compilation.tables.snapshot.scope is not None or count > _MOST_BEST:
        return None
    match order:
        case reads.OrderBy(
            reads.NodeScan(reads.Rows(), entity),
            (reads.SortKey(ex.PropertyOf(variable, name, kind)) as key, *_),
        ):
            is_whole = True
        case reads.OrderBy(
            reads.Expand(reads.NodeScan(reads.Rows(), source), edge=entity) as hop,
            (reads.SortKey(ex.PropertyOf(variable, name, kind)) as key, *_),
        ):
            is_whole = hop.source == source and _edges_suffice(hop, compilation)
        case _:
            return None
    if entity != variable or not is_whole or not _has_plain_order(kind):
        return None
    columns = compilation.tables.naming(entity)
    return BestRows(columns.id, name, count, key.descending, key.descending or key.nulls_last)


def _has_plain_order(kind: ex.ExpressionType) -> bool:
    """Whether Arrow and Spark sort values of the type alike. They differ about NaN."""
    return isinstance(kind, ScalarType) and kind.kind not in (ScalarKind.F32, ScalarKind.F64)


def _amount(expression: ex.Expression | None, what: str, scalars: Evaluator) -> int | None:
    value: int | None = None if expression is None else scalars.scalar(expression)
    if value is not None and value < 0:
        raise InvalidArgument(f"{what} must not be negative, got {value}")
    return value


# `not { … }`, `exists { … }` and `optional { … }`. The matches of such a block depend only on the
# entities that it shares with the rows around it. So the block is matched once per combination of
# these, and its matches are joined back to the rows by identity.


def _anti_join(op: reads.AntiJoin, start: SparkRows, compilation: Compilation) -> SparkRows:
    """Rows for which the pattern has no match."""
    alone = _nodes_alone(op, start, compilation)
    if alone is not None:
        return alone
    return _joined_with(op, "left_anti", start, compilation)


def _nodes_alone(
    op: reads.AntiJoin, start: SparkRows, compilation: Compilation
) -> SparkRows | None:
    """Every node without an edge of one type, found without rows; None for another anti-join."""
    hop, tables = _hop_of_nodes_alone(op, start, compilation), compilation.tables
    if hop is None:
        return None
    node = hop.source
    found = without_edges(hop, node, tables)
    if found is None:
        return None
    return replace(start.bind(node, tables.naming(node), found), at_most=None)


def _hop_of_nodes_alone(op: Any, start: SparkRows, compilation: Compilation) -> reads.Expand | None:
    """The hop of an anti-join of all nodes with edges of which no row is needed."""
    match op:
        case reads.AntiJoin(
            reads.NodeScan(reads.Rows(), node), reads.Expand(reads.Rows(), source) as hop
        ) if start.is_unit and source == node and not hop.target_bound:
            return hop if _edges_suffice(hop, compilation) else None
        case _:
            return None


def _semi_join(op: reads.SemiJoin, start: SparkRows, compilation: Compilation) -> SparkRows:
    """Rows for which the pattern has a match."""
    return _joined_with(op, "left_semi", start, compilation)


def _joined_with(
    op: reads.AntiJoin | reads.SemiJoin, how: str, start: SparkRows, compilation: Compilation
) -> SparkRows:
    rows = _run(op.input, start, compilation)
    shared, found = _block(op.pattern, rows, compilation)
    matches, condition = _block_matches(found.frame, shared, ())
    matches = broadcast_if_few(matches, found.at_most, compilation.tables)
    return rows.on(rows.frame.join(matches, condition, how), rows.at_most)


def _exists_filter(op: reads.ExistsFilter, start: SparkRows, compilation: Compilation) -> SparkRows:
    """Rows for which the predicate is true. Each pattern becomes a column: whether it matches."""
    rows = _run(op.input, start, compilation)
    frame = rows.frame
    names = [inner.name for inner in op.patterns]
    for inner in op.patterns:
        matched = _matched(inner.pattern, inner.name, rows, compilation)
        frame = frame.join(matched.frame, matched.condition, "left").drop(*matched.beside)
    known = {name: F.col(name).isNotNull() for name in names}
    tested = rows.on(frame.withColumns(known), rows.at_most)
    kept = tested.where(compilation.expressions.guarded(op.predicate, tested))
    return kept.on(kept.frame.drop(*names), rows.at_most)


@dataclass(frozen=True, slots=True)
class _BlockMatches:
    """The combinations of shared entities that a pattern matches, and the join to the rows."""

    frame: Frame
    condition: SparkColumn
    beside: list[str]
    """The columns of the frame that hold the shared entities."""


def _matched(pattern: Any, mark: str, rows: SparkRows, compilation: Compilation) -> _BlockMatches:
    """Every combination once, with a column `mark` that is true."""
    shared, found = _block(pattern, rows, compilation)
    matches, condition = _block_matches(found.frame, shared, (F.lit(True).alias(mark),))
    return _BlockMatches(matches.distinct(), condition, [_block_name(name) for name in shared])


def _block(
    pattern: Any, rows: SparkRows, compilation: Compilation
) -> tuple[dict[str, bool], SparkRows]:
    """The columns of the shared entities, and the matches of a block, some of them repeated."""
    within = replace(compilation, repeats=True)
    start = _block_start(pattern, rows, compilation)
    return _identity(shared_with(pattern), rows), _run(pattern, start, within)


def _optional(op: reads.Optional, start: SparkRows, compilation: Compilation) -> SparkRows:
    """Each row with every match, or once with NULL for the variables of the block."""
    rows = _run(op.input, start, compilation)
    shared = _identity(shared_with(op.pattern), rows)
    found = _run(op.pattern, _block_start(op.pattern, rows, compilation), compilation)
    path = ex.VariableKind.PATH
    bindings = {v.id: found.bindings[v.id] for v in op.variables if v.kind is not path}
    paths = {v.id: found.paths[v.id] for v in op.variables if v.kind is path}
    new = [*(c for bound in bindings.values() for c in bound.columns), *paths.values()]
    matches, condition = _block_matches(found.frame, shared, new)
    frame = rows.frame.join(matches, condition, "left").drop(*(_block_name(n) for n in shared))
    return replace(
        rows,
        frame=frame,
        bindings={**rows.bindings, **bindings},
        paths={**rows.paths, **paths},
        at_most=None,
        is_unit=False,
    )


def _block_start(pattern: Any, rows: SparkRows, compilation: Compilation) -> SparkRows:
    """The rows that a block begins with: the shared variables, each combination once.

    A block that begins with a hop from its only shared node begins with every node, unless there
    are few rows. Then the rows around it are not read to match it.
    """
    shared = shared_with(pattern)
    hop = _first_hop(pattern)
    if (
        hop is not None
        and shared == (hop.source,)
        and not has_few_rows(rows)
        and not compilation.tables.in_one_task
        and _edges_suffice(hop, compilation)
    ):
        return replace(rows, bindings={}, paths={}, weight=None, every=hop.source)
    bindings = {v.id: rows.bindings[v.id] for v in shared if v.id in rows.bindings}
    paths = {v.id: rows.paths[v.id] for v in shared if v.id in rows.paths}
    columns = [*(c for bound in bindings.values() for c in bound.columns), *paths.values()]
    frame, identity = rows.frame.select(*columns), _identity(shared, rows)
    # With nothing shared there is at most one combination. Spark Connect refuses
    # `dropDuplicates` without columns.
    frame = frame.dropDuplicates(list(identity)) if identity else frame.limit(1)
    return SparkRows(frame, bindings, paths, at_most=rows.at_most)


def _first_hop(pattern: Any) -> reads.Expand | None:
    """The first step of a block, if it is a hop."""
    while not isinstance(pattern.input, reads.Rows):
        pattern = pattern.input
    hop = pattern.expand if isinstance(pattern, Follow) else pattern
    return hop if isinstance(hop, reads.Expand) else None


def _identity(shared: Sequence[ex.Variable], rows: SparkRows) -> dict[str, bool]:
    """The columns that identify the shared entities, and whether they may be NULL."""
    found: dict[str, bool] = {}
    for variable in shared:
        path = rows.paths.get(variable.id)
        names = [path] if path is not None else rows.bindings[variable.id].identity
        found |= dict.fromkeys(names, variable.nullable)
    return found


def _block_matches(
    frame: Frame, shared: Mapping[str, bool], new: Sequence[str | SparkColumn]
) -> tuple[Frame, SparkColumn]:
    """The matches under other column names, and the condition that joins them to a row."""
    renamed = frame.select(*(F.col(name).alias(_block_name(name)) for name in shared), *new)
    conditions = []
    for name, nullable in shared.items():
        ours, theirs = F.col(name), F.col(_block_name(name))
        conditions.append(ours.eqNullSafe(theirs) if nullable else ours == theirs)
    return renamed, reduce(lambda a, b: a & b, conditions, F.lit(True))


def _block_name(name: str) -> str:
    return f"{name}_beside"


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
    reads.SemiJoin: _semi_join,
    reads.ExistsFilter: _exists_filter,
    reads.Optional: _optional,
    reads.Project: _project,
    reads.Distinct: _distinct,
    reads.Aggregate: _aggregate,
    reads.OrderBy: _order,
    reads.Limit: _limit,
}
