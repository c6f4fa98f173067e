"""One hop along edges: a row for each edge, or for each pair of ends.

`expand_edges` follows the adjacency of the edge types of a `Route`. `follow_by_index` follows a few
nodes through the indexes on `src` and `dst`, while the adjacency is not built. An `EntryFilter`
drops edges and nodes before rows are made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ResourceLimit
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.evaluation.storage_reads import columns_with_rule, rows_by_id, scan_cost
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.topology import kernels
from omnigraph.execute.topology.adjacency import INTO, OUT, Adjacency
from omnigraph.execute.topology.builds import Builds
from omnigraph.execute.topology.id_changes import MISSING, Positions
from omnigraph.execute.topology.kernels import RowNumbers
from omnigraph.execute.topology.neighbours import Neighbours, count_common, group
from omnigraph.execute.views.entity_view import EntityView, PartialView, TableView, UnionView
from omnigraph.execute.views.frame import Binding, Frame, join_frames, settled
from omnigraph.execute.views.snapshot_views import SnapshotViews
from omnigraph.ir import expressions as ex
from omnigraph.ir.reads import Direction, EdgeStep, Expand, ExpandMode
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.plan.analysis import is_between_its_ends
from omnigraph.plan.physical import Follow
from omnigraph.values.conditions import LONGEST_LIST
from omnigraph.values.identifiers import edge_table, node_table

# So many rows are followed without counting first how many rows they make.
_FEW_ROWS = 1000
# So many new rows are made at once. More are made in parts, and the limits are checked in between.
_AT_ONCE = 32_000_000
# So many pairs of nodes are compared between two checks of the limits.
_PAIRS_AT_ONCE = 65_536
_WORTH_THREADS = 4
_THREADS = 2
# The largest sum of weights: 64 bits, less the possible error of a float.
_MOST_ROWS = 2**62
# What a hop by index costs, counted in edges of a build. Measured by `python -m bench crossovers`
# with 1M edges: a build takes 0.27 us an edge, a hop 3 ms and 0.4 ms a source.
_HOP = 11_000
_PER_SOURCE = 1_500
# What a lookup scans is counted in rows of a load, which take half the time of an edge of a build.
_PER_ROW = 0.5
# More sources, or nodes with more edges, use the adjacency.
_FEW_SOURCES = LONGEST_LIST
_MANY_EDGES = 2_000


@dataclass(frozen=True, slots=True)
class Hop:
    """One edge type in one direction, between two node types."""

    edge: str
    adjacency: Adjacency
    outward: bool
    per_edge: bool
    """Whether every edge counts, or each pair of ends once."""
    source_type: str
    target_type: str
    skip_loops: bool = False
    """For the second half of an undirected hop, because the first half has the self-loops."""

    @property
    def direction(self) -> str:
        return OUT if self.outward else INTO

    @property
    def neighbours(self) -> Neighbours:
        """Looked up in each run, because the cache may drop the arrays between two runs."""
        near = self.adjacency.out if self.outward else self.adjacency.into
        return near if self.per_edge else near.pairs


@dataclass(frozen=True, slots=True)
class Route:
    """An `Expand` with the views and neighbours of one snapshot."""

    op: Expand
    views: SnapshotViews
    ways: tuple[Hop, ...]
    target_view: EntityView
    edge_view: EntityView | None
    kept: frozenset[int] | None = None
    """The variables that the new rows need; None means all."""


def route_of(op: Expand, views: SnapshotViews) -> Route:
    paths = op.mode in (ExpandMode.TRAILS, ExpandMode.SHORTEST)
    ways = _hops(op.steps, views, per_edge=paths or op.edge is not None)
    edge_view = None if op.edge is None else views.of(op.edge)
    return Route(op, views, ways, views.of(op.target), edge_view)


def _hops(steps: tuple[EdgeStep, ...], views: SnapshotViews, *, per_edge: bool) -> tuple[Hop, ...]:
    found = []
    for step in steps:
        edge = views.catalog.edge_types[step.edge]
        adjacency = views.adjacency(step.edge)
        ends = (edge.source, edge.target)
        if step.direction is not Direction.IN:
            found.append(Hop(step.edge, adjacency, True, per_edge, *ends))
        if step.direction is not Direction.OUT:
            both = step.direction is Direction.BOTH
            found.append(Hop(step.edge, adjacency, False, per_edge, *ends[::-1], both))
    return tuple(found)


def local_positions(binding: Binding, type_name: str) -> tuple[RowNumbers | None, Positions]:
    """(rows bound to this type, or None for all rows; their positions in the table of the type)."""
    positions, view = binding.positions, binding.view
    if isinstance(view, UnionView):
        if type_name not in view.types:
            return np.empty(0, np.int64), np.empty(0, np.int32)
        low, high = _span(view, type_name)
        rows = np.flatnonzero((positions >= low) & (positions < high))
        return rows, (positions[rows] - low).astype(np.int32)
    if view.types[0] != type_name:
        return np.empty(0, np.int64), np.empty(0, np.int32)
    if not binding.optional:
        return None, positions
    rows = np.flatnonzero(positions != MISSING)
    return rows, positions[rows]


def lift(view: EntityView, type_name: str, positions: Positions) -> Positions:
    """Positions in the table of a type as positions in a view that contains it."""
    if isinstance(view, UnionView):
        return (positions + _span(view, type_name)[0]).astype(np.int32)
    return positions


def _span(view: UnionView, type_name: str) -> tuple[int, int]:
    index = view.types.index(type_name)
    return int(view.offsets[index]), int(view.offsets[index + 1])


Weights = npt.NDArray[np.int64]
EntryFilter = Callable[
    [EntityView, Positions, EntityView | None, Positions | None], npt.NDArray[np.bool_]
]
"""(target view, nodes, edge view, edges) -> which entries pass the predicates."""


@dataclass(slots=True)
class HopMatches:
    """For each match of a hop: the row of the frame, the node (in the target view), the edge."""

    rows: RowNumbers
    nodes: Positions
    edges: Positions
    hop: Hop


def expand_edges(
    route: Route, frame: Frame, limits: QueryLimits, entry_filter: EntryFilter | None = None
) -> Frame:
    """A row for each pair of ends, or for each edge when the edge is bound.

    A bound target must be the end of the edge.
    """
    op = route.op
    frame = settled(frame, op.source.id, op.target.id)
    columns = len(frame.bindings) + 1
    if op.target_bound or frame.length <= _FEW_ROWS:
        found = _expand(route, frame, entry_filter)
        if found.length > _FEW_ROWS:
            limits.reserve(found.length, columns)
        return found
    most = sum(frame.length * way.neighbours.largest for way in route.ways)
    if most <= _AT_ONCE and limits.fits(most, columns):
        return _expand(route, frame, entry_filter)
    totals = np.cumsum(count_edges(route, frame))
    total = int(totals[-1])
    if entry_filter is None:
        limits.reserve(total, columns)
    if total <= _AT_ONCE:
        return _expand(route, frame, entry_filter)
    return _expand_in_parts(route, frame, limits, entry_filter, totals)


def _expand_in_parts(
    route: Route,
    frame: Frame,
    limits: QueryLimits,
    entry_filter: EntryFilter | None,
    totals: npt.NDArray[np.int64],
) -> Frame:
    """Some sources at a time, with a check of the limits after each part."""
    edges = np.searchsorted(totals, np.arange(_AT_ONCE, int(totals[-1]), _AT_ONCE))
    bounds = np.unique(np.concatenate([[0], edges, [frame.length]]))
    parts: list[Frame] = []
    made = 0
    for start, end in pairwise(bounds.tolist()):
        limits.check()
        parts.append(_expand(route, frame.take(np.arange(start, end), ordered=True), entry_filter))
        made += parts[-1].length
        limits.reserve(made, len(frame.bindings) + 1)
    return join_frames(parts)


def _expand(route: Route, frame: Frame, entry_filter: EntryFilter | None) -> Frame:
    op, target_view, edge_view = route.op, route.target_view, route.edge_view
    source = frame.bindings[op.source.id]
    kept = frame if route.kept is None else frame.only(route.kept)
    if edge_view is None and len(route.ways) == 1 and not op.target_bound and kept.is_empty:
        return _only_targets(route, frame, entry_filter)
    if op.target_bound:
        wanted = frame.bindings[op.target.id]
        met = [_meet(hop, source, wanted) for hop in route.ways]
    else:
        met = [_follow(hop, source, target_view) for hop in route.ways]
    rows = _joined([found.rows for found in met])
    nodes = _joined([found.nodes for found in met])
    edges: Positions | None = None
    if edge_view is not None:
        edges = _joined([lift(edge_view, found.hop.edge, found.edges) for found in met])
    if entry_filter is not None:
        good = entry_filter(target_view, nodes, edge_view, edges)
        rows, nodes = rows[good], nodes[good]
        edges = None if edges is None else edges[good]
    if len(met) > 1:
        order = np.lexsort((nodes, rows))
        if edges is None:
            # Several edges to one node are one pair of ends.
            order = order[_first_of_runs(rows[order], nodes[order])]
        rows, nodes = rows[order], nodes[order]
        edges = None if edges is None else edges[order]
    edge = None if edges is None or edge_view is None else Binding(edge_view, edges)
    result = with_ends(op, kept, rows, Binding(target_view, nodes), edge)
    return result if route.kept is None else result.only(route.kept)


def _only_targets(route: Route, frame: Frame, entry_filter: EntryFilter | None) -> Frame:
    """Rows of which only the target is needed: neither their source nor their edge is looked up."""
    view, (hop,), target = route.target_view, route.ways, route.op.target.id
    source = frame.bindings[route.op.source.id]
    _, positions = local_positions(source, hop.source_type)
    if hop.target_type not in view.types:
        positions = positions[:0]
    near = hop.neighbours
    every = positions is source.view.all_positions
    nodes = lift(view, hop.target_type, near.nodes if every else near.targets(positions))
    if entry_filter is not None:
        nodes = nodes[entry_filter(view, nodes, None, None)]
    ascends = frame.sorted_by and view.ranks is None
    sorted_by = (*frame.sorted_by, target) if ascends else ()
    found = Frame(len(nodes), {target: Binding(view, nodes)}, sorted_by=sorted_by)
    return found if route.kept is None else found.only(route.kept)


def with_ends(
    op: Expand, frame: Frame, rows: RowNumbers, target: Binding, edge: Binding | None
) -> Frame:
    """These rows of the frame with the node and the edge of each."""
    result = frame.take(rows, ordered=True)
    if op.target_bound and edge is None:
        return result
    bindings = dict(result.bindings)
    sorted_by = frame.sorted_by
    if not op.target_bound:
        bindings[op.target.id] = target
        ascends = sorted_by and target.view.ranks is None and edge is None
        sorted_by = (*sorted_by, op.target.id) if ascends else ()
    if edge is not None:
        assert op.edge is not None
        bindings[op.edge.id] = edge
        sorted_by = ()
    result.bindings, result.sorted_by = bindings, sorted_by
    return result


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def weigh_edges(route: Route, frame: Frame) -> Frame:
    """Each row once, weighted by the number of its edges, which may be zero."""
    return _weighed(frame, count_edges(route, frame))


def weigh_between(first: Route, second: Route, frame: Frame, limits: QueryLimits) -> Frame:
    """Each row once, weighted by the number of nodes between two of its nodes."""
    start, end = first.op.source.id, second.op.target.id
    frame = settled(frame, start, end)
    (there,), (onward,) = first.ways, second.ways
    back = replace(onward, outward=not onward.outward)
    ends = frame.bindings[start], frame.bindings[end]
    rows, sources, targets = _both_ends(*ends, there.source_type, onward.target_type)
    found = np.zeros(len(sources), np.int64)
    near, far = there.neighbours, back.neighbours

    def count(part: slice) -> None:
        limits.check()
        found[part] = count_common(near, far, sources[part], targets[part])

    starts = range(0, len(sources), _PAIRS_AT_ONCE)
    first_part, *others = [slice(low, low + _PAIRS_AT_ONCE) for low in starts] or [slice(0, 0)]
    count(first_part)  # in this thread alone, because it may make arrays
    if len(others) < _WORTH_THREADS:
        for part in others:
            count(part)
    else:
        # The compiled loop releases the interpreter lock.
        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(count, others))
    if rows is None:
        return _weighed(frame, found)
    counts = np.zeros(frame.length, np.int64)
    counts[rows] = found
    return _weighed(frame, counts)


def _weighed(frame: Frame, counts: Weights) -> Frame:
    if frame.weights is not None:
        _check_weights(frame.weights, counts)
        counts = frame.weights * counts
    return replace(frame, weights=counts)


def _check_weights(weights: Weights, counts: Weights) -> None:
    """Raise when a sum of the weights could exceed 64 bits."""
    if not len(counts) or int(weights.max()) * int(counts.max()) * len(counts) <= _MOST_ROWS:
        return
    if float(np.dot(weights.astype(np.float64), counts.astype(np.float64))) > _MOST_ROWS:
        raise ResourceLimit(
            "the pattern matches more rows than a 64-bit number can count; narrow it",
            limit="rows",
            ceiling=_MOST_ROWS,
        )


def count_edges(route: Route, frame: Frame) -> Weights:
    """The number of rows that `expand_edges` would make of each row.

    With several hops to one node it is an upper bound; the planner uses it for single hops only.
    The result may be an array of the adjacency: callers do not change it.
    """
    source_id = route.op.source.id
    source = settled(frame, source_id).bindings[source_id]
    counts: Weights | None = None
    for hop in route.ways:
        rows, positions = local_positions(source, hop.source_type)
        if positions is source.view.all_positions:
            degrees = hop.adjacency.degrees(hop.direction, per_edge=hop.per_edge)
            _build_beside(route.views.builds, hop.adjacency, hop.direction)
        else:
            degrees = hop.neighbours.degrees(positions)
        if hop.skip_loops:
            degrees = degrees - _loops(hop.neighbours)[positions]
        if rows is not None:
            some, degrees = degrees, np.zeros(frame.length, np.int64)
            degrees[rows] = some
        counts = degrees if counts is None else counts + degrees
    return np.zeros(frame.length, np.int64) if counts is None else counts


def _build_beside(builds: Builds, adjacency: Adjacency, direction: str) -> None:
    """A count does without the adjacency. The state after the next commit is derived from it."""
    if not adjacency.can_follow(direction):
        make = partial(adjacency.build, direction)
        builds.start_new(adjacency.piece(direction), adjacency.build_bytes, make)


def _first_of_runs(rows: RowNumbers, nodes: Positions) -> npt.NDArray[np.bool_]:
    first = np.ones(len(rows), bool)
    first[1:] = (np.diff(rows) != 0) | (np.diff(nodes) != 0)
    return first


def _follow(hop: Hop, source: Binding, target_view: EntityView) -> HopMatches:
    rows, positions = local_positions(source, hop.source_type)
    if hop.target_type not in target_view.types:
        rows, positions = None, positions[:0]
    near = hop.neighbours
    if positions is source.view.all_positions:
        taken, nodes, edges = kernels.follow_all(near.offsets, near.nodes, near.edges)
    else:
        taken, nodes, edges = near.follow(positions)
    at = taken if rows is None else rows[taken]
    found = HopMatches(at, lift(target_view, hop.target_type, nodes), edges, hop)
    if hop.skip_loops:
        found = _only(found, nodes != positions[taken])
    return found


def _meet(hop: Hop, source: Binding, wanted: Binding) -> HopMatches:
    """Edges to the node that is bound in the row."""
    rows, sources, targets = _both_ends(source, wanted, hop.source_type, hop.target_type)
    taken, edges = hop.neighbours.meet(sources, targets)
    at = taken if rows is None else rows[taken]
    found = HopMatches(at, wanted.positions[at], edges, hop)
    return _only(found, sources[taken] != targets[taken]) if hop.skip_loops else found


def _both_ends(
    source: Binding, target: Binding, source_type: str, target_type: str
) -> tuple[RowNumbers | None, Positions, Positions]:
    """(rows in which both ends have these types, or None for all rows; their positions)."""
    from_rows, sources = local_positions(source, source_type)
    to_rows, targets = local_positions(target, target_type)
    if from_rows is None and to_rows is None:
        return None, sources, targets
    everything = np.arange(len(source.positions))
    rows, first, second = np.intersect1d(
        everything if from_rows is None else from_rows,
        everything if to_rows is None else to_rows,
        assume_unique=True,
        return_indices=True,
    )
    return rows, sources[first], targets[second]


def _only(found: HopMatches, mask: npt.NDArray[np.bool_]) -> HopMatches:
    return HopMatches(found.rows[mask], found.nodes[mask], found.edges[mask], found.hop)


def _loops(neighbours: Neighbours) -> npt.NDArray[np.int64]:
    count = len(neighbours.offsets) - 1
    sources = np.repeat(np.arange(count), np.diff(neighbours.offsets))
    return np.bincount(sources[sources == neighbours.nodes], minlength=count)


def entry_filter_of(op: Follow, evaluator: Evaluator) -> EntryFilter:
    def keeps(
        target_view: EntityView,
        nodes: Positions,
        edge_view: EntityView | None,
        edges: Positions | None,
    ) -> npt.NDArray[np.bool_]:
        wanted = np.ones(len(nodes), bool)
        if op.where_target:
            wanted &= _mask(op.where_target, op.expand.target.id, target_view, nodes, evaluator)
        if op.where_edge and edge_view is not None and edges is not None:
            assert op.expand.edge is not None
            wanted &= _mask(op.where_edge, op.expand.edge.id, edge_view, edges, evaluator)
        return wanted

    return keeps


def _mask(
    predicates: Sequence[ex.Expression],
    variable: int,
    view: EntityView,
    positions: Positions,
    evaluator: Evaluator,
) -> npt.NDArray[np.bool_]:
    """For each entry; or once for each entity, when there are more entries than entities."""
    once = len(positions) > view.count
    asked = view.all_positions if once else positions
    frame = Frame(len(asked), {variable: Binding(view, asked)})
    found = np.ones(len(asked), bool)
    for predicate in predicates:
        found &= evaluator.mask(predicate, frame)
    return found[positions] if once else found


@dataclass(frozen=True, slots=True)
class IndexedHop:
    """One edge type in one direction that an index on its near end can follow."""

    op: Expand
    adjacency: Adjacency
    edges: TableView
    targets: TableView
    near: str
    far: str

    @property
    def direction(self) -> str:
        return OUT if self.near == "src" else INTO


def indexed_hop(op: Expand, views: SnapshotViews) -> IndexedHop | None:
    """None when only the adjacency can follow it."""
    if op.target_bound or len(op.steps) != 1 or op.steps[0].direction is Direction.BOTH:
        return None
    if not is_between_its_ends(op, views.catalog):
        return None
    step = op.steps[0]
    near, far = ("src", "dst") if step.direction is Direction.OUT else ("dst", "src")
    edges, targets = views.table(edge_table(step.edge)), views.table(node_table(op.target.types[0]))
    return IndexedHop(op, views.adjacency(step.edge), edges, targets, near, far)


def follow_by_index(
    hop: IndexedHop, frame: Frame, entry_filter: EntryFilter | None
) -> Frame | None:
    """The rows of a few nodes of tables that are not loaded; None when the adjacency is better."""
    op, edges, near = hop.op, hop.edges, hop.near
    if hop.adjacency.can_follow(hop.direction) or not _reads_edges(hop, frame.length):
        return None
    source = frame.bindings[op.source.id]
    bound = np.flatnonzero(source.positions != MISSING)
    names = source.view.ids.take(pa.array(source.positions[bound]))
    wanted = columns_with_rule(edges, edges.plain_columns)
    found = find_rows(edges.dataset, pc.unique(names), wanted, key=near)
    if found.num_rows > _MANY_EDGES:
        return None
    some = PartialView(edges, found)
    ends = _EdgeEnds(bound, names, some.column(near), some.column(hop.far))
    targets = hop.targets
    met = None if targets.content.is_loaded else rows_by_id(targets, ends.far.to_pylist())
    return _with_found_ends(op, frame, ends, targets if met is None else met, some, entry_filter)


def _reads_edges(hop: IndexedHop, sources: int) -> bool:
    """Whether the edges of so many nodes are read from storage."""
    adjacency = hop.adjacency
    if sources > _FEW_SOURCES:
        return False
    scanned = scan_cost(hop.edges, hop.near) * _PER_ROW
    return hop.edges.builds.reads_storage(
        adjacency.piece(hop.direction),
        _HOP + sources * _PER_SOURCE + scanned,
        adjacency.build_cost(hop.direction),
        adjacency.build_bytes,
        partial(adjacency.build, hop.direction),
    )


@dataclass(frozen=True, slots=True)
class _EdgeEnds:
    """Rows of the frame with the id of their node, and both ends of each found edge."""

    rows: RowNumbers
    names: pa.Array
    near: pa.Array
    far: pa.Array


def _with_found_ends(
    op: Expand,
    frame: Frame,
    ends: _EdgeEnds,
    targets: TableView,
    edges: PartialView,
    entry_filter: EntryFilter | None,
) -> Frame:
    distinct = pc.unique(ends.names)
    keys, sources = (
        pc.index_in(names, value_set=distinct).to_numpy(zero_copy_only=False).astype(np.int32)
        for names in (ends.near, ends.names)
    )
    nodes = targets.find(ends.far)
    whole = np.flatnonzero(nodes != MISSING).astype(np.int32)
    made = group(keys[whole], nodes[whole], whole, len(distinct))
    taken_rows, met, taken = (made.pairs if op.edge is None else made).follow(sources)
    rows = ends.rows[taken_rows]
    if entry_filter is not None:
        named = op.edge is not None
        good = entry_filter(targets, met, edges if named else None, taken if named else None)
        rows, met, taken = rows[good], met[good], taken[good]
    edge = None if op.edge is None else Binding(edges, taken)
    return with_ends(op, frame, rows, Binding(targets, met), edge)
