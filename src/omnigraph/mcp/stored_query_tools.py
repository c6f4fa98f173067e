"""Stored queries as tools: one tool each, or two tools that list and run them when there are many.

A query with `@mcp(expose: false)`, and a query that the policy hides, is no tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from omnigraph.errors import NotFound
from omnigraph.mcp.arguments import OBJECT, TEXT, Json, ToolArgument
from omnigraph.mcp.changing_tools import mutation_answer
from omnigraph.mcp.reading_tools import MAX_ROWS, TIMEOUT, seconds
from omnigraph.mcp.tool_answers import ToolAnswer, cut_text, rows_answer
from omnigraph.mcp.tool_calls import BRANCH, KEY, MESSAGE, SNAPSHOT, AgentTool, ToolCall
from omnigraph.mutate.mutation import MutationReceipt
from omnigraph.policy.actions import INVOKE_QUERY
from omnigraph.stored_queries.entries import StoredParameter, StoredQuery
from omnigraph.values.known_names import did_you_mean

MOST_TOOLS = 24
"""With fewer stored queries each of them is a tool."""
STORED_QUERY_LIST, STORED_QUERY_RUN = "stored_query_list", "stored_query_run"

_MORE_ROWS = "Raise max_rows (at most 1000), or give parameters that select fewer rows."
_SCHEMAS: dict[str, Json] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "bigint": {"type": "string", "pattern": "^-?[0-9]+$"},
    "float": {"type": "number"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "blob": {"type": "string"},
}


def parameter_schema(parameter: StoredParameter) -> Json:
    """The JSON Schema of a parameter, by its kind."""
    told = parameter.to_dict()
    match told["kind"]:
        case "list":
            return {"type": "array", "items": _SCHEMAS[told["item_kind"]]}
        case "vector":
            width = told["vector_dim"]
            items = {"type": "number"}
            return {"type": "array", "items": items, "minItems": width, "maxItems": width}
        case kind:
            return dict(_SCHEMAS[kind])


def stored_query_tools(queries: Sequence[StoredQuery]) -> list[AgentTool]:
    """The tools of the queries that agents may see."""
    shown = [query for query in queries if query.mcp_expose]
    if not shown:
        return []
    if len(shown) < MOST_TOOLS:
        return [stored_query_tool(query) for query in shown]
    return [_LIST, _RUN]


def find_stored_tool(queries: Sequence[StoredQuery], name: str) -> AgentTool | None:
    """The tool of that name among those of the queries."""
    shown = [query for query in queries if query.mcp_expose]
    if len(shown) < MOST_TOOLS:
        found = next((query for query in shown if query.tool_name == name), None)
        return None if found is None else stored_query_tool(found)
    return {STORED_QUERY_LIST: _LIST, STORED_QUERY_RUN: _RUN}.get(name)


@lru_cache(maxsize=4096)
def stored_query_tool(query: StoredQuery) -> AgentTool:
    names = {parameter.name for parameter in query.params}
    own = [
        ToolArgument(
            parameter.name,
            parameter_schema(parameter),
            f"{parameter.type}{', may be left out' if parameter.nullable else ''}",
            required=not parameter.nullable,
            checked=False,
        )
        for parameter in query.params
    ]
    shared = _for_mutations if query.mutation else _for_reads
    # A parameter of the query keeps its name; the argument of the tool then begins with `_`.
    beside = [_renamed(each) if each.name in names else each for each in shared]
    return AgentTool(
        query.tool_name,
        _description(query),
        (*own, *beside),
        partial(_run_one, query),
        INVOKE_QUERY,
        writes=query.mutation,
        destroys=query.mutation,
    )


def _renamed(argument: ToolArgument) -> ToolArgument:
    return ToolArgument(
        f"_{argument.name}", argument.schema, argument.description, default=argument.default
    )


def _description(query: StoredQuery) -> str:
    kind = "Changes the graph." if query.mutation else ""
    told = [query.description or f"The stored query {query.name}.", query.instruction or "", kind]
    return " ".join(part for part in told if part)


def _run_one(query: StoredQuery, call: ToolCall) -> ToolAnswer:
    names = {parameter.name for parameter in query.params}
    params = {name: call.given[name] for name in names if call.given[name] is not None}
    shared = {
        name.removeprefix("_"): value for name, value in call.given.items() if name not in names
    }
    return _run(query.name, params, ToolCall(**{**_fields(call), "given": shared}))


def _fields(call: ToolCall) -> dict[str, Any]:
    return {name: getattr(call, name) for name in call.__dataclass_fields__}


def _run(name: str, params: Json, call: ToolCall) -> ToolAnswer:
    given = call.given
    found = call.graph.queries.run(
        name,
        params,
        call.branch,
        at=call.at,
        timeout=seconds(call),
        cancel=call.cancel,
        message=given.get("message"),
        idempotency_key=call.key,
    )
    if isinstance(found, MutationReceipt):
        return mutation_answer(found)
    return rows_answer(found, given.get("max_rows") or MAX_ROWS.default, _MORE_ROWS)


def stored_query_list(call: ToolCall) -> ToolAnswer:
    queries = [query for query in call.graph.queries.list() if query.mcp_expose]
    wanted = (call.given["about"] or "").casefold()
    shown = [query for query in queries if wanted in _searched(query)]
    body = {"queries": [query.to_dict() for query in shown]}
    lines = [f"{query.signature}  {_description(query)}" for query in shown]
    if not lines:
        lines = [f"none of {len(queries)} stored queries is about that: leave `about` out"]
    return ToolAnswer(body, cut_text("\n".join(lines)))


def stored_query_run(call: ToolCall) -> ToolAnswer:
    name = call.given["name"]
    queries = [query for query in call.graph.queries.list() if query.mcp_expose]
    found = next((query for query in queries if name in (query.name, query.tool_name)), None)
    if found is None:
        hint = did_you_mean(name, [query.name for query in queries]) or ""
        raise NotFound(f"there is no stored query '{name}'; {hint}", query=name)
    return _run(found.name, call.given["params"] or {}, call)


def _searched(query: StoredQuery) -> str:
    return f"{query.name} {query.tool_name} {_description(query)}".casefold()


_for_reads = (BRANCH, SNAPSHOT, MAX_ROWS, TIMEOUT)
_for_mutations = (BRANCH, MESSAGE, KEY)

_LIST = AgentTool(
    STORED_QUERY_LIST,
    "The stored queries of this graph: reviewed queries with a name, parameters and a description. "
    "Prefer them to queries of your own.",
    (ToolArgument("about", TEXT, "Only those whose name or description has this text."),),
    stored_query_list,
    INVOKE_QUERY,
)
_RUN = AgentTool(
    STORED_QUERY_RUN,
    "Run a stored query by its name; stored_query_list has the names and parameters.",
    (
        ToolArgument("name", TEXT, "The query.", required=True),
        ToolArgument("params", OBJECT, "Values of its parameters by name."),
        BRANCH,
        SNAPSHOT,
        MAX_ROWS,
        TIMEOUT,
        MESSAGE,
        KEY,
    ),
    stored_query_run,
    INVOKE_QUERY,
    writes=True,
    destroys=True,
)
