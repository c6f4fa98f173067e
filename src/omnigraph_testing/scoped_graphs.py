"""Random rules about what an actor sees, and the graph that is left when they are carried out.

A query in a scope must answer like the same query on a graph from which everything out of scope
was removed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.catalog.model import Catalog, EdgeType, EntityType
from omnigraph.errors import EngineCannot, OmnigraphError, ResourceLimit, TypeCheckError
from omnigraph.ir.data_scope import visible_catalog
from omnigraph.query.compiler import compile_query
from omnigraph.syntax.source_text import write_literal
from omnigraph.values.scalars import EnumType, ScalarKind, ScalarType
from omnigraph_testing.executor_suite import Answer, plain, same_value
from omnigraph_testing.graph_data import GraphData, Tables
from omnigraph_testing.reference.executor import evaluate
from omnigraph_testing.scoped_gate import Rules, ScopedGate, data_scope
from omnigraph_testing.suite_executors import LocalGraphs

_PLAIN = {ScalarKind.STRING, ScalarKind.I32, ScalarKind.I64, ScalarKind.BOOL}


@dataclass(frozen=True)
class FilteredGraph:
    """The part of a graph that rules leave."""

    catalog: Catalog
    nodes: Tables
    edges: Tables

    def run(self, source: str, parameters: Mapping[str, Any]) -> Answer:
        """The answer of the reference evaluator."""
        compiled = compile_query(source, self.catalog)
        assert compiled.plan is not None
        bound = compiled.bind(parameters)
        return evaluate(compiled.plan, self.catalog, self.nodes, self.edges, bound)


def random_rules(graph: GraphData, chance: random.Random) -> Rules:
    """Most types stay and have rules about rows; some types and properties are hidden."""
    rules: dict[str, tuple[Sequence[str], str | None]] = {}
    hides = chance.random() < 0.4
    for entity in graph.catalog.entity_types():
        if hides and chance.random() < 0.15:
            continue
        hidden = [
            p.name
            for p in entity.properties
            if hides and p.name not in entity.key and chance.random() < 0.2
        ]
        rows = _predicate(entity, graph, chance) if chance.random() < 0.7 else None
        rules[entity.name] = (hidden, rows)
    return rules


def _predicate(entity: EntityType, graph: GraphData, chance: random.Random) -> str:
    parts = [_condition(entity, graph, chance) for _ in range(chance.choice((1, 1, 2)))]
    text = chance.choice((" and ", " or ")).join(f"({part})" for part in parts)
    return f"not ({text})" if chance.random() < 0.3 else text


def _condition(entity: EntityType, graph: GraphData, chance: random.Random) -> str:
    """A test of one property, with a value that occurs."""
    names = [
        p.name
        for p in entity.properties
        if isinstance(p.type, EnumType)
        or (isinstance(p.type, ScalarType) and p.type.kind in _PLAIN)
    ]
    names += ["from", "to"] if isinstance(entity, EdgeType) else []
    rows = list(graph.tables[entity.name].values())
    name = chance.choice([*names, "id"])
    if not rows or chance.random() < 0.2:
        return f"{name} is {chance.choice(('', 'not '))}null"
    value = chance.choice(rows)[{"from": "src", "to": "dst"}.get(name, name)]
    if value is None:
        return f"{name} is not null"
    operator = chance.choice(("=", "!=") if isinstance(value, bool) else ("=", "!=", "<=", ">"))
    return f"{name} {operator} {write_literal(value)}"


def filtered_graph(graph: GraphData, rules: Rules) -> FilteredGraph:
    """The graph without what the rules hide. The reference evaluator finds the rows."""
    catalog = visible_catalog(graph.catalog, data_scope(rules, graph.catalog))
    nodes: Tables = {}
    edges: Tables = {}
    for node in catalog.nodes:
        kept = _kept(graph, graph.catalog.resolve(node.name), rules)
        nodes[node.name] = _without(graph.tables[node.name], kept, rules[node.name][0])
    for edge in catalog.edges:
        kept = {
            name
            for name in _kept(graph, graph.catalog.resolve(edge.name), rules)
            if graph.tables[edge.name][name]["src"] in nodes[edge.source]
            and graph.tables[edge.name][name]["dst"] in nodes[edge.target]
        }
        edges[edge.name] = _without(graph.tables[edge.name], kept, rules[edge.name][0])
    return FilteredGraph(catalog, nodes, edges)


def _kept(graph: GraphData, entity: EntityType, rules: Rules) -> set[str]:
    """The ids that pass the rule about rows."""
    rows = rules[entity.name][1]
    if rows is None:
        return set(graph.tables[entity.name])
    names = {p.name for p in entity.properties} | {"id", "from", "to"}
    words = [f"$x.{word}" if word in names else word for word in _words(rows)]
    if isinstance(entity, EdgeType):
        verb = entity.name[0].lower() + entity.name[1:]
        pattern = f"$a: {entity.source} $a $x: {verb} $b"
    else:
        pattern = f"$x: {entity.name}"
    text = f"match {{ {pattern} ({''.join(words)}) }} return {{ $x.id as id }}"
    compiled = compile_query(text, graph.catalog)
    assert compiled.plan is not None
    _, found = evaluate(compiled.plan, graph.catalog, graph.nodes, graph.edges, {})
    return {row["id"] for row in found}


def _words(text: str) -> list[str]:
    """Names, and everything between them; a text in quotes is one word."""
    words: list[str] = []
    at = 0
    while at < len(text):
        end = at + 1
        if text[at] == '"':
            while text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            end += 1
        elif text[at].isalpha():
            while end < len(text) and (text[end].isalnum() or text[end] == "_"):
                end += 1
        words.append(text[at:end])
        at = end
    return words


def _without(
    rows: Mapping[str, dict[str, Any]], kept: set[str], hidden: Sequence[str]
) -> dict[str, dict[str, Any]]:
    return {
        name: {column: value for column, value in row.items() if column not in hidden}
        for name, row in rows.items()
        if name in kept
    }


def check_in_scope(
    graph: GraphData,
    rules: Rules,
    source: str,
    parameters: Mapping[str, Any],
    executor: LocalGraphs,
) -> None:
    """An executor in a scope answers, or refuses, like the reference on what the scope leaves."""
    left = filtered_graph(graph, rules)
    expected = _outcome(lambda: left.run(source, parameters))
    actual = _outcome(lambda: executor.run(graph, source, parameters, ScopedGate(rules)))
    refused = isinstance(actual, ResourceLimit) and actual.limit == "memory"
    if refused or isinstance(actual, EngineCannot):
        return
    shown = f"{source}\n{parameters}\n{rules}\nexpected {expected}\nactual   {actual}"
    if isinstance(expected, OmnigraphError) or isinstance(actual, OmnigraphError):
        assert type(expected) is type(actual), shown
        assert not isinstance(expected, TypeCheckError) or str(expected) == str(actual), shown
    else:
        assert same_value(expected, actual), shown


def _outcome(run: Callable[[], Answer]) -> list[Any] | OmnigraphError:
    """The answer as a table, or the error."""
    try:
        columns, rows = run()
    except OmnigraphError as error:
        return error
    return [list(columns), *([plain(row[name]) for name in columns] for row in rows)]
