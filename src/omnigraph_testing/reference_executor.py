"""The reference evaluator: read plans over plain dicts, obviously right and slow.

Every executor must give the rows this gives, in the same order.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.errors import InvalidArgument
from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.walk import walk
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.scalars import BlobType, VectorType
from omnigraph.values.temporal import EPOCH
from omnigraph_testing.reference.aggregates import aggregate
from omnigraph_testing.reference.expansion import expand
from omnigraph_testing.reference.expressions import evaluate as value_of
from omnigraph_testing.reference.expressions import holds
from omnigraph_testing.reference.ordering import identity, in_tie_order, sorted_by
from omnigraph_testing.reference.rows import Entity, Path, Row, Tables, World
from omnigraph_testing.reference.search import fuse_rows, score_rows


def evaluate(
    plan: reads.ReadOp,
    catalog: Catalog,
    nodes: Tables,
    edges: Tables,
    parameters: Mapping[str, Any],
    now: dt.datetime | None = None,
) -> tuple[list[str], list[dict[str, Any]]]:
    """Result columns, and the rows in order; `parameters` are bound and coerced already."""
    world = World(catalog, nodes, edges, parameters, now or _now())
    columns = _result_columns(plan)
    rows = _rows(plan, Row(), world)
    return [column.name for column in columns], [
        {c.name: _outside(row.columns[c.name], c.value.type, catalog) for c in columns}
        for row in rows
    ]


def _now() -> dt.datetime:
    return EPOCH + dt.timedelta(milliseconds=SYSTEM_CLOCK.now_micros() // 1000)


def _result_columns(plan: reads.ReadOp) -> tuple[reads.Column, ...]:
    return next(op for op in walk(plan) if isinstance(op, reads.Project)).columns


def _outside(value: Any, kind: ex.ExpressionType, catalog: Catalog) -> Any:
    """A value as a caller sees it: entities as objects, paths as their ids in turn."""
    match value:
        case Path():
            return list(value.ids)
        case Entity():
            assert isinstance(kind, ex.WholeType)
            return _object(value, kind, catalog)
        case tuple():
            return list(value)
        case _:
            return value


def _object(entity: Entity, kind: ex.WholeType, catalog: Catalog) -> dict[str, Any]:
    """Every property any of the variable's types has, but blobs and vectors."""
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


def _rows(op: reads.ReadOp, start: Row, world: World) -> list[Row]:
    """The rows of an operator whose sub-pattern, if it is one, starts at `start`."""
    if isinstance(op, reads.Rows):
        return [start]
    return _OPERATORS[type(op)](op, _rows(op.input, start, world), world)


def _scan(op: reads.NodeScan, rows: Sequence[Row], world: World) -> list[Row]:
    return [
        row.with_bindings({op.variable: node})
        for row in rows
        for name in op.variable.types
        for node in world.nodes_of(name)
    ]


def _expand(op: reads.Expand, rows: Sequence[Row], world: World) -> list[Row]:
    return [wider for row in rows for wider in expand(op, row, world)]


def _filter(op: reads.Filter, rows: Sequence[Row], world: World) -> list[Row]:
    return [row for row in rows if holds(op.predicate, row, world)]


def _anti_join(op: reads.AntiJoin, rows: Sequence[Row], world: World) -> list[Row]:
    return [row for row in rows if not _rows(op.pattern, row, world)]


def _optional(op: reads.Optional, rows: Sequence[Row], world: World) -> list[Row]:
    nothing = dict.fromkeys(op.variables)
    return [
        wider
        for row in rows
        for wider in _rows(op.pattern, row, world) or [row.with_bindings(nothing)]
    ]


def _search(op: reads.Search, rows: Sequence[Row], world: World) -> list[Row]:
    return score_rows(op, rows, world)


def _fuse(op: reads.Fuse, rows: Sequence[Row], world: World) -> list[Row]:
    searches = [below for below in walk(op) if isinstance(below, reads.Search)]
    return fuse_rows(op, rows, searches, world)


def _project(op: reads.Project, rows: Sequence[Row], world: World) -> list[Row]:
    return [
        Row(columns={column.name: value_of(column.value, row, world) for column in op.columns})
        for row in rows
    ]


def _distinct(_op: reads.Distinct, rows: Sequence[Row], _world: World) -> list[Row]:
    seen: dict[Any, Row] = {}
    for row in rows:
        seen.setdefault(tuple(identity(value) for value in row.columns.values()), row)
    return list(seen.values())


def _aggregate(op: reads.Aggregate, rows: Sequence[Row], world: World) -> list[Row]:
    groups: dict[Any, tuple[dict[str, Any], list[Row]]] = {}
    if not op.keys:
        groups[()] = ({}, [])
    for row in in_tie_order(rows):
        keys = {column.name: value_of(column.value, row, world) for column in op.keys}
        group = tuple(identity(value) for value in keys.values())
        groups.setdefault(group, (keys, []))[1].append(row)
    return [
        Row(columns=keys | {c.name: _call(c, members, world) for c in op.aggregates})
        for keys, members in groups.values()
    ]


def _call(column: reads.Column, rows: Sequence[Row], world: World) -> Any:
    assert isinstance(column.value, ex.AggregateCall)
    return aggregate(column.value, rows, world)


def _order(op: reads.OrderBy, rows: Sequence[Row], world: World) -> list[Row]:
    keys = [(key.value, key.descending, key.nulls_last) for key in op.keys]
    ties = [(tie, False, False) for tie in op.ties]
    return sorted_by(
        rows,
        [
            (partial(value_of, expression, world=world), descending, nulls_last)
            for expression, descending, nulls_last in (*keys, *ties)
        ],
    )


def _limit(op: reads.Limit, rows: Sequence[Row], world: World) -> list[Row]:
    count, offset = _amount(op.count, "limit", world), _amount(op.offset, "offset", world)
    first = offset or 0
    return list(rows[first:] if count is None else rows[first : first + count])


def _amount(expression: ex.Expression | None, what: str, world: World) -> int | None:
    value: int | None = None if expression is None else value_of(expression, Row(), world)
    if value is not None and value < 0:
        raise InvalidArgument(f"{what} is {value}, less than nothing")
    return value


_OPERATORS: dict[type, Callable[[Any, Sequence[Row], World], list[Row]]] = {
    reads.NodeScan: _scan,
    reads.Expand: _expand,
    reads.Filter: _filter,
    reads.AntiJoin: _anti_join,
    reads.Optional: _optional,
    reads.Search: _search,
    reads.Fuse: _fuse,
    reads.Project: _project,
    reads.Distinct: _distinct,
    reads.Aggregate: _aggregate,
    reads.OrderBy: _order,
    reads.Limit: _limit,
}
