"""Expand: rows joined with pairs of nodes that an edge, a range of hops or a path connects.

`expand` and `weigh` are what operators call. Below them is the search over several hops. It is a
breadth-first search by joins: the rows of a level, joined with the edges, are the next level.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from pyspark.sql import functions as F

from omnigraph.execute.traversal.paths import HOP_CEILING, too_deep
from omnigraph.ir import expressions as ex
from omnigraph.ir.reads import Expand, ExpandMode, HopRange
from omnigraph.ir.storage_conditions import conditions_of
from omnigraph.spark.query.edge_counts import (
    CountedHop,
    edge_counts,
    nodes_without,
    without_starts,
)
from omnigraph.spark.query.edge_pairs import EdgePairs, End, Pairs
from omnigraph.spark.query.graph_tables import Compilation, GraphTables
from omnigraph.spark.query.rows import EntityColumns, Frame, SparkColumn, SparkRows
from omnigraph.values.conditions import Condition
from omnigraph.values.identifiers import node_table

NextLevel = Callable[[Frame], Frame]

_WEIGHT = "weight"

# Up to this many rows are broadcast to the executors instead of shuffled to meet the edges.
_FEW_ROWS = 10_000
# Up to this many pairs of ends are broadcast. A pair of hashes takes about 40 bytes there.
_FEW_PAIRS = 50_000
_FEW_HASHED_PAIRS = 1_500_000

_numbers = count()


def expand(
    op: Expand,
    rows: SparkRows,
    compilation: Compilation,
    where_edge: Sequence[ex.Expression] = (),
    where_target: Sequence[ex.Expression] = (),
) -> SparkRows:
    """One row per match. The predicates only reduce what storage reads."""
    scalars = compilation.expressions.scalars
    pairs = _pairs(op, rows, compilation, conditions_of(where_edge, scalars.plain))
    if rows.every is not None:
        joined = _started(op, rows, pairs, compilation)
    else:
        joined = _joined(op, rows, pairs, compilation.tables)
    if op.target_bound:
        met = replace(joined, frame=joined.frame.drop(*pairs.ends))
    else:
        met = _with_target(
            op, joined, pairs, compilation, conditions_of(where_target, scalars.plain)
        )
    if op.edge is None:
        return met
    return met.bind(op.edge, compilation.tables.naming(op.edge), met.frame)


def weigh(hops: Sequence[Expand], rows: SparkRows, compilation: Compilation) -> SparkRows:
    """Each row once, with the number of rows that the Expands would make of it as its weight.

    All of them start from the same node.
    """
    source = _source(hops[0], rows, compilation)
    for degrees in _degrees(hops, source, compilation.tables):
        rows = _weighed(rows, source, degrees)
    return rows


def without_edges(hop: Expand, node: ex.Variable, tables: GraphTables) -> Frame | None:
    """The nodes that have no edge of a hop; None where this needs rows of edges."""
    counted = _edges_from(hop, node, tables)
    if counted is None:
        return None
    entity = tables.snapshot.catalog.node_types[node.types[0]]
    return nodes_without(tables, entity, counted, tables.naming(node).id)


def count_without_edges(
    hop: Expand, node: ex.Variable, tables: GraphTables, name: str
) -> Frame | None:
    """How many nodes have no edge of a hop, as one row; None where this needs rows of edges.

    Every start of an edge is a node. So the others are counted, and no node is read.
    """
    counted = _edges_from(hop, node, tables)
    if counted is None:
        return None
    nodes = tables.rows_of([node_table(node.types[0])])
    found, more = without_starts(tables, nodes, counted, name)
    if not more:
        return found  # Spark takes longer to compile a sum than to read the edges
    total = F.coalesce(F.sum(name), F.lit(0)) + F.lit(more).cast("bigint")
    return found.agg(total.alias(name))


def _edges_from(hop: Expand, node: ex.Variable, tables: GraphTables) -> CountedHop | None:
    bound = tables.naming(node)
    counted = EdgePairs(tables, hop.steps).counted(bound.types, hop.target.types)
    return counted if bound.type is None else None


def _degrees(hops: Sequence[Expand], source: EntityColumns, tables: GraphTables) -> Iterator[Pairs]:
    """The nodes that have edges of all hops, and how many; for all hops at once if possible."""
    edges = [
        EdgePairs(tables, hop.steps, None if hop.edge is None else tables.naming(hop.edge))
        for hop in hops
    ]
    ends = [(source.types, hop.target.types) for hop in hops]
    counted = [each.counted(*types) for each, types in zip(edges, ends, strict=True)]
    known = [hop for hop in counted if hop is not None]
    if len(known) < len(hops) or source.type is not None:
        yield from (each.degrees(*types) for each, types in zip(edges, ends, strict=True))
        return
    start = End(source.types, f"n{next(_numbers)}_id", None)
    degree = f"{start.id}_degree"
    at_most = min(tables.rows_of([hop.edge.table_key]) for hop in known)
    yield Pairs(edge_counts(tables, known, start.id, degree), start, start, (degree,), at_most)


def _weighed(rows: SparkRows, source: EntityColumns, degrees: Pairs) -> SparkRows:
    (degree,) = degrees.extra
    if rows.every is not None:
        frame = _as_node(degrees.frame, degrees.start, source).withColumnRenamed(degree, _WEIGHT)
        rows = rows.bind(rows.every, source, frame)
        return replace(rows, weight=_WEIGHT, at_most=degrees.at_most)
    frame = _gathered(rows).join(degrees.frame, degrees.start.is_node(source))
    weight = F.col(degree) if rows.weight is None else F.col(rows.weight) * F.col(degree)
    frame = frame.withColumn(_WEIGHT, weight).drop(degree, *degrees.start.columns)
    return replace(rows, frame=frame, weight=_WEIGHT)


def _pairs(
    op: Expand, rows: SparkRows, compilation: Compilation, conditions: Sequence[Condition]
) -> Pairs:
    source = _source(op, rows, compilation)
    match op.mode:
        case ExpandMode.EDGE:
            edge = None if op.edge is None else compilation.tables.naming(op.edge)
            edges = EdgePairs(compilation.tables, op.steps, edge, conditions, compilation.repeats)
            return edges.between(source.types, op.target.types)
        case ExpandMode.REACH:
            return _reached(op, _sources(rows, source), source, compilation)
        case ExpandMode.TRAILS:
            return _trails(op, _sources(rows, source), source, compilation)
        case ExpandMode.SHORTEST:
            return _shortest(op, _sources(rows, source), source, compilation)


def _source(op: Expand, rows: SparkRows, compilation: Compilation) -> EntityColumns:
    """The columns of the node that a hop starts from."""
    if rows.every is not None:
        return compilation.tables.naming(rows.every)
    return rows.bindings[op.source.id]


def _as_node(frame: Frame, end: End, node: EntityColumns) -> Frame:
    """An end of pairs under the column names of a variable."""
    found = frame.withColumn(node.id, F.col(end.id))
    if node.type is not None:
        found = found.withColumn(node.type, end.type_name())
    return found.drop(*end.columns)


def _sources(rows: SparkRows, source: EntityColumns) -> Frame:
    """The nodes to search from, each once."""
    found = rows.frame.select(*source.identity).where(F.col(source.id).isNotNull())
    return found.dropDuplicates(source.identity)


def _started(op: Expand, rows: SparkRows, pairs: Pairs, compilation: Compilation) -> SparkRows:
    """The pairs by themselves, because the hop starts from every node."""
    assert rows.every is not None
    source = compilation.tables.naming(rows.every)
    frame = pairs.frame.withColumn(source.id, F.col(pairs.start.id))
    if source.type is not None:
        frame = frame.withColumn(source.type, pairs.start.type_name())
    if op.target_bound:
        frame = frame.where(pairs.end.is_node(source))
    return replace(rows.bind(rows.every, source, frame), at_most=pairs.at_most)


def _joined(op: Expand, rows: SparkRows, pairs: Pairs, tables: GraphTables) -> SparkRows:
    source = rows.bindings[op.source.id]
    condition = pairs.start.is_node(source)
    met = pairs.frame
    few = not has_few_rows(rows) and not pairs.extra and _are_few(pairs.at_most, tables)
    if op.target_bound:
        target = rows.bindings[op.target.id]
        condition = condition & pairs.end.is_node(target)
        alike = _are_alike(pairs.start, source) and _are_alike(pairs.end, target)
        if few and alike and tables.keys_are_hashed:
            condition = _is_pair(pairs, source, target)
    if few:
        met = F.broadcast(met)
    frame = _gathered(rows).join(met, condition)
    paths = dict(rows.paths)
    if op.path is not None:
        (paths[op.path.id],) = pairs.extra
    return replace(rows, frame=frame, paths=paths, at_most=None)


def _are_alike(end: End, node: EntityColumns) -> bool:
    """Whether equal hashes mean that the node is this end: both have the same one type."""
    return end.type is None and node.type is None and end.types == node.types


def _is_pair(pairs: Pairs, source: EntityColumns, target: EntityColumns) -> SparkColumn:
    """Whether the ends of the pair are the nodes of the row; all four columns are hashes.

    Spark finds rows by one number in a smaller table than by two: a count of the colleagues among
    10 million friends took a fifth less CPU. So the two hashes are mixed into one number.
    """
    ours, theirs = (
        (F.col(source.id), F.col(target.id)),
        (F.col(pairs.start.id), F.col(pairs.end.id)),
    )
    mixed = [start.bitwiseXOR(F.shiftleft(end, 1)) for start, end in (ours, theirs)]
    differ = [one.bitwiseXOR(other) for one, other in zip(ours, theirs, strict=True)]
    # Spark would take an equality of two columns as a second number to find rows by.
    return (mixed[0] == mixed[1]) & (differ[0].bitwiseOR(differ[1]) == 0)


def _gathered(rows: SparkRows) -> Frame:
    return F.broadcast(rows.frame) if has_few_rows(rows) else rows.frame


def has_few_rows(rows: SparkRows) -> bool:
    return rows.at_most is not None and rows.at_most <= _FEW_ROWS


def broadcast_if_few(frame: Frame, at_most: int | None, tables: GraphTables) -> Frame:
    """Ends of edges: broadcast if they are few, so that the rows that they meet stay in place."""
    return F.broadcast(frame) if _are_few(at_most, tables) else frame


def _are_few(at_most: int | None, tables: GraphTables) -> bool:
    """Whether the ends of edges are so few that they are broadcast."""
    most = _FEW_HASHED_PAIRS if tables.keys_are_hashed else _FEW_PAIRS
    return not tables.in_one_task and at_most is not None and at_most <= most


def with_late_columns(
    node: ex.Variable, names: Collection[str], rows: SparkRows, tables: GraphTables
) -> SparkRows:
    """The rows with further columns of a node that each of them has."""
    whole = tables.naming(node)
    late = replace(whole, properties={name: whole.properties[name] for name in names})
    _, nodes = tables.entities(node, columns=late)
    frame = _gathered(rows).join(nodes, on=whole.identity)
    return replace(rows, frame=frame, bindings={**rows.bindings, node.id: whole})


def _with_target(
    op: Expand,
    rows: SparkRows,
    pairs: Pairs,
    compilation: Compilation,
    conditions: Sequence[Condition],
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


@dataclass(frozen=True, slots=True)
class LevelSearch:
    """A search by levels: each row is the `node` that `origin` has reached, with `extra`."""

    tables: GraphTables
    edges: Pairs
    origin: End
    node: End
    extra: tuple[str, ...] = ()

    @staticmethod
    def over(edges: EdgePairs, source: EntityColumns, extra: Sequence[str] = ()) -> LevelSearch:
        pairs = edges.between(None, None)
        types = tuple(dict.fromkeys((*source.types, *pairs.start.types, *pairs.end.types)))
        prefix = f"l{next(_numbers)}"
        columns = tuple(f"{prefix}_{name}" for name in extra)
        several = len(types) > 1
        origin = End(types, f"{prefix}_origin", f"{prefix}_origin_type" if several else None)
        node = End(types, f"{prefix}_node", f"{prefix}_node_type" if several else None)
        return LevelSearch(edges.tables, pairs, origin, node, columns)

    @property
    def key(self) -> list[str]:
        return [*self.origin.columns, *self.node.columns]

    def begin(self, sources: Frame, source: EntityColumns, *extra: SparkColumn) -> Frame:
        """Level 0: every origin is at itself."""
        columns = [
            *_as_end(self.origin, F.col(source.id), source.type_name()),
            *_as_end(self.node, F.col(source.id), source.type_name()),
            *self._named(extra),
        ]
        return sources.select(*columns)

    def step(self, level: Frame, *extra: SparkColumn) -> Frame:
        """The nodes one edge further; `extra` may use the columns of the level and of the edge."""
        met = level.join(self.edges.frame, self.edges.start.is_node(self.node))
        there = _as_end(self.node, F.col(self.edges.end.id), self.edges.end.type_name())
        return met.select(*self.origin.columns, *there, *self._named(extra))

    def at_origin(self) -> SparkColumn:
        return self.node.is_node(self.origin)

    def without(self, level: Frame, visited: Frame | None) -> Frame:
        """Rows whose node was not visited before. After the first hop the origin is visited."""
        if visited is None:
            return level
        return level.where(~self.at_origin()).join(visited, on=self.key, how="left_anti")

    def pairs(self, levels: Sequence[Frame], ends: tuple[str, ...], *extra: str) -> Pairs:
        """Origin and node of all levels, where the node has one of the wanted types."""
        frame = self.tables.union([level.select(*self.key, *extra) for level in levels])
        wanted = F.col(self.node.type).isin(*ends) if self.node.type is not None else None
        if wanted is None and self.node.types[0] not in ends:
            wanted = F.lit(False)
        return Pairs(
            frame if wanted is None else frame.where(wanted), self.origin, self.node, extra
        )

    def _named(self, extra: Sequence[SparkColumn]) -> list[SparkColumn]:
        return [column.alias(name) for name, column in zip(self.extra, extra, strict=True)]


def _as_end(end: End, node: SparkColumn, type_name: SparkColumn) -> list[SparkColumn]:
    return [node.alias(end.id), *([type_name.alias(end.type)] if end.type is not None else [])]


def _walk(
    hops: HopRange, compilation: Compilation, level: Frame, step: NextLevel, onward: NextLevel
) -> list[Frame]:
    """The levels within a range of hops.

    `step` makes the next level. `onward` picks the rows of it from which the search goes on.
    """
    found: list[Frame] = []
    deepest = HOP_CEILING if hops.maximum is None else hops.maximum
    for depth in range(1, deepest + 1):
        reached = step(level)
        if depth == hops.maximum:
            return [*found, reached]
        reached = compilation.keep(reached)
        if depth >= hops.minimum:
            found.append(reached)
        level = onward(reached)
        if level.isEmpty():
            return found or [level]
    raise too_deep()


def _reached(op: Expand, sources: Frame, source: EntityColumns, compilation: Compilation) -> Pairs:
    """(source, node first reached after `minimum` to `maximum` hops), each pair once."""
    search = LevelSearch.over(EdgePairs(compilation.tables, op.steps), source)
    visited: Frame | None = None

    def step(level: Frame) -> Frame:
        return search.without(search.step(level).distinct(), visited)

    def onward(reached: Frame) -> Frame:
        nonlocal visited
        visited = reached if visited is None else visited.unionAll(reached)
        # A cycle does not lead back to the source. Only a self-loop does, as one hop.
        return reached.where(~search.at_origin())

    found = _walk(op.hops, compilation, search.begin(sources, source), step, onward)
    return search.pairs(found, op.target.types)


def _trails(op: Expand, sources: Frame, source: EntityColumns, compilation: Compilation) -> Pairs:
    """(source, end, ids of nodes and edges by turns) of every path without a repeated edge."""
    search, edge = _path_search(op, source, compilation, "ids", "used")
    used = F.col(search.extra[1])
    # The key of an edge is its type and its id. A type name contains no blank.
    taken = F.concat_ws(" ", edge.type_name(), F.col(edge.id))
    no_edges = F.array().cast("array<string>")
    level = search.begin(sources, source, F.array(F.col(source.id)), no_edges)

    def step(level: Frame) -> Frame:
        unused = F.when(~F.array_contains(used, taken), F.array_append(used, taken))
        return search.step(level, _longer(search, edge), unused).where(used.isNotNull())

    found = _walk(op.hops, compilation, level, step, lambda reached: reached)
    return search.pairs(found, op.target.types, search.extra[0])


def _shortest(op: Expand, sources: Frame, source: EntityColumns, compilation: Compilation) -> Pairs:
    """The same of one shortest path per pair: of equally short ones the one with smallest ids."""
    search, edge = _path_search(op, source, compilation, "ids")
    (ids,) = search.extra
    level = search.begin(sources, source, F.array(F.col(source.id)))
    visited: Frame | None = None

    def step(level: Frame) -> Frame:
        longer = search.without(search.step(level, _longer(search, edge)), visited)
        return longer.groupBy(*search.key).agg(F.min(ids).alias(ids))

    def onward(reached: Frame) -> Frame:
        nonlocal visited
        met = reached.select(*search.key)
        visited = met if visited is None else visited.unionAll(met)
        return reached.where(~search.at_origin())

    found = _walk(op.hops, compilation, level, step, onward)
    return search.pairs(found, op.target.types, ids)


def _path_search(
    op: Expand, source: EntityColumns, compilation: Compilation, *extra: str
) -> tuple[LevelSearch, EntityColumns]:
    names = tuple(step.edge for step in op.steps)
    edge = EntityColumns(names, "edge_id", "edge_type" if len(names) > 1 else None, {})
    edges = EdgePairs(compilation.tables, op.steps, edge)
    return LevelSearch.over(edges, source, extra), edge


def _longer(search: LevelSearch, edge: EntityColumns) -> SparkColumn:
    """The ids of a path and of the edge and node that it grows by."""
    step = F.array(F.col(edge.id), F.col(search.edges.end.id))
    return F.concat(F.col(search.extra[0]), step)
