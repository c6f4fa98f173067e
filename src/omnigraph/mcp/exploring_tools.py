"""Tools that look around without a query: examples of a type, search, and a neighbourhood."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from omnigraph.catalog.index_plan import wanted_indexes
from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.errors import EmbeddingFailed, InvalidArgument, NotFound
from omnigraph.execute.query_types import QueryResult
from omnigraph.mcp.arguments import TEXT, TEXTS, Json, ToolArgument, choice, count
from omnigraph.mcp.schema_texts import edge_word, edges_of, meaning_property, text_properties
from omnigraph.mcp.tool_answers import ToolAnswer, cut_text, fitting, table_text
from omnigraph.mcp.tool_calls import BRANCH, SNAPSHOT, AgentTool, ToolCall
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.cell_text import cell_text
from omnigraph.values.indexes import IndexKind
from omnigraph.values.json_values import json_value
from omnigraph.values.plurals import counted

_MOST_SEARCHES = 24
"""Properties that one search looks into; those with an index come first."""
_SHOWN_CELLS = 6

BOTH, WORDS, MEANING = "both", "words", "meaning"


def _run(call: ToolCall, text: str, params: Json | None = None) -> QueryResult:
    source = SourceText(text, "<tool>")
    return call.graph.query(
        source,
        None,
        params,
        call.branch,
        at=call.at,
        timeout=call.timeout,
        cancel=call.cancel,
    )


def type_sample(call: ToolCall) -> ToolAnswer:
    name, limit = call.given["type"], call.given["limit"]
    catalog = call.graph.snapshot(call.branch, at=call.at).catalog
    entity = catalog.resolve(name)
    if isinstance(entity, EdgeType):
        pattern, shown = f"$a: {entity.source}  $a $x:{edge_word(entity)} $b", "$x"
    else:
        pattern, shown = f"$x: {name}", "$x"
    result = _run(call, f"match {{ {pattern} }} return {{ {shown} as entity }} limit {limit}")
    total = _run(call, f"match {{ {pattern} }} return {{ count({shown}) as entities }}")[0]
    found = fitting([row["entity"] for row in result], limit, len(result))
    body = {"type": name, "entity_count": total["entities"], "entities": found.rows}
    columns = list(found.rows[0]) if found.rows else ["id"]
    lines = [table_text(columns, found.rows)]
    if total["entities"] > len(found.rows):
        lines.append(
            f"{len(found.rows)} of {total['entities']:,}. For others use graph_find, or "
            f"graph_query with `match {{ $x: {name} … }}`."
        )
    return ToolAnswer(body, "\n".join(lines))


@dataclass(slots=True)
class _Found:
    """Entities in the order in which they were found, each once."""

    matches: dict[tuple[str, str], Json] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, node: NodeType, how: str, score: float | None, entity: Json) -> None:
        found = {"type": node.name, "id": entity["id"], "how": how, "score": score}
        self.matches.setdefault((node.name, entity["id"]), {**found, "entity": entity})


def graph_find(call: ToolCall) -> ToolAnswer:
    text, limit, how = call.given["text"], call.given["limit"], call.given["how"]
    if not text.strip():
        raise InvalidArgument("`text` is empty: give words or an id to look for", option="text")
    catalog = call.graph.snapshot(call.branch, at=call.at).catalog
    nodes = _chosen(catalog, call.given["types"])
    found = _Found()
    if how != MEANING:
        _by_id(call, nodes, text, found)
        _by_words(call, nodes, text, limit, found)
    if how != WORDS:
        _by_meaning(call, nodes, text, limit, found)
    matches = list(found.matches.values())[:limit]
    kept = fitting(matches, limit, len(matches))
    body = {"text": text, "matches": kept.rows, "notes": found.notes}
    lines = [f"{m['type']} {m['id']} ({m['how']})  {_cells(m['entity'])}" for m in kept.rows]
    if not lines:
        lines = ["nothing found: try other words, or how=meaning; type_sample shows examples"]
    if len(found.matches) > len(kept.rows):
        lines.append("There is more: raise limit, or name `types`.")
    return ToolAnswer(body, cut_text("\n".join([*lines, *found.notes])))


def _chosen(catalog: Catalog, names: list[str] | None) -> list[NodeType]:
    if names is None:
        return list(catalog.nodes)
    found = [catalog.resolve(name) for name in names]
    edges = [entity.name for entity in found if isinstance(entity, EdgeType)]
    if edges:
        raise InvalidArgument(f"{edges[0]} is an edge type: graph_find looks for nodes")
    return [entity for entity in found if isinstance(entity, NodeType)]


def _by_id(call: ToolCall, nodes: list[NodeType], text: str, found: _Found) -> None:
    for node in nodes:
        query = (
            f"query q($id: String) {{ match {{ $x: {node.name}  $x.id = $id }} return {{ $x }} }}"
        )
        for row in _run(call, query, {"id": text.strip()}):
            found.add(node, "id", None, _plain(row["x"]))


def _by_words(call: ToolCall, nodes: list[NodeType], text: str, limit: int, found: _Found) -> None:
    places = [(node, name) for node in nodes for name in text_properties(node)]
    places.sort(key=lambda place: not _is_indexed(*place))
    hits = []
    for node, name in places[:_MOST_SEARCHES]:
        query = (
            f"query q($q: String) {{ match {{ $x: {node.name}  search($x.{name}, $q) }} "
            f"return {{ $x as entity, bm25($x.{name}, $q) as score }} "
            f"order {{ score desc }} limit {limit} }}"
        )
        hits += [
            (row["score"], node, _plain(row["entity"])) for row in _run(call, query, {"q": text})
        ]
    for score, node, entity in sorted(hits, key=lambda hit: -hit[0]):
        found.add(node, WORDS, round(score, 4), entity)
    if len(places) > _MOST_SEARCHES:
        missed = counted(len(places) - _MOST_SEARCHES, "property")
        found.notes.append(f"{missed} not searched: name `types`")


def _is_indexed(node: NodeType, name: str) -> bool:
    return any(s.column == name and s.kind is IndexKind.FULL_TEXT for s in wanted_indexes(node))


def _by_meaning(
    call: ToolCall, nodes: list[NodeType], text: str, limit: int, found: _Found
) -> None:
    for node in nodes:
        vector = meaning_property(node)
        if vector is None:
            continue
        query = (
            f"query q($q: String) {{ match {{ $x: {node.name} }} return {{ $x as entity }} "
            f"order {{ nearest($x.{vector[0]}, $q) }} limit {limit} }}"
        )
        try:
            result = _run(call, query, {"q": text})
        except EmbeddingFailed as error:
            found.notes.append(f"{node.name} was not searched by meaning: {error.message}")
            continue
        for row in result:
            found.add(node, MEANING, None, _plain(row["entity"]))


@dataclass(slots=True)
class _Surroundings:
    """Nodes and edges around a node, layer by layer."""

    room: int
    nodes: dict[tuple[str, str], Json] = field(default_factory=dict)
    edges: dict[tuple[str, str], Json] = field(default_factory=dict)
    is_cut: bool = False

    def add(self, node_type: str, entity: Json, depth: int) -> bool:
        """Whether the node is new and fits."""
        key = (node_type, entity["id"])
        if key in self.nodes:
            return False
        if len(self.nodes) > self.room:
            self.is_cut = True
            return False
        self.nodes[key] = {"type": node_type, "id": key[1], "depth": depth, "entity": entity}
        return True


def graph_neighbours(call: ToolCall) -> ToolAnswer:
    given = call.given
    catalog = call.graph.snapshot(call.branch, at=call.at).catalog
    node = catalog.resolve(given["type"])
    if isinstance(node, EdgeType):
        raise InvalidArgument(f"{node.name} is an edge type: name a node and its type")
    around = _Surroundings(given["limit"])
    center = _entity(call, node, given["id"])
    around.add(node.name, center, 0)
    frontier = {node.name: [given["id"]]}
    for depth in range(1, given["depth"] + 1):
        frontier = _layer(call, catalog, frontier, given["edges"], around, depth)
    body: Json = {
        "center": {"type": node.name, "id": given["id"], "entity": center},
        "nodes": [found for found in around.nodes.values() if found["depth"]],
        "edges": list(around.edges.values()),
    }
    lines = [f"{node.name} {given['id']}  {_cells(center)}"]
    lines += [
        f"{e['from_type']} {e['from']} -{e['type']}-> {e['to_type']} {e['to']}"
        for e in body["edges"]
    ]
    lines += [f"{n['type']} {n['id']}  {_cells(n['entity'])}" for n in body["nodes"]]
    if around.is_cut:
        told = "There is more: raise limit, name `edges`, or go on from one of these nodes."
        body["truncated"] = {"shown": len(body["nodes"]), "next": told}
        lines.append(told)
    return ToolAnswer(body, cut_text("\n".join(lines)))


def _entity(call: ToolCall, node: NodeType, entity_id: str) -> Json:
    query = f"query q($id: String) {{ match {{ $x: {node.name}  $x.id = $id }} return {{ $x }} }}"
    rows = _run(call, query, {"id": entity_id})
    if not len(rows):
        raise NotFound(
            f"there is no {node.name} with the id {entity_id!r} on {call.branch}: look for it with "
            "graph_find",
            type=node.name,
            id=entity_id,
        )
    return _plain(rows[0]["x"])


def _layer(
    call: ToolCall,
    catalog: Catalog,
    frontier: dict[str, list[str]],
    edges: list[str] | None,
    around: _Surroundings,
    depth: int,
) -> dict[str, list[str]]:
    """Everything one step away from the frontier; the new nodes by type."""
    found: dict[str, list[str]] = {}
    for type_name, ids in frontier.items():
        for edge, pattern, other in _steps(catalog, catalog.node_types[type_name], edges):
            query = (
                f"query q($ids: [String]) {{ match {{ $a: {type_name}  $a.id in $ids  {pattern} }} "
                f"return {{ $b as node, $w as edge }} limit {around.room + 1} }}"
            )
            for row in _run(call, query, {"ids": ids}):
                entity, step = _plain(row["node"]), _plain(row["edge"])
                is_new = around.add(other, entity, depth)
                if is_new:
                    found.setdefault(other, []).append(entity["id"])
                if is_new or (other, entity["id"]) in around.nodes:
                    ends = {"from_type": edge.source, "to_type": edge.target}
                    around.edges.setdefault(
                        (edge.name, step["id"]), {"type": edge.name, **ends, **step}
                    )
    return found


def _steps(
    catalog: Catalog, node: NodeType, wanted: list[str] | None
) -> Iterator[tuple[EdgeType, str, str]]:
    """The edge types at a node type: how a pattern follows them from `$a`, and where to."""
    for name in wanted or ():
        if not isinstance(catalog.resolve(name), EdgeType):
            raise InvalidArgument(f"{name} is a node type: `edges` names edge types")
    for edge in edges_of(catalog, node):
        if wanted is not None and edge.name not in wanted:
            continue
        if edge.source == node.name:
            yield edge, f"$a $w:{edge_word(edge)} $b", edge.target
        if edge.target == node.name:
            yield edge, f"$b $w:{edge_word(edge)} $a", edge.source


def _plain(entity: Any) -> Json:
    found: Json = json_value(entity)
    return found


def _cells(entity: Json) -> str:
    told = [(n, v) for n, v in entity.items() if n not in ("id", "from", "to") and v is not None]
    shown = ", ".join(f"{name}: {cell_text(value)[:80]}" for name, value in told[:_SHOWN_CELLS])
    return f"{shown}, …" if len(told) > _SHOWN_CELLS else shown


EXPLORING_TOOLS = (
    AgentTool(
        "type_sample",
        "Some entities of a type, with their ids and properties, and how many there are.",
        (
            ToolArgument("type", TEXT, "A node type or an edge type.", required=True),
            ToolArgument("limit", count(100), "How many.", default=5),
            BRANCH,
            SNAPSHOT,
        ),
        type_sample,
    ),
    AgentTool(
        "graph_find",
        "Find nodes by an id, by words in their texts, or by meaning where the schema embeds a "
        "text. The ids of the answer can be used in every other tool.",
        (
            ToolArgument("text", TEXT, "Words, a question, or an id.", required=True),
            ToolArgument("types", TEXTS, "Only these node types."),
            ToolArgument("how", choice(BOTH, WORDS, MEANING), "What to compare.", default=BOTH),
            ToolArgument("limit", count(100), "How many.", default=10),
            BRANCH,
            SNAPSHOT,
        ),
        graph_find,
    ),
    AgentTool(
        "graph_neighbours",
        "The nodes and edges around one node, up to three steps away.",
        (
            ToolArgument("type", TEXT, "The type of the node.", required=True),
            ToolArgument("id", TEXT, "The id of the node.", required=True),
            ToolArgument("depth", count(3), "Steps.", default=1),
            ToolArgument("edges", TEXTS, "Follow only these edge types."),
            ToolArgument("limit", count(200), "Nodes of the answer.", default=30),
            BRANCH,
            SNAPSHOT,
        ),
        graph_neighbours,
    ),
)
