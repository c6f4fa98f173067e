"""Read operators: each takes the rows of its input and makes rows; a row binds variables.

After a Project or Aggregate, a row has named columns instead of variables.
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

    @property
    def reversed(self) -> Direction:
        """The direction of the same edge, seen from the target variable."""
        match self:
            case Direction.OUT:
                return Direction.IN
            case Direction.IN:
                return Direction.OUT
            case Direction.BOTH:
                return Direction.BOTH


class ExpandMode(StrEnum):
    """What one output row of an Expand is."""

    EDGE = "edge"  # one hop: one row per pair of ends, per edge when the edge is bound
    REACH = "reach"  # one row per reachable target, BFS, each target once per source
    TRAILS = "trails"  # one row per path without a repeated edge
    SHORTEST = "shortest"  # one row per source and target: the shortest path, smallest ids first


@dataclass(frozen=True, slots=True)
class Rows:
    """The start of a pattern.

    A sub-pattern starts with a row of the enclosing block, which binds `variables`. A whole query
    starts with one row without variables.
    """

    variables: tuple[Variable, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeScan:
    """For every input row, every node of the variable's types."""

    input: ReadOp
    variable: Variable


@dataclass(frozen=True, slots=True)
class EdgeStep:
    """One edge type that an Expand follows, and the direction."""

    edge: str
    direction: Direction


@dataclass(frozen=True, slots=True)
class HopRange:
    """Number of hops from the source. No maximum: up to the engine's limit, then an error."""

    minimum: int
    maximum: int | None


@dataclass(frozen=True, slots=True)
class Expand:
    """Follow edges from a bound source.

    `target_bound`: the target is bound already, and an edge must lead to it (a join). The target
    of `$a knows $a` is bound too.
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
    """Keep the rows for which the predicate is true."""

    input: ReadOp
    predicate: Expression


@dataclass(frozen=True, slots=True)
class AntiJoin:
    """Keep the rows for which the pattern has no match. The pattern starts with `Rows`."""

    input: ReadOp
    pattern: ReadOp


@dataclass(frozen=True, slots=True)
class SemiJoin:
    """Keep the rows for which the pattern has a match, each row once."""

    input: ReadOp
    pattern: ReadOp


@dataclass(frozen=True, slots=True)
class NamedPattern:
    """A pattern of an ExistsFilter. The predicate reads whether it has a match by its name."""

    name: str
    pattern: ReadOp


@dataclass(frozen=True, slots=True)
class ExistsFilter:
    """Keep the rows for which the predicate is true, which asks whether patterns have a match.

    Every pattern is matched for every row before the predicate is evaluated, also a pattern of a
    branch of a `Case` that the row does not take.
    """

    input: ReadOp
    patterns: tuple[NamedPattern, ...]
    predicate: Expression


@dataclass(frozen=True, slots=True)
class Optional:
    """Each row with every match of the pattern, or once with `variables` NULL."""

    input: ReadOp
    pattern: ReadOp
    variables: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class Search:
    """Score the entities of a variable: `nearest` cosine distance, `bm25` relevance.

    A row without a score is dropped; with `keep_unmatched` it stays, and its score is NULL.
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
    """Reciprocal rank fusion: the sum of weight / (k + rank) over the slots that rank the row."""

    input: ReadOp
    slot: str
    rankings: tuple[str, ...]
    weights: tuple[float, ...]
    k: Expression
    keep_unmatched: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A named value."""

    name: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Project:
    """Rows with these columns only."""

    input: ReadOp
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Distinct:
    """Keep one of several equal rows; two NULLs are equal."""

    input: ReadOp


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row per group of equal keys, or one row in all without keys: keys, then aggregates.

    The value of every aggregate column is an `AggregateCall`.
    """

    input: ReadOp
    keys: tuple[Column, ...]
    aggregates: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class SortKey:
    """One sort key. NULLs come first ascending and last descending, unless `nulls_last`."""

    value: Expression
    descending: bool = False
    nulls_last: bool = False


@dataclass(frozen=True, slots=True)
class OrderBy:
    """Sort by the keys; `ties`, ascending, make the order total."""

    input: ReadOp
    keys: tuple[SortKey, ...]
    ties: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """Rows `offset` to `offset + count`; a NULL is the same as no bound."""

    input: ReadOp
    count: Expression | None
    offset: Expression | None


ReadOp = (
    Rows
    | NodeScan
    | Expand
    | Filter
    | AntiJoin
    | SemiJoin
    | ExistsFilter
    | Optional
    | Search
    | Fuse
    | Project
    | Distinct
    | Aggregate
    | OrderBy
    | Limit
)
