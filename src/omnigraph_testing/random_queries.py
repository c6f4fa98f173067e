"""Random well-typed read queries as text, over a random graph."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

from hypothesis import strategies as st

from omnigraph.catalog.model import EdgeType
from omnigraph_testing.graph_data import GraphData
from omnigraph_testing.random_expressions import COMPARABLE, FAMILY, Known, Writer
from omnigraph_testing.strategies import VECTORS, graphs

Bounds = tuple[int, int | None]
_AGGREGATED = ("integer", "float")


@dataclass(frozen=True)
class RandomQuery:
    """A query text over a graph, with its parameters."""

    graph: GraphData
    source: str
    parameters: dict[str, Any]


@st.composite
def random_queries(draw: st.DrawFn) -> RandomQuery:
    """A graph and a query that compiles on it; a text that does not is a bug somewhere."""
    graph = draw(graphs())
    writer = Writer(draw, graph.catalog)
    match = _Pattern(writer).block()
    tail = _returns(writer)
    declared = ", ".join(f"${name}: {kind}" for name, (kind, _) in writer.parameters.items())
    source = f"query q({declared}) {{\n  match {{\n    {match}\n  }}\n  {tail}\n}}\n"
    values = {n: v for n, (_, v) in writer.parameters.items() if v is not None}
    return RandomQuery(graph, source, values)


class _Pattern:
    """Writes match clauses, adding the variables they bind to the writer's scope."""

    def __init__(self, writer: Writer) -> None:
        self._w = writer
        self._numbers = count(1)
        self._outer: list[Known] = []

    def block(self) -> str:
        """A whole match block: bindings, hops, filters, then sub-blocks."""
        w = self._w
        clauses = [self._binding()]
        clauses += [self._hop() for _ in range(w.pick([0, 1, 1, 1, 2, 2]))]
        if w.chance(8):
            clauses.append(self._binding())
        clauses += [w.clause() for _ in range(w.pick([0, 0, 0, 1, 1, 2]))]
        for _ in range(w.pick([0, 0, 0, 1, 1, 2])):
            clauses.append(self._sub_block(2))
        return "\n    ".join(clauses)

    def _sub_block(self, depth: int) -> str:
        """`optional` keeps its variables, `not` forgets them. Both touch something outside."""
        w = self._w
        word = w.pick(["not", "optional"])
        before, outer = list(w.scope), self._outer
        self._outer = before
        if word == "optional":
            clauses = [self._hop(fresh=True)]  # it must bind something
        else:
            clauses = [w.clause(1) if w.chance(6) else self._hop()]
        if w.chance(3):
            clauses.append(w.clause(1))
        if depth > 1 and w.chance(5):
            clauses.append(self._sub_block(depth - 1))
        self._outer = outer
        w.scope = before if word == "not" else w.scope
        return f"{word} {{ {' '.join(clauses)} }}"

    def _fresh(self) -> str:
        # Never used again, not even after a `not`: blocks see each other's names in any order.
        return f"n{next(self._numbers)}"

    def _binding(self) -> str:
        w = self._w
        kind = w.pick(["Ant", "Ant", "Bee", "Cow", "Insect"])
        types = ("Ant", "Bee") if kind == "Insect" else (kind,)
        known = Known(self._fresh(), "node", types)
        w.scope.append(known)
        columns = [c for c in w.columns(known) if FAMILY[c] in COMPARABLE]
        if columns and w.chance(5):
            column = w.pick(columns)
            return f"${known.name}: {kind} {{ {column}: {w.literal_for(column)} }}"
        return f"${known.name}: {kind}"

    def _hop(self, fresh: bool = False) -> str:
        """A hop from a node in scope along an edge that fits it, either way."""
        w = self._w
        starts = [
            (known, edge)
            for known in w.scope
            if known.kind == "node"
            for edge in w.catalog.edges
            if edge.source in known.types or edge.target in known.types
        ]
        if not starts:
            return self._binding() if fresh else w.clause(1)
        known, edge = w.pick(starts)
        outward = edge.source in known.types
        form = w.pick(["plain", "plain", "edge", "range", "range", "path", "shortest"])
        bounds = None if form in ("plain", "edge") else self._bounds(edge)
        edges = self._edges(edge, outward, bounds)
        sources = {e.source if outward else e.target for e in edges} & set(known.types)
        if known not in self._outer:
            self._narrow(known, sources)
        words = "|".join(e.name[0].lower() + e.name[1:] for e in edges)
        if all(e.source == e.target for e in edges) and w.chance(4):
            words = f"<{words}>"
        prefix, label = self._names(form, edges)
        target = self._target(_ends(edges, sources, outward, bounds), fresh)
        return f"{prefix}${known.name} {label}{words}{_spelled(bounds)} {target}"

    def _narrow(self, known: Known, types: set[str]) -> None:
        """An interface variable has only the types its hop leaves it, in its own block."""
        scope = self._w.scope
        scope[scope.index(known)] = Known(known.name, known.kind, tuple(sorted(types)))

    def _bounds(self, edge: EdgeType) -> Bounds:
        if edge.source != edge.target:
            return (1, self._w.pick([1, 2]))
        bounds: Bounds = self._w.pick([(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (1, None)])
        return bounds

    def _edges(self, edge: EdgeType, outward: bool, bounds: Bounds | None) -> list[EdgeType]:
        """The edge, sometimes with a second one that leaves the same type or goes on from it."""
        w = self._w
        goes_on = bounds is not None and bounds[1] != 1
        starts = {edge.source, edge.target} if goes_on else {edge.source}
        others = [e for e in w.catalog.edges if e != edge and e.source in starts]
        return [edge, w.pick(others)] if outward and others and w.chance(3) else [edge]

    def _names(self, form: str, edges: list[EdgeType]) -> tuple[str, str]:
        """Path prefix and edge label; most hops have neither."""
        w = self._w
        if form in ("plain", "range"):
            return "", ""
        name = f"{form[0]}{next(self._numbers)}"
        if form == "edge":
            w.scope.append(Known(name, "edge", tuple(e.name for e in edges)))
            return "", f"${name}:"
        w.scope.append(Known(name, "path", ()))
        return f"${name} = {'shortest ' if form == 'shortest' else ''}", ""

    def _target(self, types: tuple[str, ...], fresh: bool) -> str:
        w = self._w
        bound = [k for k in w.scope if k.kind == "node" and k.types == types]
        if not fresh and bound and w.chance(4):
            return f"${w.pick(bound).name}"
        if not fresh and w.chance(6):
            return "$_"
        added = Known(self._fresh(), "node", types)
        w.scope.append(added)
        return f"${added.name}"


def _spelled(bounds: Bounds | None) -> str:
    if bounds is None:
        return ""
    return f"{{{bounds[0]},{'' if bounds[1] is None else bounds[1]}}}"


def _ends(
    edges: list[EdgeType], sources: set[str], outward: bool, bounds: Bounds | None
) -> tuple[str, ...]:
    """The types a hop can end at."""
    pairs = [(e.source, e.target) if outward else (e.target, e.source) for e in edges]
    low, high = bounds or (1, 1)
    reached: set[str] = set()
    frontier = sources
    for hop in range(1, (high or low + len(pairs)) + 1):
        frontier = {end for start, end in pairs if start in frontier}
        reached |= frontier if hop >= low else set()
    return tuple(sorted(reached))


def _returns(w: Writer) -> str:
    vectors = [text for text, _ in w.properties(["vector"])]
    if vectors and w.chance(2):
        return _ranked(w, w.pick(vectors))
    form = w.pick(["rows", "rows", "distinct", "groups", "groups", "total"])
    having = ""
    if form in ("rows", "distinct"):
        columns = [_column(w) for _ in range(w.pick([1, 2, 3]))]
        names = [f"{text} as c{n}" for n, (text, _) in enumerate(columns)]
        if w.chance(5):
            having = f"\n  where {w.condition(1)}"
    else:
        keys = [_column(w) for _ in range(0 if form == "total" else w.pick([1, 1, 2]))]
        # A group may have its aggregates in the order alone.
        numbers = [1, 2] if form == "total" else [0, 1, 1, 2]
        columns = [*keys, *(_aggregate(w) for _ in range(w.pick(numbers)))]
        names = [f"{text} as c{n}" for n, (text, _) in enumerate(columns)]
        if w.chance(4):
            having = f"\n  where {w.pick(['count(*) > 1', 'c0 is not null', 'not c0 is null'])}"
    sortable = [f"c{n}" for n, (_, orders) in enumerate(columns) if orders]
    if form == "rows" and w.chance(2):
        sortable.append(w.orderable())
    if form == "groups" and w.chance(2):
        sortable += [text for text, orders in [_aggregate(w)] if orders]
    text = f"return {'distinct ' if form == 'distinct' else ''}{{ {', '.join(names)} }}{having}"
    return text + _order(w, sortable) + _page(w)


def _ranked(w: Writer, vector: str) -> str:
    distance = f"nearest({vector}, {list(w.pick(VECTORS))})"
    columns = [*(_column(w)[0] for _ in range(w.pick([1, 2]))), distance]
    names = ", ".join(f"{text} as c{n}" for n, text in enumerate(columns))
    order = w.pick([distance, f"c{len(columns) - 1}", f"{distance}, {w.orderable()} desc"])
    page = f"limit {w.pick([1, 2, 5])}{w.pick(['', '', ' offset 1'])}"
    form = w.pick(["unordered", "ordered", "ordered", "grouped"])
    if form == "grouped":
        return f"return {{ min({distance}) as c0, {columns[0]} as c1 }}"
    tail = f"\n  order {{ {order} }} {page}" if form == "ordered" else ""
    return f"return {{ {names} }}{tail}"


def _column(w: Writer) -> tuple[str, bool]:
    """A projection, and whether rows can be ordered by it."""
    if w.chance(5):
        return f"${w.pick(w.scope).name}", False
    lists = [text for text, _ in w.properties(["texts", "integers"])]
    if lists and w.chance(4):
        return w.pick(lists), False
    if w.chance(5):
        return f"({w.condition(1)})", True
    return w.orderable(), True


def _aggregate(w: Writer) -> tuple[str, bool]:
    distinct = "distinct " if w.chance(3) else ""
    entities = [known.name for known in w.scope]
    choice = w.pick(["count", "count", "number", "extreme", "collect", "*"])
    if choice == "count" and w.chance(2):
        return f"count({distinct}${w.pick(entities)})", True
    if choice == "number":
        family = w.pick(_AGGREGATED)
        return f"{w.pick(['sum', 'avg'])}({distinct}{w.value(family)})", True
    if choice == "extreme":
        return f"{w.pick(['min', 'max'])}({w.orderable()})", True
    if choice == "collect":
        return f"collect({distinct}{w.orderable()})", False
    return ("count(*)" if choice == "*" else f"count({distinct}{w.orderable()})"), True


def _order(w: Writer, sortable: list[str]) -> str:
    if not sortable or w.chance(2):
        return ""
    keys = w.draw(st.lists(st.sampled_from(sortable), min_size=1, max_size=2, unique=True))
    return (
        "\n  order { " + ", ".join(f"{key}{w.pick(['', ' desc', ' asc'])}" for key in keys) + " }"
    )


def _page(w: Writer) -> str:
    limit = f"\n  limit {w.pick([1, 2, 5, 0])}" if w.chance(4) else ""
    offset = f"\n  offset {w.pick([1, 0, 3])}" if w.chance(6) else ""
    return limit + offset
