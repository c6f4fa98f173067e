"""Drive a read plan on one machine: a table from operator to function."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.catalog.annotations import embedding_of
from omnigraph.embed.provider import EmbeddingProvider, embed_query
from omnigraph.errors import InvalidArgument
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.local.aggregates import aggregate_frame, distinct_on, distinct_rows
from omnigraph.execute.local.entity_scan import scan_filtered, scan_nodes
from omnigraph.execute.local.entity_view import MISSING
from omnigraph.execute.local.expand import count_edges, expand_edges, weigh_edges
from omnigraph.execute.local.expressions import Evaluator
from omnigraph.execute.local.frame import ONE_ROW, Binding, Frame, PathBinding
from omnigraph.execute.local.ordering import sort_frame
from omnigraph.execute.local.ranked_search import fuse_frame, score_frame
from omnigraph.execute.local.reach import expand_reach
from omnigraph.execute.local.trails import expand_paths
from omnigraph.execute.local.views import SnapshotViews
from omnigraph.ir import reads
from omnigraph.ir.expressions import ScoreRef, VariableKind
from omnigraph.plan.physical import DistinctOn, Keep, PhysicalOp, Weigh
from omnigraph.values.scalars import VectorType


@dataclass(slots=True)
class Step:
    """What one operator did, its inputs not counted."""

    rows: int = 0
    milliseconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """One run of one plan on one snapshot."""

    views: SnapshotViews
    evaluator: Evaluator
    limits: QueryLimits
    provider: EmbeddingProvider
    steps: dict[int, Step] | None = None
    """Filled per operator when somebody wants a profile."""

    def table(self, plan: PhysicalOp) -> pa.Table:
        frame = self.run(plan, ONE_ROW)
        return pa.table(dict(frame.columns))

    def run(self, op: PhysicalOp, start: Frame) -> Frame:
        """Rows of `op`; a sub-pattern begins with the rows of `start`."""
        self.limits.check()
        if self.steps is None:
            return self._run(op, start)
        step = self.steps.setdefault(id(op), Step())
        inner = sum(s.milliseconds for s in self.steps.values())
        began = time.perf_counter()
        frame = self._run(op, start)
        spent = (time.perf_counter() - began) * 1000
        step.rows += frame.length
        step.milliseconds += spent - (sum(s.milliseconds for s in self.steps.values()) - inner)
        return frame

    def _run(self, op: PhysicalOp, start: Frame) -> Frame:  # noqa: C901, PLR0912
        match op:
            case reads.Rows():
                return start
            case reads.NodeScan(inner, variable):
                return scan_nodes(variable, self.run(inner, start), self.views, self.limits)
            case reads.Filter(reads.NodeScan(inner, variable) as scan, predicate):
                frame = self.run(inner, start)
                return scan_filtered(
                    scan, predicate, frame, self.views, self.evaluator, self.limits
                )
            case reads.Filter(inner, predicate):
                frame = self.run(inner, start)
                return frame.keep(self.evaluator.mask(predicate, frame))
            case reads.Expand(inner):
                return self._expand(op, self.run(inner, start))
            case reads.AntiJoin(inner, pattern):
                return self._anti_join(self.run(inner, start), pattern)
            case reads.Optional(inner):
                return self._optional(op, self.run(inner, start))
            case reads.Project(inner, columns):
                frame = self.run(inner, start)
                values = {c.name: self.evaluator.array(c.value, frame) for c in columns}
                return Frame(frame.length, columns=values, weights=frame.weights)
            case reads.Distinct(inner):
                frame = self.run(inner, start)
                return frame.take(distinct_rows(list(frame.columns.values()), frame.length))
            case reads.Aggregate(inner):
                return aggregate_frame(op, self.run(inner, start), self.evaluator)
            case reads.OrderBy(inner):
                return sort_frame(op, self.run(inner, start), self.evaluator, None)
            case reads.Limit(reads.OrderBy(inner) as order, count, offset):
                first, skip = self._bounds(count, offset)
                wanted = None if first is None else first + skip
                frame = sort_frame(order, self._best(order, start, wanted), self.evaluator, wanted)
                return frame.take(np.arange(skip, frame.length), ordered=True) if skip else frame
            case reads.Limit(inner, count, offset):
                frame = self.run(inner, start)
                first, skip = self._bounds(count, offset)
                end = frame.length if first is None else min(frame.length, skip + first)
                return frame.take(np.arange(min(skip, frame.length), end), ordered=True)
            case reads.Search(inner):
                return score_frame(op, self.run(inner, start), self._sought(op), None)
            case reads.Fuse(inner):
                searches = [s for s in _below(op) if isinstance(s, reads.Search)]
                k = self.evaluator.scalar(op.k)
                return fuse_frame(op, self.run(inner, start), searches, k)
            case Keep(inner, variables):
                return self.run(inner, start).only(variables)
            case Weigh(inner, expand):
                return weigh_edges(expand, self.run(inner, start), self.views)
            case DistinctOn(inner, variables):
                return distinct_on(self.run(inner, start), variables)
            case _:
                raise InvalidArgument(f"{type(op).__name__} cannot run on the local executor yet")

    def _best(self, order: reads.OrderBy, start: Frame, wanted: int | None) -> Frame:
        """The rows to sort; a ranking of a whole type may ask its index for the best ones only."""
        match order:
            case reads.OrderBy(
                reads.Search(reads.NodeScan(reads.Rows()) as scan, function="nearest") as search,
                (reads.SortKey(ScoreRef(slot)),),
            ) if slot == search.slot and wanted is not None:
                return score_frame(search, self.run(scan, start), self._sought(search), wanted)
            case _:
                return self.run(order.input, start)

    def _sought(self, search: reads.Search) -> Any:
        """What a search looks for; a text for `nearest` becomes a vector of the recorded model."""
        query = self.evaluator.scalar(search.query)
        if search.function != "nearest" or not isinstance(query, str):
            return query
        node = self.views.catalog.node_types[search.variable.types[0]]
        declared = next(p for p in node.properties if p.name == search.property)
        assert isinstance(declared.type, VectorType)
        embedding = embedding_of(declared)
        model = embedding.model if embedding is not None else None
        return embed_query(self.provider, query, model, declared.type.width)

    def _expand(self, op: reads.Expand, frame: Frame) -> Frame:
        match op.mode:
            case reads.ExpandMode.EDGE:
                return expand_edges(op, frame, self.views, self.limits)
            case reads.ExpandMode.REACH:
                return expand_reach(op, frame, self.views)
            case reads.ExpandMode.TRAILS | reads.ExpandMode.SHORTEST:
                return expand_paths(op, frame, self.views)

    def _anti_join(self, frame: Frame, pattern: reads.ReadOp) -> Frame:
        match pattern:
            case reads.Expand(reads.Rows(), mode=reads.ExpandMode.EDGE, target_bound=False) if set(
                _target_types(pattern, self.views)
            ) <= set(pattern.target.types):
                return frame.keep(count_edges(pattern, frame, self.views) == 0)
            case _:
                inside = replace(frame, origin=np.arange(frame.length))
                matched = self.run(pattern, inside).origin
                assert matched is not None
                mask = np.ones(frame.length, bool)
                mask[matched] = False
                return frame.keep(mask)

    def _optional(self, op: reads.Optional, frame: Frame) -> Frame:
        inside = self.run(op.pattern, replace(frame, origin=np.arange(frame.length)))
        origin = inside.origin
        assert origin is not None
        unmatched = np.setdiff1d(np.arange(frame.length), origin)
        order = np.argsort(np.concatenate([origin, unmatched]), kind="stable")
        rows = np.concatenate([origin, unmatched])[order]
        result = frame.take(rows)
        bindings, paths = dict(result.bindings), dict(result.paths)
        for variable in op.variables:
            if variable.kind is VariableKind.PATH:
                ids = (*inside.paths[variable.id].ids, *(None for _ in unmatched))
                paths[variable.id] = PathBinding(tuple(ids[i] for i in order))
            else:
                found = inside.bindings[variable.id]
                blank = np.full(len(unmatched), MISSING, np.int32)
                positions = np.concatenate([found.positions, blank])[order]
                bindings[variable.id] = Binding(found.view, positions)
        return replace(result, bindings=bindings, paths=paths)

    def _bounds(self, count: Any, offset: Any) -> tuple[int | None, int]:
        first = None if count is None else self.evaluator.scalar(count)
        skip = 0 if offset is None else self.evaluator.scalar(offset) or 0
        for name, value in (("limit", first), ("offset", skip)):
            if value is not None and value < 0:
                raise InvalidArgument(f"{name} must not be negative, got {value}")
        return first, skip


def _below(op: Any) -> Iterator[Any]:
    while not isinstance(op, reads.Rows):
        op = op.input
        yield op


def _target_types(op: reads.Expand, views: SnapshotViews) -> list[str]:
    types = []
    for step in op.steps:
        edge = views.catalog.edge_types[step.edge]
        types += [edge.target] if step.direction is not reads.Direction.IN else []
        types += [edge.source] if step.direction is not reads.Direction.OUT else []
    return types
