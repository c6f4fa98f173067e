"""Following edges: single edges, reachable nodes, trails and shortest paths."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.errors import ResourceLimit
from omnigraph.ir.expressions import Variable
from omnigraph.ir.reads import Direction, EdgeStep, Expand, ExpandMode, HopRange
from omnigraph_testing.reference.ordering import comparable
from omnigraph_testing.reference.rows import Bound, Entity, Path, Row, World

CEILING = 1000
"""Hops after which an unbounded traversal that is not finished becomes an error."""


def expand(op: Expand, row: Row, world: World) -> list[Row]:
    """The row once for every match; an unbound source or target (NULL) matches nothing."""
    source = row.entity(op.source)
    if source is None:
        return []
    found = []
    for path in _paths(op, source, world):
        new: dict[Variable, Bound] = {op.target: path.end}
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


def _paths(op: Expand, source: Entity, world: World) -> list[Path]:
    start = Path((source,))
    match op.mode:
        case ExpandMode.EDGE:
            paths = list(_next(start, op.steps, world))
            if op.edge is not None or op.path is not None:
                return paths
            # Without the edge bound only the ends matter: each pair of them once.
            return list({path.end: path for path in paths}.values())
        case ExpandMode.TRAILS:
            return list(_trails(start, op.steps, op.hops, world))
        case ExpandMode.REACH | ExpandMode.SHORTEST:
            return _shortest(start, op.steps, op.hops, world)


def _next(path: Path, steps: tuple[EdgeStep, ...], world: World) -> Iterator[Path]:
    """The path with every edge that leaves its end; an undirected self-loop leaves once."""
    for step in steps:
        declared = world.catalog.edge_types[step.edge]
        for edge in world.edges_of(step.edge):
            source = world.node(declared.source, edge.row["src"])
            target = world.node(declared.target, edge.row["dst"])
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
    start: Path, steps: tuple[EdgeStep, ...], hops: HopRange, world: World
) -> Iterator[Path]:
    """Every path that uses no edge twice; nodes may repeat."""
    level = [start]
    for length in range(1, _hop_limit(hops) + 1):
        level = [
            longer
            for path in level
            for longer in _next(path, steps, world)
            if longer.entities[-2] not in path.entities[1::2]
        ]
        if length >= hops.minimum:
            yield from level
        if not level:
            return
    _refuse(hops)


def _shortest(start: Path, steps: tuple[EdgeStep, ...], hops: HopRange, world: World) -> list[Path]:
    """One shortest path to every node at a distance within the bounds, smallest ids first.

    A start is at distance 0 from itself: no cycle leads back to it, only its own self-loop
    does, as one hop.
    """
    visited = {start.end}
    level = [start]
    found: list[Path] = []
    for distance in range(1, _hop_limit(hops) + 1):
        reached: dict[Entity, Path] = {}
        longer = [path for shorter in level for path in _next(shorter, steps, world)]
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
