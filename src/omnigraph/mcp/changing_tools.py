"""Tools that change a graph: mutations, loads, branches, merges, and a branch for each task."""

from __future__ import annotations

import hashlib
import io
import re
import secrets
from itertools import takewhile

from omnigraph.manifest.records import Commit
from omnigraph.mcp.arguments import FLAG, OBJECTS, TEXT, Json, ToolArgument, choice, count
from omnigraph.mcp.reading_tools import (
    PARAMS,
    QUERY_NAME,
    QUERY_TEXT,
    change_line,
    changes_answer,
    query_source,
)
from omnigraph.mcp.tool_answers import ToolAnswer, cut_text
from omnigraph.mcp.tool_calls import BRANCH, KEY, MESSAGE, AgentTool, ToolCall
from omnigraph.merge.conflicts import MergePreview, MergeResult
from omnigraph.mutate.mutation import MutationReceipt
from omnigraph.policy.actions import BRANCH_CREATE, BRANCH_DELETE, BRANCH_MERGE, CHANGE
from omnigraph.values.plurals import counted
from omnigraph.wire.records import record_to_json

_TASK_COMMITS = 200
_SHOWN = 30
_SLUG = 40


def graph_mutate(call: ToolCall) -> ToolAnswer:
    given = call.given
    receipt = call.graph.mutate(
        query_source(given["query"]),
        given["name"],
        given["params"],
        call.branch,
        message=given["message"],
        if_commit=given["if_graph_commit"],
        idempotency_key=call.key,
    )
    return mutation_answer(receipt)


def mutation_answer(receipt: MutationReceipt) -> ToolAnswer:
    """The answer of `/mutate`."""
    nodes, edges = counted(receipt.affected_nodes, "node"), counted(receipt.affected_edges, "edge")
    made = "nothing changed"
    if receipt.commit is not None:
        again = "already done by" if receipt.repeated else "commit"
        made = f"{again} {receipt.commit.graph_commit_id} on {receipt.branch}"
    return ToolAnswer(record_to_json(receipt), f"{nodes}, {edges} affected, {made}")


def graph_load(call: ToolCall) -> ToolAnswer:
    given = call.given
    receipt = call.graph.load(
        io.BytesIO(given["data"].encode()),
        given["mode"],
        call.branch,
        from_branch=given["from"],
        engine="local",
        message=given["message"],
        idempotency_key=call.key,
        dry_run=given["dry_run"],
        progress=False,
    )
    body = {**record_to_json(receipt), "actor_id": call.graph.actor}
    total = counted(receipt.total_entities, "entity")
    commit = receipt.commit.graph_commit_id if receipt.commit else "none: nothing was written"
    return ToolAnswer(body, f"{total} loaded into {receipt.branch}, commit {commit}")


def branch_create(call: ToolCall) -> ToolAnswer:
    given = call.given
    made = call.graph.branches.create(given["name"], given["from"], idempotency_key=call.key)
    body = {
        "uri": call.graph_id,
        "from": given["from"],
        "name": made.name,
        "actor_id": call.graph.actor,
        "branch": made.to_dict(),
    }
    return ToolAnswer(body, f"branch {made.name} from {given['from']} at {made.head_commit_id}")


def branch_delete(call: ToolCall) -> ToolAnswer:
    name = call.given["name"]
    call.graph.branches.delete(name, idempotency_key=call.key)
    body = {"uri": call.graph_id, "name": name, "actor_id": call.graph.actor}
    return ToolAnswer(body, f"branch {name} is deleted")


def branch_merge(call: ToolCall) -> ToolAnswer:
    given = call.given
    if given["preview"]:
        return merge_preview(call)
    found = call.graph.merge(
        given["source"],
        given["target"],
        given["strategy"],
        given["resolutions"],
        delete_branch=given["delete_branch"],
        message=given["message"],
        idempotency_key=call.key,
    )
    assert isinstance(found, MergeResult)
    return ToolAnswer({**record_to_json(found), "actor_id": call.graph.actor}, _merged(found))


def merge_preview(call: ToolCall) -> ToolAnswer:
    given = call.given
    found = call.graph.preview_merge(
        given["source"], given["target"], given["strategy"], given["resolutions"]
    )
    return ToolAnswer(record_to_json(found), cut_text("\n".join(_previewed(found))))


def _merged(found: MergeResult) -> str:
    commit = f", commit {found.commit.graph_commit_id}" if found.commit else ""
    kept = f"; the branch stays: {found.branch_delete_error}" if found.branch_delete_error else ""
    return f"{found.source} into {found.target}: {found.outcome}{commit}{kept}"


def _previewed(found: MergePreview) -> list[str]:
    changes = [change_line(change) for change in found.changes[:_SHOWN]]
    more = len(found.changes) - len(changes)
    changes += [f"… and {more} more"] if more > 0 or found.more_changes else []
    conflicts = [
        f"! {c.type_name} {c.entity_id} {c.property or ''}: was {c.base!r}, {found.target} has "
        f"{c.ours!r}, {found.source} has {c.theirs!r}"
        for c in found.conflicts[:_SHOWN]
    ]
    count = counted(found.conflict_count, "conflict")
    return [f"{found.source} into {found.target}: {found.outcome}, {count}", *conflicts, *changes]


# Tasks


def begin_task(call: ToolCall) -> ToolAnswer:
    given = call.given
    name = task_branch(given["title"], call.key)
    made = call.graph.branches.create(name, given["from"], idempotency_key=call.key)
    told = (
        f"pass branch={name} to every tool of this task; when it is done, call finish_task with it"
    )
    body: Json = {
        "branch": name,
        "from": given["from"],
        "title": given["title"],
        "head_commit_id": made.head_commit_id,
        "next": [told],
    }
    return ToolAnswer(body, f"branch {name} from {given['from']}.\nNext: {told}")


def task_branch(title: str, key: str | None) -> str:
    """`task/book-a-trip-1f3a9c`. The same key gives the same name."""
    words = re.sub(r"[^a-z0-9]+", "-", title.casefold()).strip("-")[:_SLUG].strip("-") or "task"
    end = secrets.token_hex(3) if key is None else hashlib.sha256(key.encode()).hexdigest()[:6]
    return f"task/{words}-{end}"


def finish_task(call: ToolCall) -> ToolAnswer:
    """What the task did and what a merge would do; with `merge` the merge itself."""
    given, graph = call.given, call.graph
    branch, target = given["branch"], given["target"]
    commits = _own_commits(call, branch)
    changes = graph.diff(base=target, branch=branch, limit=given["limit"])
    preview = graph.preview_merge(branch, target, given["strategy"], None)
    body: Json = {
        "branch": branch,
        "target": target,
        "commits": [record_to_json(commit) for commit in commits],
        "changes": changes_answer(changes).body,
        "preview": record_to_json(preview),
        "merge": None,
    }
    lines = [f"{counted(len(commits), 'commit')} on {branch}"]
    lines += [
        f"- {c.graph_commit_id} {c.actor_id or ''} {c.message or c.operation}" for c in commits
    ]
    lines += _previewed(preview)
    if given["merge"] and not preview.conflict_count:
        merged = graph.merge(
            branch,
            target,
            given["strategy"],
            delete_branch=given["delete_branch"],
            message=given["message"],
            idempotency_key=call.key,
        )
        assert isinstance(merged, MergeResult)
        body["merge"] = {**record_to_json(merged), "actor_id": graph.actor}
        body["next"] = []
        return ToolAnswer(body, cut_text("\n".join([*lines, _merged(merged)])))
    body["next"] = [_after_preview(branch, target, preview.conflict_count)]
    return ToolAnswer(body, cut_text("\n".join([*lines, f"Next: {body['next'][0]}"])))


def _after_preview(branch: str, target: str, conflicts: int) -> str:
    if conflicts:
        return (
            f"decide the conflicts: branch_merge with source={branch}, target={target} and "
            "`strategy` or `resolutions`"
        )
    return (
        f"if you may merge into {target}: branch_merge with source={branch}, or finish_task with "
        "merge=true; else leave the branch for a reviewer"
    )


def _own_commits(call: ToolCall, branch: str) -> list[Commit]:
    """The commits that were made on the branch, newest first."""
    found = call.graph.commits.list(branch, _TASK_COMMITS, first_parent=True)
    return list(takewhile(lambda commit: commit.graph_branch == branch, found))


_STRATEGY = ToolArgument(
    "strategy",
    choice("fail", "ours", "theirs"),
    "Who wins a conflict: the target (ours) or the source (theirs).",
    default="fail",
)
_SOURCE = ToolArgument("source", TEXT, "The branch that is merged.", required=True)
_TARGET = ToolArgument("target", TEXT, "The branch that gets the changes.", default="main")
_DELETE = ToolArgument("delete_branch", FLAG, "Delete the source afterwards.", default=False)
_RESOLUTIONS = ToolArgument(
    "resolutions",
    OBJECTS,
    "Decisions about single conflicts: {type_name, entity_id, property, take: base|ours|theirs} or "
    "{…, value}.",
)
_FROM = ToolArgument("from", TEXT, "The branch to start from.", default="main")

CHANGING_TOOLS = (
    AgentTool(
        "graph_mutate",
        "Insert, update or delete with the query language: all statements in one commit, or "
        "nothing. Work on a branch of your task (begin_task), and pass values as `params`.",
        (
            QUERY_TEXT,
            QUERY_NAME,
            PARAMS,
            BRANCH,
            MESSAGE,
            ToolArgument(
                "if_graph_commit",
                TEXT,
                "The `graph_commit_id` that you read. If the branch has moved, nothing is changed.",
            ),
            KEY,
        ),
        graph_mutate,
        CHANGE,
        writes=True,
        destroys=True,
    ),
    AgentTool(
        "graph_load",
        'Load many entities as one commit. Lines of JSON: {"type": "Person", "data": {…}} for '
        'nodes and {"edge": "Knows", "from": id, "to": id, "data": {…}} for edges.',
        (
            ToolArgument("data", TEXT, "The lines.", required=True),
            BRANCH,
            ToolArgument("from", TEXT, "If the branch does not exist, fork it from this one."),
            ToolArgument(
                "mode",
                choice("merge", "append", "patch", "overwrite"),
                "merge replaces whole entities, append refuses ids that exist, patch keeps "
                "properties that a line leaves out, overwrite replaces whole types.",
                default="merge",
            ),
            ToolArgument("dry_run", FLAG, "Only check and count.", default=False),
            MESSAGE,
            KEY,
        ),
        graph_load,
        CHANGE,
        writes=True,
        destroys=True,
    ),
    AgentTool(
        "branch_create",
        "Start a branch at the head of another one. Nothing is copied.",
        (ToolArgument("name", TEXT, "The new branch.", required=True), _FROM, KEY),
        branch_create,
        BRANCH_CREATE,
        writes=True,
    ),
    AgentTool(
        "branch_delete",
        "Delete a branch. What was not merged is lost.",
        (ToolArgument("name", TEXT, "The branch.", required=True), KEY),
        branch_delete,
        BRANCH_DELETE,
        writes=True,
        destroys=True,
    ),
    AgentTool(
        "merge_preview",
        "What a merge would change, and its conflicts. Nothing is written.",
        (_SOURCE, _TARGET, _STRATEGY, _RESOLUTIONS),
        merge_preview,
    ),
    AgentTool(
        "branch_merge",
        "Bring the changes of a branch into another one, property by property, as one commit. "
        "Conflicts that nothing decides stop it, and nothing is changed.",
        (
            _SOURCE,
            _TARGET,
            _STRATEGY,
            _RESOLUTIONS,
            _DELETE,
            ToolArgument("preview", FLAG, "Only show what it would do.", default=False),
            MESSAGE,
            KEY,
        ),
        branch_merge,
        BRANCH_MERGE,
        writes=True,
        destroys=True,
    ),
    AgentTool(
        "begin_task",
        "Start a task on a branch of its own, so that unfinished work stays apart. The answer "
        "names the branch.",
        (
            ToolArgument("title", TEXT, "What the task is about, in a few words.", required=True),
            _FROM,
            KEY,
        ),
        begin_task,
        BRANCH_CREATE,
        writes=True,
    ),
    AgentTool(
        "finish_task",
        "Sum a task up: its commits, its changes, and the preview of a merge. With `merge` it is "
        "merged, if there are no conflicts and you may do it.",
        (
            ToolArgument("branch", TEXT, "The branch of the task.", required=True),
            _TARGET,
            ToolArgument("merge", FLAG, "Merge it now.", default=False),
            _STRATEGY,
            _DELETE,
            ToolArgument("limit", count(500), "Changes of the answer.", default=50),
            MESSAGE,
            KEY,
        ),
        finish_task,
        writes=True,
    ),
)
