"""Read operators: each takes the rows of its input and gives rows; a row binds variables.

After a Project or Aggregate a row is named columns instead of variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.ir.expressions import Expression, Variable


class Direction(StrEnum):
    """How an edge is followed, seen from the source variable."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


class ExpandMode(StrEnum):
    """What one output row of an Expand stands for."""

    EDGE = "edge"  # one hop: one row per pair of ends, per edge when the edge is bound
    REACH = "reach"  # one row per reachable target, BFS, each target once per source
    TRAILS = "trails"  # one row per path without a repeated edge
    SHORTEST = "shortest"  # one row per source and target: the shortest path, smallest ids first


@dataclass(frozen=True, slots=True)
class Rows:
    """The row of the enclosing query: where a sub-pattern starts. Without variables: one row."""

    variables: tuple[Variable, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeScan:
    """For every input row, every node of the variable's types."""

    input: ReadOp
    variable: Variable


@dataclass(frozen=True, slots=True)
class EdgeStep:
    """One edge type an Expand may follow, and how."""

    edge: str
    direction: Direction


@dataclass(frozen=True, slots=True)
class HopRange:
    """Hops counted from the source. No maximum: up to the engine's ceiling, then an error."""

    minimum: int
    maximum: int | None


@dataclass(frozen=True, slots=True)
class Expand:
    """Follow edges from a bound source.

    `target_bound`: the target has a value already and must be met (a join). `target_is_source`
    cases (`$a knows $a`) are bound targets too.
    """

    input: ReadOp
    source: Variable
    steps: tuple[EdgeStep, ...]
    target: Variable
    mode: ExpandMode = ExpandMode.EDGE
    hops: HopRange = HopRange(1, 1)
    target_bound: bool = False
    edge: Variable | None = None
    path: Variable | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """Rows for which the predicate is true."""

    input: ReadOp
    predicate: Expression


@dataclass(frozen=True, slots=True)
class AntiJoin:
    """Rows for which the pattern has no match. The pattern starts at `Rows`."""

    input: ReadOp
    pattern: ReadOp


@dataclass(frozen=True, slots=True)
class Optional:
    """Each row with every match of the pattern, or once with `variables` NULL."""

    input: ReadOp
    pattern: ReadOp
    variables: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class Search:
    """Score the entities of a variable: `nearest` cosine distance, `bm25` relevance.

    Rows that score nothing get NULL, or are dropped unless `keep_unmatched`.
    """

    input: ReadOp
    slot: str
    function: str
    variable: Variable
    property: str
    query: Expression
    keep_unmatched: bool = False


@dataclass(frozen=True, slots=True)
class Fuse:
    """Reciprocal rank fusion: sum of weight / (k + rank) over the slots a row is ranked in."""

    input: ReadOp
    slot: str
    rankings: tuple[str, ...]
    weights: tuple[float, ...]
    k: Expression
    keep_unmatched: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A named result."""

    name: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Project:
    """These columns and nothing else."""

    input: ReadOp
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Distinct:
    """Equal rows once; NULLs are equal here."""

    input: ReadOp


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row per group of equal keys (one row in all without keys), keys then aggregates.

    Every aggregate's value is an `AggregateCall`.
    """

    input: ReadOp
    keys: tuple[Column, ...]
    aggregates: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class SortKey:
    """One sort key; NULLs come first ascending and last descending unless said otherwise."""

    value: Expression
    descending: bool = False
    nulls_last: bool = False


@dataclass(frozen=True, slots=True)
class OrderBy:
    """Total order: by keys, then by ties ascending."""

    input: ReadOp
    keys: tuple[SortKey, ...]
    ties: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """Rows `offset` to `offset + count`; NULL counts as absent."""

    input: ReadOp
    count: Expression | None
    offset: Expression | None


ReadOp = (
    Rows
    | NodeScan
    | Expand
    | Filter
    | AntiJoin
    | Optional
    | Search
    | Fuse
    | Project
    | Distinct
    | Aggregate
    | OrderBy
    | Limit
)
