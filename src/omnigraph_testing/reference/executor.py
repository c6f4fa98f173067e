"""The operators of the reference evaluator: read plans over plain dicts, simple and slow.

Every executor must give the same rows in the same order.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.errors import InvalidArgument, ResourceLimit
from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.expressions import Variable
from omnigraph.ir.reads import Direction, EdgeStep, Expand, ExpandMode, HopRange
from omnigraph.ir.walk import walk
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.scalars import BlobType, VectorType
from omnigraph.values.temporal import EPOCH
from omnigraph_testing.reference.expressions import fitted, holds, value_of
from omnigraph_testing.reference.rows import (
    BoundValue,
    Entity,
    EntityPath,
    Evaluation,
    Row,
    RowKey,
    Tables,
    comparable,
    identity,
    in_tie_order,
    sorted_by,
)
from omnigraph_testing.reference.search import fuse_rows, score_rows

CEILING = 1000
"""An unbounded traversal that is not finished after this many hops is an error."""


def evaluate(
    plan: reads.ReadOp,
    catalog: Catalog,
    nodes: Tables,
    edges: Tables,
    parameters: Mapping[str, Any],
    now: dt.datetime | None = None,
) -> tuple[list[str], list[dict[str, Any]]]:
    """Result columns, and the rows in order. `parameters` must be bound and coerced before."""
    evaluation = Evaluation(catalog, nodes, edges, parameters, now or _now())
    columns = _result_columns(plan)
    rows = _rows(plan, Row(), evaluation)
    return [column.name for column in columns], [
        {c.name: _outside(row.columns[c.name], c.value.type, catalog) for c in columns}
        for row in rows
    ]


def _now() -> dt.datetime:
    return EPOCH + dt.timedelta(milliseconds=SYSTEM_CLOCK.now_micros() // 1000)


def _result_columns(plan: reads.ReadOp) -> tuple[reads.Column, ...]:
    return next(op for op in walk(plan) if isinstance(op, reads.Project)).columns


def _outside(value: Any, kind: ex.ExpressionType, catalog: Catalog) -> Any:
    """A value as a caller sees it: an entity as an object, a path as the list of its ids."""
    match value:
        case EntityPath():
            return list(value.ids)
        case Entity():
            assert isinstance(kind, ex.WholeType)
            return _object(value, kind, catalog)
        case tuple():
            return list(value)
        case _:
            return value


def _object(entity: Entity, kind: ex.WholeType, catalog: Catalog) -> dict[str, Any]:
    """Every property of any of the variable's types, except blobs and vectors."""
    shown = [
        p.name
        for type_name in kind.types
        for p in catalog.resolve(type_name).properties
        if not isinstance(p.type, (BlobType, VectorType))
    ]
    ends = {"from": entity.get("src"), "to": entity.get("dst")}
    return {
        "id": entity.id,
        **(ends if kind.kind is ex.VariableKind.EDGE else {}),
        **{name: entity.get(name) for name in shown},
    }


def _rows(op: reads.ReadOp, start: Row, evaluation: Evaluation) -> list[Row]:
    """The rows of an operator. A sub-pattern starts with the row `start`."""
    if isinstance(op, reads.Rows):
        return [start]
    return _OPERATORS[type(op)](op, _rows(op.input, start, evaluation), evaluation)


def _scan(op: reads.NodeScan, rows: Sequence[Row], evaluation: Evaluation) -> list[Row]:
    return [
        row.with_bindings({op.variable: node})
        for row in rows
        for name in op.variable.types
        for node in evaluation.nodes_of(name)
    ]


def _expand(op: reads.Expand, rows: Sequence[Row], evaluation: Evaluation) -> list[Row]:
    return [wider for row in rows for wider in _expanded(op, row, evaluation)]


def _filter(op: reads.Filter, rows: Sequence[Row], evaluation: Evaluation) -> list[Row]:
    return [row for row in rows if holds(op.predicate, row, evaluation)]


def _anti_join(op: reads.AntiJoin, rows: Sequence[Row], evaluation: Evaluation) -> list[Row]:
    return [row for row in rows if not _rows(op.pattern, row, evaluation)]


def _semi_join(op: reads.SemiJoin, rows: Sequence[Row], evaluation: Evaluation) -> list[Row]:
    return [row for row in rows if _rows(op.pattern, row, evaluation)]


def _exists_filter(
    op: reads.ExistsFilter, rows: Sequence[Row], evaluation: Evaluation
) -> list[Row]:
    found = []
    for row in rows:
        matched = {p.name: bool(_rows(p.pattern, row, evaluation)) for p in op.patterns}
        if holds(op.predicate, replace(row, columns=matched), evaluation):
            found.append(row)
    return found


def _optional(op: reads.Optional, rows: Sequence[Row], evaluation: Evaluation) -> list[Row]:
    nothing = dict.fromkeys(op.variables)
    return [
        wider
        for row in rows
        for wider in _rows(op.pattern, row, evaluation) or [row.with_bindings(nothing)]
    ]


def _search(op: reads.Search, rows: Sequence[Row], evaluation: Evaluation) -> list[Row]:
    return score_rows(op, rows, evaluation)


def _fuse(op: reads.Fuse, rows: Sequence[Row], evaluation: Evaluation) -> list[Row]:
    searches = [below for below in walk(op) if isinstance(below, reads.Search)]
    return fuse_rows(op, rows, searches, evaluation)


def _project(op: reads.Project, rows: Sequence[Row], evaluation: Evaluation) -> list[Row]:
    return [
        Row(columns={column.name: value_of(column.value, row, evaluation) for column in op.columns})
        for row in rows
    ]


def _distinct(_op: reads.Distinct, rows: Sequence[Row], _evaluation: Evaluation) -> list[Row]:
    seen: dict[Any, Row] = {}
    for row in rows:
        seen.setdefault(tuple(identity(value) for value in row.columns.values()), row)
    return list(seen.values())


def _aggregate(op: reads.Aggregate, rows: Sequence[Row], evaluation: Evaluation) -> list[Row]:
    groups: dict[Any, tuple[dict[str, Any], list[Row]]] = {}
    if not op.keys:
        groups[()] = ({}, [])
    for row in in_tie_order(rows):
        keys = {column.name: value_of(column.value, row, evaluation) for column in op.keys}
        group = tuple(identity(value) for value in keys.values())
        groups.setdefault(group, (keys, []))[1].append(row)
    return [
        Row(columns=keys | {c.name: _call(c, members, evaluation) for c in op.aggregates})
        for keys, members in groups.values()
    ]


def _call(column: reads.Column, rows: Sequence[Row], evaluation: Evaluation) -> Any:
    assert isinstance(column.value, ex.AggregateCall)
    return _aggregated(column.value, rows, evaluation)


def _order(op: reads.OrderBy, rows: Sequence[Row], evaluation: Evaluation) -> list[Row]:
    keys = [
        RowKey(partial(value_of, key.value, evaluation=evaluation), key.descending, key.nulls_last)
        for key in (*op.keys, *map(reads.SortKey, op.ties))
    ]
    return sorted_by(rows, keys)


def _limit(op: reads.Limit, rows: Sequence[Row], evaluation: Evaluation) -> list[Row]:
    count, offset = _amount(op.count, "limit", evaluation), _amount(op.offset, "offset", evaluation)
    first = offset or 0
    return list(rows[first:] if count is None else rows[first : first + count])


def _amount(expression: ex.Expression | None, what: str, evaluation: Evaluation) -> int | None:
    value: int | None = None if expression is None else value_of(expression, Row(), evaluation)
    if value is not None and value < 0:
        raise InvalidArgument(f"{what} must not be negative, got {value}")
    return value


def _expanded(op: Expand, row: Row, evaluation: Evaluation) -> list[Row]:
    """The row once for every match. A source or target that is NULL matches nothing."""
    source = row.entity(op.source)
    if source is None:
        return []
    found = []
    for path in _paths(op, source, evaluation):
        new: dict[Variable, BoundValue] = {op.target: path.end}
        if op.edge is not None:
            new[op.edge] = path.entities[1]
        if op.path is not None:
            new[op.path] = path
        if path.end.type not in op.target.types:
            continue
        if op.target_bound and row.entity(op.target) != path.end:
            continue
        found.append(row.with_bindings(new))
    return found


def _paths(op: Expand, source: Entity, evaluation: Evaluation) -> list[EntityPath]:
    start = EntityPath((source,))
    match op.mode:
        case ExpandMode.EDGE:
            paths = list(_next(start, op.steps, evaluation))
            if op.edge is not None or op.path is not None:
                return paths
            # Without a variable for the edge, each pair of ends counts once.
            return list({path.end: path for path in paths}.values())
        case ExpandMode.TRAILS:
            return list(_trails(start, op.steps, op.hops, evaluation))
        case ExpandMode.REACH | ExpandMode.SHORTEST:
            return _shortest(start, op.steps, op.hops, evaluation)


def _next(
    path: EntityPath, steps: tuple[EdgeStep, ...], evaluation: Evaluation
) -> Iterator[EntityPath]:
    """The path extended by every edge at its end; an undirected self-loop counts once."""
    for step in steps:
        declared = evaluation.catalog.edge_types[step.edge]
        for edge in evaluation.edges_of(step.edge):
            source = evaluation.node(declared.source, edge.row["src"])
            target = evaluation.node(declared.target, edge.row["dst"])
            if step.direction is not Direction.IN and source == path.end:
                yield path.extended(edge, target)
            is_loop = step.direction is Direction.BOTH and source == target
            if step.direction is not Direction.OUT and target == path.end and not is_loop:
                yield path.extended(edge, source)


def _hop_limit(hops: HopRange) -> int:
    return CEILING if hops.maximum is None else hops.maximum


def _refuse(hops: HopRange) -> None:
    if hops.maximum is None:
        raise ResourceLimit(f"the traversal is not finished after {CEILING} hops", limit="hops")


def _trails(
    start: EntityPath, steps: tuple[EdgeStep, ...], hops: HopRange, evaluation: Evaluation
) -> Iterator[EntityPath]:
    """Every path that uses no edge twice; nodes may repeat."""
    level = [start]
    for length in range(1, _hop_limit(hops) + 1):
        level = [
            longer
            for path in level
            for longer in _next(path, steps, evaluation)
            if longer.entities[-2] not in path.entities[1::2]
        ]
        if length >= hops.minimum:
            yield from level
        if not level:
            return
    _refuse(hops)


def _shortest(
    start: EntityPath, steps: tuple[EdgeStep, ...], hops: HopRange, evaluation: Evaluation
) -> list[EntityPath]:
    """One shortest path to every node at a distance within the bounds, smallest ids first.

    The start is at distance 0 from itself. A cycle does not lead back to it. Only a self-loop
    does, as one hop.
    """
    visited = {start.end}
    level = [start]
    found: list[EntityPath] = []
    for distance in range(1, _hop_limit(hops) + 1):
        reached: dict[Entity, EntityPath] = {}
        longer = [path for shorter in level for path in _next(shorter, steps, evaluation)]
        for path in sorted(longer, key=comparable):
            own_loop = distance == 1 and path.end == start.end
            if own_loop or path.end not in visited:
                reached.setdefault(path.end, path)
        if distance >= hops.minimum:
            found += reached.values()
        level = [path for path in reached.values() if path.end not in visited]
        visited |= reached.keys()
        if not level:
            return found
    _refuse(hops)
    return found


def _aggregated(call: ex.AggregateCall, rows: Sequence[Row], evaluation: Evaluation) -> Any:
    """The value of an aggregate over the rows of one group.

    NULLs are skipped. Without values a count is 0, a collection is empty, the others are NULL.
    `rows` are in tie order, and `collect` keeps that order.
    """
    if call.operand is None:
        return len(rows)
    values = [value_of(call.operand, row, evaluation) for row in rows]
    values = [value for value in values if value is not None]
    if call.distinct:
        values = _first_of_each(values)
    match call.function:
        case "count":
            return len(values)
        case "collect":
            return values
        case _ if not values:
            return None
        case "sum":
            return _total(values, call.type)
        case "avg":
            return _mean(values)
        case "min":
            return min(values, key=comparable)
        case "max":
            return max(values, key=comparable)
        case _:
            raise ValueError(call.function)


def _first_of_each(values: list[Any]) -> list[Any]:
    seen: dict[Any, Any] = {}
    for value in values:
        seen.setdefault(identity(value), value)
    return list(seen.values())


def _total(values: list[Any], kind: ex.ExpressionType) -> Any:
    # Only the total must fit, not the partial sums: the order of the rows must not matter.
    return fitted(_sum(values), kind, "sum")


def _mean(values: list[Any]) -> Any:
    return fitted(_sum(values) / len(values), ex.F64, "avg")


def _sum(values: list[Any]) -> Any:
    if all(isinstance(value, int) for value in values):
        return sum(values)
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf


_OPERATORS: dict[type, Callable[[Any, Sequence[Row], Evaluation], list[Row]]] = {
    reads.NodeScan: _scan,
    reads.Expand: _expand,
    reads.Filter: _filter,
    reads.AntiJoin: _anti_join,
    reads.SemiJoin: _semi_join,
    reads.ExistsFilter: _exists_filter,
    reads.Optional: _optional,
    reads.Search: _search,
    reads.Fuse: _fuse,
    reads.Project: _project,
    reads.Distinct: _distinct,
    reads.Aggregate: _aggregate,
    reads.OrderBy: _order,
    reads.Limit: _limit,
}
