"""Tools that read a graph: queries, the schema, states, branches and history."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from omnigraph.diff.change import Change, ChangePage
from omnigraph.errors import InvalidArgument
from omnigraph.mcp.arguments import OBJECT, TEXT, TEXTS, Json, ToolArgument, count
from omnigraph.mcp.schema_texts import around, overview, types_text
from omnigraph.mcp.tool_answers import (
    MOST_ROWS,
    ROWS,
    ToolAnswer,
    cut_text,
    fitting,
    rows_answer,
    table_text,
)
from omnigraph.mcp.tool_calls import BRANCH, SNAPSHOT, AgentTool, ToolCall
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.cell_text import cell_text
from omnigraph.wire.records import record_to_json

QUERY_TEXT = ToolArgument(
    "query",
    TEXT,
    "The text in the query language, for example: query q($name: String) { match { $p: Person {"
    " name: $name } } return { $p.name as name } }.",
    required=True,
)
QUERY_NAME = ToolArgument("name", TEXT, "Which query, if the text declares several.")
PARAMS = ToolArgument("params", OBJECT, "Values of the parameters by name, without the $.")
MAX_ROWS = ToolArgument("max_rows", count(MOST_ROWS), "Rows of the answer.", default=ROWS)
TIMEOUT = ToolArgument("timeout_ms", count(600_000), "Stop a slow query after this time.")
PAGE = ToolArgument(
    "page_token", TEXT, "`next_page_token` of the answer before, for the next page."
)
_MORE_ROWS = (
    "For the rest put `offset {shown}` with an `order` into the query, narrow the match, or raise "
    f"max_rows (at most {MOST_ROWS})."
)
_CHANGES = 50
_VERSION = "0.0.0"


def query_source(text: str) -> SourceText:
    """The text itself: a model must not make a server read a file of that name."""
    return SourceText(text, "<query>")


def seconds(call: ToolCall) -> float | None:
    """How long a read may take: the limit of the server, or less if asked for."""
    asked: int | None = call.given.get("timeout_ms")
    if asked is None:
        return call.timeout
    return asked / 1000 if call.timeout is None else min(asked / 1000, call.timeout)


def graph_health(call: ToolCall) -> ToolAnswer:
    try:
        installed = version("omnigraph")
    except PackageNotFoundError:
        installed = _VERSION
    head = call.graph.snapshot(call.branch)
    body = {
        "status": "ok",
        "version": installed,
        "internal_schema_version": head.internal_schema_version,
        "branch": call.branch,
        "graph_commit_id": head.graph_commit_id,
    }
    text = f"ok: omnigraph {installed}, branch {call.branch} at {head.graph_commit_id}"
    return ToolAnswer(body, text)


def graph_query(call: ToolCall) -> ToolAnswer:
    given = call.given
    result = call.graph.query(
        query_source(given["query"]),
        given["name"],
        given["params"],
        call.branch,
        at=call.at,
        timeout=seconds(call),
        cancel=call.cancel,
    )
    return rows_answer(result, given["max_rows"], _MORE_ROWS)


def graph_snapshot(call: ToolCall) -> ToolAnswer:
    body = call.graph.snapshot(call.branch, at=call.at).to_dict()
    columns = ("entity_kind", "type_name", "entity_count")
    head = f"{body['graph_branch']} at {body.get('graph_commit_id', '')}"
    return ToolAnswer(body, f"{head}\n{table_text(columns, body['datasets'])}")


def schema_get(call: ToolCall) -> ToolAnswer:
    snapshot = call.graph.snapshot(call.branch, at=call.at)
    wanted = call.given["type"]
    if wanted is not None:
        text = types_text(around(snapshot.catalog, wanted))
        return ToolAnswer({"type": wanted, "schema_source": text}, cut_text(text))
    found = call.graph.schema.show(call.branch, at=call.at)
    body = {"schema_source": found.source, **overview(snapshot.catalog)}
    return ToolAnswer(
        body, cut_text(found.source or types_text([*snapshot.catalog.entity_types()]))
    )


def branch_list(call: ToolCall) -> ToolAnswer:
    found = [branch.to_dict() for branch in call.graph.branches.list()]
    body = {"branches": sorted(branch["name"] for branch in found), "details": found}
    columns = ("name", "head_commit_id", "forked_from")
    return ToolAnswer(body, table_text(columns, found))


def commit_list(call: ToolCall) -> ToolAnswer:
    limit = call.given["limit"]
    found = call.graph.commits.list(
        call.branch, limit + 1, first_parent=False, after=call.given["after"]
    )
    page = found[:limit]
    body: Json = {"commits": [record_to_json(commit) for commit in page]}
    columns = ("graph_commit_id", "operation", "actor_id", "message", "graph_branch")
    lines = [table_text(columns, body["commits"])]
    if len(found) > len(page):
        body["next"] = page[-1].graph_commit_id
        lines.append(f"There is more: call again with after={body['next']}.")
    return ToolAnswer(body, "\n".join(lines))


def commit_get(call: ToolCall) -> ToolAnswer:
    commit = call.graph.commits.show(call.given["commit_id"], call.branch)
    body = record_to_json(commit)
    told = [f"{name}: {cell_text(value)}" for name, value in commit.to_dict().items()]
    return ToolAnswer(body, "\n".join(told))


def commit_changes(call: ToolCall) -> ToolAnswer:
    given = call.given
    page = call.graph.commits.changes(
        given["commit_id"],
        given["types"],
        branch=call.branch,
        limit=given["limit"],
        cursor=given["page_token"],
    )
    return changes_answer(page)


def graph_diff(call: ToolCall) -> ToolAnswer:
    given = call.given
    states: dict[str, Any] = {"a": given["from"], "b": given["to"]}
    if given["from"] is None and given["to"] is None:
        states = {"base": given["base"], "branch": call.branch}
    elif given["from"] is None or given["to"] is None:
        raise InvalidArgument("give both `from` and `to`, or a `branch` and its `base`")
    page = call.graph.diff(
        **states, types=given["types"], limit=given["limit"], cursor=given["page_token"]
    )
    return changes_answer(page)


def changes_answer(page: ChangePage) -> ToolAnswer:
    """The answer of `/diff`: images in the JSON, one line for each change in the text."""
    body = record_to_json(page)
    kept = fitting(body["changes"], len(body["changes"]), len(body["changes"]))
    lines = [change_line(change) for change in page[: len(kept.rows)]]
    if kept.is_cut:
        body["changes"] = kept.rows
        told = f"{len(kept.rows)} of {len(page)} changes of this page: ask with a smaller limit."
        body["truncated"] = {"shown": len(kept.rows), "next": told}
        lines.append(told)
    following = body.get("next_page_token")
    if following:
        lines.append("There is more: call again with page_token from the JSON.")
    return ToolAnswer(body, cut_text("\n".join(lines) or "no changes"))


def change_line(change: Change) -> str:
    """`~ Person Cy  age: 7 -> 8`."""
    mark = {"insert": "+", "update": "~", "delete": "-"}.get(str(change.op), "?")
    before, after = change.before or {}, change.after or {}
    names = change.changed_properties or tuple(after or before)
    cells = []
    for name in names:
        new, old = _short(after.get(name)), _short(before.get(name))
        cells.append(f"{name}: {old} -> {new}" if change.op == "update" else f"{name}: {new}")
    told = ", ".join(cells) if mark != "-" else ""
    return f"{mark} {change.type.name} {change.id}  {told}".rstrip()


def _short(value: Any) -> str:
    if isinstance(value, list) and len(value) > 8:
        return f"[{len(value)} values]"
    text = cell_text(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


_LIMIT = ToolArgument("limit", count(1000), "How many at most.", default=_CHANGES)
_TYPES = ToolArgument("types", TEXTS, "Only these types.")
_COMMIT = ToolArgument(
    "commit_id", TEXT, "A commit id or its beginning, a tag, a branch, or HEAD~1.", required=True
)

READING_TOOLS = (
    AgentTool(
        "graph_health",
        "Whether the graph answers, its version, and the head of the branch.",
        (BRANCH,),
        graph_health,
    ),
    AgentTool(
        "graph_query",
        "Run a read query in the graph query language. Read the schema first (schema_get). "
        "Pass values as `params`, never inside the text. Reads the head of a branch, or a past "
        "state with `snapshot`.",
        (QUERY_TEXT, QUERY_NAME, PARAMS, BRANCH, SNAPSHOT, MAX_ROWS, TIMEOUT),
        graph_query,
    ),
    AgentTool(
        "graph_snapshot",
        "The types of one state with the number of their entities.",
        (BRANCH, SNAPSHOT),
        graph_snapshot,
    ),
    AgentTool(
        "schema_get",
        "The schema: node types, edge types, their properties and rules. `type` shows one type and "
        "what is connected with it.",
        (ToolArgument("type", TEXT, "Only this type and what touches it."), BRANCH, SNAPSHOT),
        schema_get,
    ),
    AgentTool("branch_list", "The branches and their heads.", (), branch_list),
    AgentTool(
        "commit_list",
        "The history of a branch, newest first: who changed what and why.",
        (BRANCH, _LIMIT, ToolArgument("after", TEXT, "`next` of the answer before.")),
        commit_list,
    ),
    AgentTool("commit_get", "One commit.", (_COMMIT, BRANCH), commit_get),
    AgentTool(
        "commit_changes",
        "What one commit changed: every entity before and after it.",
        (_COMMIT, BRANCH, _TYPES, _LIMIT, PAGE),
        commit_changes,
    ),
    AgentTool(
        "graph_diff",
        "What a branch changed since it left `base`, or what turns the state `from` into the state "
        "`to`.",
        (
            BRANCH,
            ToolArgument("base", TEXT, "The branch that it is compared with.", default="main"),
            ToolArgument("from", TEXT, "A state: branch, commit, tag or time. Needs `to`."),
            ToolArgument("to", TEXT, "The other state."),
            _TYPES,
            _LIMIT,
            PAGE,
        ),
        graph_diff,
    ),
)
