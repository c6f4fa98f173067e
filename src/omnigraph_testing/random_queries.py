"""Hypothesis strategies: random well-typed read queries as text, over random graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import strategies as st

from omnigraph.catalog.model import Catalog, EdgeType
from omnigraph.syntax.source_text import write_literal
from omnigraph_testing.graph_data import GraphData
from omnigraph_testing.random_graphs import COLUMNS, VECTORS, graphs

FAMILY = {
    "s": "text",
    "t": "text",
    "e": "text",
    "i": "integer",
    "l": "integer",
    "u": "integer",
    "f": "float",
    "h": "float",
    "b": "bool",
    "d": "date",
    "m": "moment",
    "ls": "texts",
    "li": "integers",
    "v": "vector",
}
_COMPARED = sorted(set(FAMILY.values()) - {"vector"})
COMPARABLE = ("text", "integer", "float", "bool", "date", "moment")
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_LITERALS: dict[str, tuple[Any, ...]] = {
    "text": COLUMNS["s"][1],
    "integer": (0, 1, 2, 7, 3_000_000_000),
    "float": (0.0, 0.25, 2.0, 1.8),
}


_PATTERNS = ("a", "^.$", "[^a-z]", "(?i)A|é", "\\s", "\\pL+$", "")


@dataclass(frozen=True, slots=True)
class ScopeVariable:
    """A variable in scope. A path has no types."""

    name: str
    kind: str
    types: tuple[str, ...]


@dataclass
class QueryWriter:
    """Draws the parts of one query and collects its parameters."""

    draw: st.DrawFn
    catalog: Catalog
    scope: list[ScopeVariable] = field(default_factory=list)
    exists: Callable[[], str] | None = None
    """Writes `exists { … }`; None where it is not allowed."""
    parameters: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def pick(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def chance(self, one_in: int) -> bool:
        """True once in `one_in` draws. Hypothesis shrinks to False."""
        return bool(self.draw(st.integers(1, one_in)) == one_in)

    def columns(self, variable: ScopeVariable) -> list[str]:
        """Properties that every type of the variable has."""
        owners = [self.catalog.resolve(name) for name in variable.types]
        shared = [{p.name for p in owner.properties} for owner in owners]
        return sorted(set.intersection(*shared) & COLUMNS.keys()) if shared else []

    def properties(self, families: Sequence[str]) -> list[tuple[str, str]]:
        """`$x.p` and its column name, for every property in scope of these families."""
        return [
            (f"${known.name}.{column}", column)
            for known in self.scope
            for column in self.columns(known)
            if FAMILY[column] in families
        ]

    def value(self, family: str, depth: int = 1) -> str:
        """An expression of this family. Mostly a property, if the scope has one."""
        found = self.properties([family])
        plain = self.pick(found)[0] if found else None
        if depth > 0 and self.chance(12):
            return self._case(family, depth - 1)
        if depth > 0 and family in _COMPOSED and (plain is None or self.chance(3)):
            return _COMPOSED[family](self, depth - 1)
        return plain or self.literal(family)

    def _case(self, family: str, depth: int) -> str:
        """A case of values of one family; a branch that is not taken may divide by zero."""
        branches = [
            f"when {self.condition(depth)} then {self.value(family, depth)}"
            for _ in range(self.pick([1, 1, 2]))
        ]
        if family == "integer" and self.chance(3):
            divisor = self.value("integer", 0)
            branches.append(f"when {divisor} != 0 then 7 / {divisor}")
        tail = f" else {self.value(family, depth)}" if self.chance(2) else ""
        return f"case {' '.join(branches)}{tail} end"

    def literal(self, family: str) -> str:
        if family in _LITERALS:
            return write_literal(self.pick(_LITERALS[family]))
        return _WRITTEN[family](self)

    def literal_for(self, column: str) -> str:
        """A literal or parameter of exactly the column's type, with a value that occurs."""
        kind, values = COLUMNS[column]
        if self.chance(4):
            name = f"v{len(self.parameters)}"
            value = None if self.chance(5) else self.pick(values)
            bare = "String?" if kind.startswith("enum") else kind.rstrip("?") + "?"
            self.parameters[name] = (bare, value)
            return f"${name}"
        return _literal_text(self.pick(values))

    def condition(self, depth: int = 2) -> str:
        """A predicate: true, false or unknown for every row."""
        if depth > 0 and self.chance(3):
            return self._connected(depth - 1)
        found = self.properties(_COMPARED)
        if not found:
            entity = self.pick([known.name for known in self.scope if known.kind != "path"])
            return f"${entity}.id {self.pick(_COMPARISONS)} {self.literal('text')}"
        text, column = self.pick(found)
        family = FAMILY[column]
        if self.chance(5):
            return f"{text} is {self.pick(['', 'not '])}null"
        if family in ("texts", "integers"):
            return self._about_list(text, column, family)
        if column in ("s", "t") and self.chance(4):
            return self._text_predicate(text)
        if family == "text" and self.chance(3):
            return f"{text} {self.pick(['contains', 'starts_with'])} {self.literal('text')}"
        if family == "bool" and self.chance(2):
            return str(text)
        if self.chance(4):
            return self._membership(text, column)
        if self.chance(3):
            operand = self.value(family)
            return f"{self.value(family)} {self.pick(_COMPARISONS)} {operand}"
        return f"{text} {self.pick(_COMPARISONS)} {self.literal_for(column)}"

    def _existence(self, block: str) -> str:
        form = self.pick(["", "", "not ", " = ", " != "])
        if "=" not in form:
            return f"{form}{block}"
        return f"({block}{form}{self.value('bool', 0)})"

    def clause(self, depth: int = 2) -> str:
        """A condition as a clause.

        It is in brackets if it begins with a minus, which would continue the clause before it.
        """
        text = self.condition(depth)
        return f"({text})" if text.startswith("-") else text

    def _connected(self, depth: int) -> str:
        if self.exists is not None and self.chance(3):
            return self._existence(self.exists())
        if self.chance(3):
            return f"not ({self.condition(depth)})"
        word = self.pick(["and", "or"])
        return f"({self.condition(depth)} {word} {self.condition(depth)})"

    def _about_list(self, text: str, column: str, family: str) -> str:
        item = "s" if family == "texts" else "i"
        if self.chance(2):
            return f"{text} contains {self.literal_for(item)}"
        return f"{text} {self.pick(['=', '!='])} {_literal_text(self.pick(COLUMNS[column][1]))}"

    def _text_predicate(self, text: str) -> str:
        function = self.pick(["search", "match_text", "fuzzy", "regex_match"])
        if function == "regex_match":
            return f"regex_match({self.value('text', 0)}, {write_literal(self.pick(_PATTERNS))})"
        return f"{function}({text}, {self.literal('text')})"

    def _membership(self, text: str, column: str) -> str:
        values = self.draw(st.lists(st.sampled_from(COLUMNS[column][1]), max_size=3))
        return f"{text} in {_literal_text(values)}"

    def orderable(self) -> str:
        """An expression that rows can be sorted by."""
        found = self.properties(COMPARABLE)
        families = sorted({FAMILY[column] for _, column in found}) or ["integer"]
        return self.value(self.pick(families))


def _literal_text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_literal_text(item) for item in value)}]"
    return write_literal(value)


def _integer(w: QueryWriter, depth: int) -> str:
    small = [text for text, column in w.properties(["integer"]) if column == "i"]
    operand = w.pick(small) if small else w.literal("integer")
    choices: list[Callable[[], str]] = [
        lambda: f"{operand} {w.pick(['+', '-', '*'])} {w.pick(['1', '2', '10'])}",
        lambda: f"{operand} {w.pick(['/', '%'])} {w.pick(['2', '3', '-2'])}",
        lambda: f"-{operand}",
        lambda: f"abs({operand})",
        lambda: f"coalesce({w.value('integer', 0)}, {w.literal('integer')})",
        lambda: f"length({w.value('text', depth)})",
        lambda: f"length(split({w.value('text', 0)}, {w.value('text', 0)}))",
        lambda: f"{w.pick(['year', 'month', 'day', 'weekday'])}({w.value('date', 0)})",
        lambda: f"{w.pick(['hour', 'minute', 'second'])}({w.value('moment', 0)})",
    ]
    paths = [known.name for known in w.scope if known.kind == "path"]
    if paths:
        choices.append(lambda: f"length(${w.pick(paths)})")
    return str(w.pick(choices)())


def _float(w: QueryWriter, depth: int) -> str:
    operand = w.value("float", 0)
    return str(
        w.pick(
            [
                f"{operand} {w.pick(['+', '-', '*', '/'])} {w.pick(['2', '0.5', '4.0'])}",
                f"-{operand}",
                f"abs({operand})",
                f"round({operand})",
                f"coalesce({operand}, {w.value('integer', 0)})",
            ]
        )
    )


def _text(w: QueryWriter, depth: int) -> str:
    operand = w.value("text", depth)
    options = [
        f"{operand} + {w.literal('text')}",
        f"lower({operand})",
        f"upper({operand})",
        f"substring({operand}, {w.pick([1, 2, 9])})",
        f"substring({operand}, {w.pick([1, 2])}, {w.pick([0, 1, 3])})",
        f"replace({operand}, {w.value('text', 0)}, {w.literal('text')})",
        f"trim({operand})",
        f"trim({operand}, {w.value('text', 0)})",
    ]
    options += [f"${known.name}.id" for known in w.scope if known.kind != "path"]
    options += [f"type(${known.name})" for known in w.scope if known.kind != "path"]
    return str(w.pick(options))


_COMPOSED: dict[str, Callable[[QueryWriter, int], str]] = {
    "integer": _integer,
    "float": _float,
    "text": _text,
    "bool": lambda w, depth: f"({w.condition(depth)})",
    "date": lambda w, depth: f"date({w.value('moment', 0)})",
    "moment": lambda w, depth: f"datetime({w.value('date', 0)})",
}
_WRITTEN: dict[str, Callable[[QueryWriter], str]] = {
    "bool": lambda w: str(w.pick(["true", "false"])),
    "date": lambda w: f'date("{w.pick(COLUMNS["d"][1])}")',
    "moment": lambda w: f'datetime("{w.pick(COLUMNS["m"][1])}")',
    "texts": lambda w: _literal_text(w.pick(COLUMNS["ls"][1])),
    "integers": lambda w: _literal_text(w.pick(COLUMNS["li"][1])),
}


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
    """A graph and a query. Every query must compile; if it does not, that is a bug."""
    graph = draw(graphs())
    writer = QueryWriter(draw, graph.catalog)
    match = _MatchWriter(writer).block()
    writer.exists = None
    tail = _returns(writer)
    declared = ", ".join(f"${name}: {kind}" for name, (kind, _) in writer.parameters.items())
    source = f"query q({declared}) {{\n  match {{\n    {match}\n  }}\n  {tail}\n}}\n"
    values = {n: v for n, (_, v) in writer.parameters.items() if v is not None}
    return RandomQuery(graph, source, values)


class _MatchWriter:
    """Writes match clauses and adds their variables to the scope of the writer."""

    def __init__(self, writer: QueryWriter) -> None:
        self._w = writer
        self._numbers = count(1)
        self._outer: list[ScopeVariable] = []
        self._depth = 0
        writer.exists = self._exists

    def block(self) -> str:
        """A match block: bindings, hops, filters, then sub-blocks."""
        w = self._w
        clauses = [self._binding()]
        clauses += [self._hop() for _ in range(w.pick([0, 1, 1, 1, 2, 2]))]
        if w.chance(8):
            clauses.append(self._binding())
        clauses += [w.clause() for _ in range(w.pick([0, 0, 0, 1, 1, 2]))]
        if w.chance(3):
            clauses.append(w.pick(["", "not ", f"{w.clause(0)} or "]) + self._exists())
        for _ in range(w.pick([0, 0, 0, 1, 1, 2])):
            clauses.append(self._sub_block(2))
        return "\n    ".join(clauses)

    def _sub_block(self, depth: int) -> str:
        """`optional` keeps its variables, `not` drops them. Both use a variable from outside."""
        w = self._w
        word = w.pick(["not", "optional"])
        before, outer = list(w.scope), self._outer
        self._outer = before
        if word == "optional":
            clauses = [self._hop(fresh=True)]  # an optional block must bind a variable
        else:
            clauses = [w.clause(1) if w.chance(6) else self._hop()]
        if w.chance(3):
            clauses.append(w.clause(1))
        if depth > 1 and w.chance(5):
            clauses.append(self._sub_block(depth - 1))
        self._outer = outer
        w.scope = before if word == "not" else w.scope
        return f"{word} {{ {' '.join(clauses)} }}"

    def _exists(self) -> str:
        """`exists` drops its variables. It need not use a variable from outside."""
        w = self._w
        before, outer = list(w.scope), self._outer
        self._outer = before
        self._depth += 1
        w.exists = self._exists if self._depth < 3 else None
        clauses = [self._binding() if w.chance(4) else self._hop()]
        if w.chance(3):
            clauses.append(w.clause(1))
        if self._depth < 2 and w.chance(5):
            clauses.append(self._sub_block(1))
        if self._depth < 3 and w.chance(4):
            clauses.append(w.pick(["", "not "]) + self._exists())
        self._depth -= 1
        w.exists, w.scope, self._outer = self._exists, before, outer
        return f"exists {{ {' '.join(clauses)} }}"

    def _fresh(self) -> str:
        # A name is used once, even after a `not`, because blocks see the names of other blocks.
        return f"n{next(self._numbers)}"

    def _binding(self) -> str:
        w = self._w
        kind = w.pick(["Ant", "Ant", "Bee", "Cow", "Insect"])
        types = ("Ant", "Bee") if kind == "Insect" else (kind,)
        known = ScopeVariable(self._fresh(), "node", types)
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

    def _narrow(self, known: ScopeVariable, types: set[str]) -> None:
        """A hop reduces the types of an interface variable, within its block."""
        scope = self._w.scope
        scope[scope.index(known)] = ScopeVariable(known.name, known.kind, tuple(sorted(types)))

    def _bounds(self, edge: EdgeType) -> Bounds:
        if edge.source != edge.target:
            return (1, self._w.pick([1, 2]))
        bounds: Bounds = self._w.pick([(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (1, None)])
        return bounds

    def _edges(self, edge: EdgeType, outward: bool, bounds: Bounds | None) -> list[EdgeType]:
        """The edge, sometimes with a second one that starts at the same type or continues it."""
        w = self._w
        goes_on = bounds is not None and bounds[1] != 1
        starts = {edge.source, edge.target} if goes_on else {edge.source}
        others = [e for e in w.catalog.edges if e != edge and e.source in starts]
        return [edge, w.pick(others)] if outward and others and w.chance(3) else [edge]

    def _names(self, form: str, edges: list[EdgeType]) -> tuple[str, str]:
        """Path prefix and edge label. Most hops have neither."""
        w = self._w
        if form in ("plain", "range"):
            return "", ""
        name = f"{form[0]}{next(self._numbers)}"
        if form == "edge":
            w.scope.append(ScopeVariable(name, "edge", tuple(e.name for e in edges)))
            return "", f"${name}:"
        w.scope.append(ScopeVariable(name, "path", ()))
        return f"${name} = {'shortest ' if form == 'shortest' else ''}", ""

    def _target(self, types: tuple[str, ...], fresh: bool) -> str:
        w = self._w
        bound = [k for k in w.scope if k.kind == "node" and k.types == types]
        if not fresh and bound and w.chance(4):
            return f"${w.pick(bound).name}"
        if not fresh and w.chance(6):
            return "$_"
        added = ScopeVariable(self._fresh(), "node", types)
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


def _returns(w: QueryWriter) -> str:
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
        # The aggregates of a group may be in the order only.
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


def _ranked(w: QueryWriter, vector: str) -> str:
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


def _column(w: QueryWriter) -> tuple[str, bool]:
    """A projection, and whether rows can be ordered by it."""
    if w.chance(5):
        return f"${w.pick(w.scope).name}", False
    lists = [text for text, _ in w.properties(["texts", "integers"])]
    if lists and w.chance(4):
        return w.pick(lists), False
    if w.chance(5):
        return f"({w.condition(1)})", True
    return w.orderable(), True


def _aggregate(w: QueryWriter) -> tuple[str, bool]:
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


def _order(w: QueryWriter, sortable: list[str]) -> str:
    if not sortable or w.chance(2):
        return ""
    keys = w.draw(st.lists(st.sampled_from(sortable), min_size=1, max_size=2, unique=True))
    return (
        "\n  order { " + ", ".join(f"{key}{w.pick(['', ' desc', ' asc'])}" for key in keys) + " }"
    )


def _page(w: QueryWriter) -> str:
    limit = f"\n  limit {w.pick([1, 2, 5, 0])}" if w.chance(4) else ""
    offset = f"\n  offset {w.pick([1, 0, 3])}" if w.chance(6) else ""
    return limit + offset
