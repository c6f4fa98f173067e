"""How many rows a plan is expected to make: counts of the graph, selectivity, estimates.

The planner chooses an order by these numbers, and `explain` shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from omnigraph.catalog.model import Catalog, Unique
from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.expressions import Variable, VariableKind
from omnigraph.ir.reads import Direction, EdgeStep
from omnigraph.ir.walk import inner_patterns
from omnigraph.plan.physical import Find, Follow, PhysicalOp
from omnigraph.values.identifiers import TableKey, edge_table, node_table

# Shares of rows that a predicate leaves when nothing is known about the values. They are guesses;
# only their relative size matters for the choice of a plan.
_EQUAL, _RANGE, _SUBSTRING, _TEXT, _NULL, _UNKNOWN = 0.05, 0.3, 0.1, 0.02, 0.1, 0.5
_LIST_LENGTH = 10
_GROUPS = 0.1
_MATCH = 0.5
_HOPS = 8


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the planner knows about a graph: its types and roughly how many entities each has.

    Counts are rounded down to powers of two, so that a plan does not change with every commit.
    """

    catalog: Catalog
    counts: Mapping[TableKey, int]
    may_be_told: bool = True
    """False when counts include rows that the caller may not see: `explain` leaves them out."""

    def rows_of(self, variable: Variable) -> int:
        """How many entities a variable can be bound to, at least 1."""
        table = node_table if variable.kind is VariableKind.NODE else edge_table
        return max(1, sum(self._count(table(name)) for name in variable.types))

    def per_node(self, step: EdgeStep) -> float:
        """How many edges a node has on average, followed in this direction."""
        edge = self.catalog.edge_types[step.edge]
        count = self._count(edge_table(step.edge))
        out = count / max(1, self._count(node_table(edge.source)))
        into = count / max(1, self._count(node_table(edge.target)))
        match step.direction:
            case Direction.OUT:
                return out
            case Direction.IN:
                return into
            case Direction.BOTH:
                return out + into

    def is_id_or_key(self, variable: Variable, property_name: str) -> bool:
        """The property is `id` or the whole key, so a value identifies at most one entity."""
        if property_name == "id":
            return True
        if variable.kind is not VariableKind.NODE or len(variable.types) != 1:
            return False
        return self.catalog.node_types[variable.types[0]].key == (property_name,)

    def is_unique(self, variable: Variable, property_name: str) -> bool:
        if self.is_id_or_key(variable, property_name):
            return True
        table = node_table if variable.kind is VariableKind.NODE else edge_table
        entities = [self.catalog.entity_type(table(name)) for name in variable.types]
        return all(
            any(isinstance(c, Unique) and c.properties == (property_name,) for c in e.constraints)
            for e in entities
        )

    def _count(self, key: TableKey) -> int:
        return self.counts.get(key, 0)


def rounded(count: int) -> int:
    """The largest power of two up to `count`; 0 stays 0."""
    return 1 << (count.bit_length() - 1) if count > 0 else 0


def fraction_left(predicate: ex.Expression, statistics: Statistics) -> float:  # noqa: C901
    """The share of rows that a predicate is expected to leave, between 0 and 1."""
    match predicate:
        case ex.And(operands):
            return prod(fraction_left(operand, statistics) for operand in operands)
        case ex.Or(operands):
            return min(1.0, sum(fraction_left(operand, statistics) for operand in operands))
        case ex.Not(operand):
            return 1.0 - fraction_left(operand, statistics)
        case ex.IsNull(_, negated):
            return 1.0 - _NULL if negated else _NULL
        case ex.Compare("=", left, right):
            return min(_one_value(side, statistics) for side in (left, right))
        case ex.Compare("!=", left, right):
            return 1.0 - min(_one_value(side, statistics) for side in (left, right))
        case ex.Compare("contains" | "starts_with"):
            return _SUBSTRING
        case ex.Compare():
            return _RANGE
        case ex.InList(operand, collection):
            return min(1.0, _length(collection) * _one_value(operand, statistics))
        case ex.TextMatch():
            return _TEXT
        case ex.Constant(value):
            return 1.0 if value is True else 0.0
        case _:
            return _UNKNOWN


def _one_value(side: ex.Expression, statistics: Statistics) -> float:
    """The share of entities that have one given value."""
    match side:
        case ex.PropertyOf(variable, name) if statistics.is_unique(variable, name):
            return 1.0 / statistics.rows_of(variable)
        case ex.Whole(variable) if variable.kind is not ex.VariableKind.PATH:
            return 1.0 / statistics.rows_of(variable)
        case ex.PropertyOf():
            return _EQUAL
        case _:
            return 1.0


def _length(collection: ex.Expression) -> int:
    match collection:
        case ex.Constant(tuple() as items):
            return len(items)
        case ex.ListOf(items):
            return len(items)
        case _:
            return _LIST_LENGTH


def estimate_rows(plan: PhysicalOp, statistics: Statistics) -> dict[int, float]:
    """Expected rows by `id()` of the operator; those of a sub-pattern are per row of its block."""
    found: dict[int, float] = {}
    _estimate(plan, statistics, found)
    return found


def rows_reached(op: reads.Expand, statistics: Statistics) -> float:
    """Expected rows that an Expand makes of one row."""
    fan_out = sum(statistics.per_node(way) for way in op.steps)
    targets = statistics.rows_of(op.target)
    if op.mode is not reads.ExpandMode.EDGE:
        hops = min(op.hops.maximum if op.hops.maximum is not None else _HOPS, _HOPS)
        depths = range(1, hops + 1)
        fan_out = min(float(targets), sum(max(fan_out, 0.01) ** depth for depth in depths))
    return min(1.0, fan_out / targets) if op.target_bound else fan_out


def _estimate(op: Any, statistics: Statistics, found: dict[int, float]) -> float:  # noqa: C901
    if isinstance(op, reads.Rows):
        return 1.0
    before = _estimate(op.input, statistics, found)
    inside = [_estimate(inner.pattern, statistics, found) for inner in inner_patterns(op)]
    match op:
        case reads.NodeScan(_, variable):
            rows = before * statistics.rows_of(variable)
        case Find():
            rows = before * _found(op, statistics)
        case reads.Filter(_, predicate) | reads.ExistsFilter(_, _, predicate):
            rows = before * fraction_left(predicate, statistics)
        case reads.Expand():
            rows = before * rows_reached(op, statistics)
        case Follow(_, expand, on_edge, on_target):
            left = prod(fraction_left(p, statistics) for p in (*on_edge, *on_target))
            rows = before * rows_reached(expand, statistics) * left
        case reads.AntiJoin() | reads.SemiJoin():
            rows = before * _MATCH
        case reads.Optional():
            rows = before * max(1.0, *inside)
        case reads.Aggregate(_, keys):
            rows = max(1.0, before * _GROUPS) if keys else 1.0
        case reads.Limit(_, ex.Constant(int() as count)):
            rows = min(before, float(count))
        case _:
            rows = before
    found[id(op)] = rows
    return rows


def _found(op: Find, statistics: Statistics) -> float:
    count = statistics.rows_of(op.variable)
    left = prod(fraction_left(p, statistics) for p in op.where)
    if op.look_up is None:
        return count * left
    named = 1.0
    if op.look_up.several:
        listed = op.look_up.wanted
        named = (
            len(listed.value) if isinstance(listed, ex.Constant) and listed.value else _LIST_LENGTH
        )
    return min(float(count), named) * left
