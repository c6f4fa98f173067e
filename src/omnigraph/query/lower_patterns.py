"""Typed match blocks -> read operators, in an order in which every step finds its inputs bound."""

from __future__ import annotations

from dataclasses import dataclass, replace

from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.query.typecheck_patterns import Hop, Pattern, mentioned, variables_in

_REVERSED = {
    reads.Direction.OUT: reads.Direction.IN,
    reads.Direction.IN: reads.Direction.OUT,
    reads.Direction.BOTH: reads.Direction.BOTH,
}


def lower_pattern(pattern: Pattern) -> reads.ReadOp:
    """The rows a whole match block gives."""
    return _Lowering(reads.Rows(), {}).lower(pattern)


@dataclass
class _Lowering:
    """Follows the text as far as it can; choosing a better order is the planner's work."""

    rows: reads.ReadOp
    bound: dict[int, ex.Variable]

    def lower(self, pattern: Pattern) -> reads.ReadOp:
        hops = list(pattern.hops)
        filters = self._filter(list(pattern.filters))
        while hop := self._next_hop(hops, pattern):
            filters = self._filter(filters)
            self._expand(hop)
            hops.remove(hop)
            filters = self._filter(filters)
        for node in pattern.nodes:
            if node.id not in self.bound:
                self._scan(node)
                filters = self._filter(filters)
        for optional in pattern.optionals:
            introduced = optional.introduced()
            self.rows = reads.Optional(self.rows, self._sub_pattern(optional), introduced)
            self.bound |= {variable.id: variable for variable in introduced}
            filters = self._filter(filters)
        for negation in pattern.negations:
            self.rows = reads.AntiJoin(self.rows, self._sub_pattern(negation))
        return self.rows

    def _next_hop(self, hops: list[Hop], pattern: Pattern) -> Hop | None:
        """The first hop with a bound end; when there is none, its pattern's next scan."""
        if not hops:
            return None
        connected = next((hop for hop in hops if self._can_expand(hop)), None)
        if connected is not None:
            return connected
        in_hops = {hop.source.id for hop in hops} | {hop.target.id for hop in hops}
        start = next(
            (n for n in pattern.nodes if n.id not in self.bound and n.id in in_hops),
            hops[0].source,
        )
        usable = start if self._starts_a_hop(start, hops) else hops[0].source
        self._scan(usable)
        return next(hop for hop in hops if self._can_expand(hop))

    def _starts_a_hop(self, node: ex.Variable, hops: list[Hop]) -> bool:
        return any(
            hop.source.id == node.id
            or (hop.target.id == node.id and hop.mode is reads.ExpandMode.EDGE)
            for hop in hops
        )

    def _can_expand(self, hop: Hop) -> bool:
        if hop.source.id in self.bound:
            return True
        # Bounds are counted from the left, so only a single hop may be walked backwards.
        return hop.target.id in self.bound and hop.mode is reads.ExpandMode.EDGE

    def _expand(self, hop: Hop) -> None:
        source, target, steps = hop.source, hop.target, hop.steps
        if source.id not in self.bound:
            source, target = target, source
            steps = tuple(replace(s, direction=_REVERSED[s.direction]) for s in steps)
        self.rows = reads.Expand(
            self.rows,
            source,
            steps,
            target,
            hop.mode,
            hop.hops,
            target.id in self.bound,
            hop.edge,
            hop.path,
        )
        for variable in (target, hop.edge, hop.path):
            if variable is not None:
                self.bound[variable.id] = variable

    def _scan(self, node: ex.Variable) -> None:
        self.rows = reads.NodeScan(self.rows, node)
        self.bound[node.id] = node

    def _filter(self, filters: list[ex.Expression]) -> list[ex.Expression]:
        """Apply what can be applied now; the rest waits for its variables."""
        waiting = []
        for predicate in filters:
            if variables_in(predicate) <= self.bound.keys():
                self.rows = reads.Filter(self.rows, predicate)
            else:
                waiting.append(predicate)
        return waiting

    def _sub_pattern(self, pattern: Pattern) -> reads.ReadOp:
        shared = sorted(mentioned(pattern) & self.bound.keys())
        given = tuple(self.bound[identity] for identity in shared)
        start = reads.Rows(given)
        return _Lowering(start, {variable.id: variable for variable in given}).lower(pattern)
