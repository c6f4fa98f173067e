"""Type inference in a match block: types of its variables, direction of its edges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from omnigraph.catalog.model import Catalog, EdgeType
from omnigraph.ir.expressions import VariableKind
from omnigraph.ir.reads import Direction, EdgeStep
from omnigraph.query import ast, codes
from omnigraph.query.scope import ANONYMOUS, Scope
from omnigraph.syntax.diagnostics import Diagnostics
from omnigraph.syntax.source_text import Name
from omnigraph.values.known_names import did_you_mean

MAX_HOPS = 1000

Types = frozenset[str]


class _TypedSteps(NamedTuple):
    """The steps of a traversal, and the node types at its two ends."""

    steps: tuple[EdgeStep, ...]
    sources: Types
    targets: Types


class _EndTypes(NamedTuple):
    """The node types that an edge connects, in the direction in which it is followed."""

    source: str
    target: str


@dataclass
class PatternTypes:
    """Node types by variable name, and the steps of every traversal that could be typed."""

    nodes: dict[str, Types] = field(default_factory=dict)
    steps: dict[int, tuple[EdgeStep, ...]] = field(default_factory=dict)
    # Types of `$_` by traversal and side, because every `$_` is another node.
    anonymous: dict[tuple[int, str], Types] = field(default_factory=dict)


def infer_types(clauses: Iterable[ast.Clause], scope: Scope) -> PatternTypes:
    """Types of a block: bindings first, then traversals, those with a known end first."""
    clauses = tuple(clauses)
    inference = _Inference(scope, _named_edges_and_paths(clauses))
    for clause in clauses:
        if isinstance(clause, ast.BindingClause):
            inference.bind(clause)
    pending = [clause for clause in clauses if isinstance(clause, ast.TraversalClause)]
    while pending:
        known = (t for t in pending if inference.has_known_end(t))
        chosen = next(known, pending[0])
        pending.remove(chosen)
        inference.traverse(chosen)
    scope.failed |= _mentioned(clauses) - set(inference.types.nodes)
    return inference.types


def _named_edges_and_paths(clauses: Iterable[ast.Clause]) -> dict[str, str]:
    """Names whose first use in the block is an edge or a path."""
    kinds: dict[str, str] = {}
    for clause in clauses:
        if isinstance(clause, ast.BindingClause):
            kinds.setdefault(clause.variable.text, VariableKind.NODE)
        elif isinstance(clause, ast.TraversalClause):
            for name, kind in (
                (clause.path, VariableKind.PATH),
                (clause.source, VariableKind.NODE),
                (clause.edge.variable, VariableKind.EDGE),
                (clause.target, VariableKind.NODE),
            ):
                if name is not None:
                    kinds.setdefault(name.text, kind)
    return {name: kind for name, kind in kinds.items() if kind != VariableKind.NODE}


def _mentioned(clauses: Iterable[ast.Clause]) -> set[str]:
    names: set[str] = set()
    for clause in clauses:
        if isinstance(clause, ast.BindingClause):
            names.add(clause.variable.text)
        elif isinstance(clause, ast.TraversalClause):
            names |= {clause.source.text, clause.target.text}
    return names - {ANONYMOUS}


class _Inference:
    def __init__(self, scope: Scope, not_nodes: dict[str, str]) -> None:
        self._scope = scope
        self._not_nodes = not_nodes
        self._catalog: Catalog = scope.catalog
        self._found: Diagnostics = scope.found
        self._edges = {edge.name.casefold(): edge for edge in self._catalog.edges}
        self.types = PatternTypes()

    def bind(self, clause: ast.BindingClause) -> None:
        name = clause.variable.text
        types = self._node_types(clause.type)
        if name == ANONYMOUS:
            self._found.error(
                codes.UNBOUND, "$_ binds nothing", clause.variable.span, "give it a name"
            )
        elif self._may_be_node(clause.variable) and types is not None:
            self._narrow(clause.variable, types, codes.ENDPOINT_TYPE)

    def has_known_end(self, traversal: ast.TraversalClause) -> bool:
        return any(self._known(end) is not None for end in (traversal.source, traversal.target))

    def traverse(self, traversal: ast.TraversalClause) -> None:
        edges = [self._edge(name) for name in traversal.edge.names]
        ends_fit = [self._may_be_node(end) for end in (traversal.source, traversal.target)]
        fine = all(ends_fit) and self._check_hops(traversal.edge.hops)
        known = [edge for edge in edges if edge is not None]
        if not fine or len(known) != len(edges) or not self._check_undirected(traversal, known):
            return
        source, target = self._known(traversal.source), self._known(traversal.target)
        if _is_one_hop(traversal.edge):
            found = _one_hop(known, traversal.edge.undirected, source, target)
        else:
            found = _many_hops(known, traversal.edge, source, target)
        if found is None:
            self._report_endpoints(traversal, known)
            return
        self.types.steps[id(traversal)] = found.steps
        self._settle(traversal, traversal.source, found.sources, "source")
        self._settle(traversal, traversal.target, found.targets, "target")

    def _settle(self, traversal: ast.TraversalClause, end: Name, types: Types, side: str) -> None:
        if end.text == ANONYMOUS:
            self.types.anonymous[id(traversal), side] = types
        else:
            self._narrow(end, types, codes.ENDPOINT_TYPE)

    def _node_types(self, name: Name) -> Types | None:
        if name.text in self._catalog.node_types:
            return frozenset({name.text})
        implementing = [n.name for n in self._catalog.nodes if name.text in n.implements]
        interfaces = {interface.name for interface in self._catalog.interfaces}
        if name.text in interfaces and implementing:
            return frozenset(implementing)
        if name.text in interfaces:
            self._found.error(
                codes.UNKNOWN_NODE_TYPE, f"no node type implements '{name.text}'", name.span
            )
            return None
        if name.text in self._catalog.edge_types:
            word = name.text[:1].lower() + name.text[1:]
            help_text: str | None = f"an edge is matched by a hop: `$a $e:{word} $b`"
        else:
            help_text = did_you_mean(name.text, interfaces | set(self._catalog.node_types))
        self._found.error(
            codes.UNKNOWN_NODE_TYPE, f"there is no node type '{name.text}'", name.span, help_text
        )
        return None

    def _may_be_node(self, name: Name) -> bool:
        if name.text in self._scope.parameters:
            self._found.error(
                codes.UNBOUND, f"${name.text} is a parameter, not a node", name.span, "rename one"
            )
            return False
        known = self._scope.find(name.text)
        kind = self._not_nodes.get(name.text) or (known.kind if known else VariableKind.NODE)
        if kind != VariableKind.NODE:
            what = "an edge" if kind == VariableKind.EDGE else "a path"
            self._found.error(codes.EDGE_BINDING, f"${name.text} is {what}, not a node", name.span)
            return False
        return True

    def _known(self, name: Name) -> Types | None:
        if name.text in self.types.nodes:
            return self.types.nodes[name.text]
        outer = self._scope.find(name.text)
        return frozenset(outer.types) if outer else None

    def _narrow(self, name: Name, types: Types, code: str) -> None:
        known = self._known(name)
        both = types if known is None else types & known
        if known is not None and not both:
            self._found.error(
                code, f"${name.text} is {_spell(known)}, it cannot be {_spell(types)}", name.span
            )
            return
        self.types.nodes[name.text] = both

    def _edge(self, name: Name) -> EdgeType | None:
        edge = self._edges.get(name.text.casefold())
        if edge is None:
            spelled = [e.name[:1].lower() + e.name[1:] for e in self._catalog.edges]
            self._found.error(
                codes.UNKNOWN_EDGE,
                f"there is no edge '{name.text}'",
                name.span,
                did_you_mean(name.text, spelled),
            )
        return edge

    def _check_hops(self, hops: ast.Hops | None) -> bool:
        if hops is None:
            return True
        maximum = hops.minimum if hops.maximum is None else hops.maximum
        if hops.minimum < 1 or maximum < hops.minimum or maximum > MAX_HOPS:
            self._found.error(
                codes.HOPS_OR_NEAREST,
                "hop bounds are {m,n} with 1 <= m <= n"
                + (f" <= {MAX_HOPS}" if maximum > MAX_HOPS else ""),
                hops.span,
                "`{1,3}` is one to three hops, `{1,}` as far as it goes",
            )
            return False
        return True

    def _check_undirected(self, traversal: ast.TraversalClause, edges: list[EdgeType]) -> bool:
        for edge in edges if traversal.edge.undirected else ():
            if edge.source != edge.target:
                self._found.error(
                    codes.UNDIRECTED,
                    f"{edge.name} goes from {edge.source} to {edge.target}: "
                    "its two directions are different things",
                    traversal.edge.span,
                    "leave out < and >, the types of the ends decide the direction",
                )
                return False
        return True

    def _report_endpoints(self, traversal: ast.TraversalClause, edges: list[EdgeType]) -> None:
        shapes = " and ".join(f"{e.name} connects {e.source} to {e.target}" for e in edges)
        ends = [
            f"${end.text} is {_spell(known)}"
            for end in (traversal.source, traversal.target)
            if end.text != ANONYMOUS and (known := self._known(end)) is not None
        ]
        hops = traversal.edge.hops
        if hops and hops.minimum > 1 and all(e.source != e.target for e in edges):
            self._found.error(
                codes.HOPS_OR_NEAREST,
                f"{shapes}, so it cannot be followed {hops.minimum} times",
                hops.span,
            )
            return
        self._found.error(
            codes.ENDPOINT_TYPE,
            f"{shapes}, but {' and '.join(dict.fromkeys(ends))}",
            traversal.span,
        )


def _is_one_hop(edge: ast.EdgePattern) -> bool:
    return edge.hops is None or edge.hops.maximum == 1


def _one_hop(
    edges: list[EdgeType], undirected: bool, source: Types | None, target: Types | None
) -> _TypedSteps | None:
    steps: list[EdgeStep] = []
    sources: set[str] = set()
    targets: set[str] = set()
    for edge in edges:
        direction = Direction.BOTH if undirected else Direction.OUT
        ends = _ends(edge, direction)
        if not _fits(ends, source, target) and not undirected:
            direction = Direction.IN
            ends = _ends(edge, direction)
        if not _fits(ends, source, target):
            return None
        steps.append(EdgeStep(edge.name, direction))
        sources.add(ends.source)
        targets.add(ends.target)
    return _TypedSteps(tuple(steps), frozenset(sources), frozenset(targets))


def _many_hops(
    edges: list[EdgeType], pattern: ast.EdgePattern, source: Types | None, target: Types | None
) -> _TypedSteps | None:
    directions = (Direction.BOTH,) if pattern.undirected else (Direction.OUT, Direction.IN)
    hops = pattern.hops or ast.Hops(1, 1)
    for direction in directions:
        pairs = [_ends(edge, direction) for edge in edges]
        starts = frozenset(pair.source for pair in pairs)
        sources = starts if source is None else starts & source
        reached = _reachable(sources, pairs, hops)
        targets = reached if target is None else reached & target
        if sources and targets:
            steps = tuple(EdgeStep(edge.name, direction) for edge in edges)
            return _TypedSteps(steps, sources, targets)
    return None


def _reachable(sources: Types, pairs: list[_EndTypes], hops: ast.Hops) -> Types:
    reached: set[str] = set()
    frontier = set(sources)
    # After the minimum, one round per edge type is enough to reach every type.
    last = hops.minimum + len(pairs)
    for hop in range(1, last + 1 if hops.maximum is None else min(last, hops.maximum) + 1):
        frontier = {pair.target for pair in pairs if pair.source in frontier}
        if hop >= hops.minimum:
            reached |= frontier
    return frozenset(reached)


def _ends(edge: EdgeType, direction: Direction) -> _EndTypes:
    if direction is Direction.IN:
        return _EndTypes(edge.target, edge.source)
    return _EndTypes(edge.source, edge.target)


def _fits(ends: _EndTypes, source: Types | None, target: Types | None) -> bool:
    fits_source = source is None or ends.source in source
    return fits_source and (target is None or ends.target in target)


def _spell(types: Types) -> str:
    return " or ".join(sorted(types)) or "nothing"
