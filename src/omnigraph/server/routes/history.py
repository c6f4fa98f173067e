"""`/commits`, `/diff`, `/snapshot`, revert and cherry-pick."""

from __future__ import annotations

from typing import Any

from omnigraph.policy import actions
from omnigraph.server import answers as tell
from omnigraph.server.calls import Call, noted
from omnigraph.server.replies import Refusal, Reply
from omnigraph.server.request_bodies import (
    CherryPickRequest,
    CommitQuery,
    CommitsQuery,
    DiffQuery,
    RevertRequest,
    SnapshotQuery,
)
from omnigraph.server.route_entry import READ_STATUSES, SMALL_WRITE, WRITE_STATUSES, RouteEntry
from omnigraph.server.routes.long_work import may_respond_later
from omnigraph.server.routes.queries import state_of
from omnigraph.wire.records import record_to_json

_MOST_COMMITS = 1000
_MOST_CHANGES = 8192


def list_commits(call: Call) -> dict[str, Any]:
    asked: CommitsQuery = call.query
    if not 1 <= asked.limit <= _MOST_COMMITS:
        raise Refusal(400, f"limit is 1 to {_MOST_COMMITS:,}, not {asked.limit}")
    commits = call.graph.commits
    if asked.idempotency_key is not None:
        known = commits.by_key(asked.idempotency_key)
        return {"commits": [record_to_json(commit) for commit in known]}
    found = commits.list(
        asked.branch, asked.limit + 1, first_parent=asked.first_parent, after=asked.after
    )
    page = found[: asked.limit]
    answer: dict[str, Any] = {"commits": [record_to_json(commit) for commit in page]}
    if len(found) > len(page):
        answer["next"] = page[-1].graph_commit_id
    return answer


def show_commit(call: Call) -> dict[str, Any]:
    asked: CommitQuery = call.query
    return record_to_json(call.graph.commits.show(call.path["commit_id"], asked.branch))


def commit_changes_limit(limit: int) -> int:
    if not 1 <= limit <= _MOST_CHANGES:
        raise Refusal(400, f"limit is 1 to {_MOST_CHANGES:,}, not {limit}")
    return limit


def diff(call: Call) -> dict[str, Any]:
    asked: DiffQuery = call.query
    page = call.graph.diff(
        asked.before,
        asked.after,
        asked.type,
        base=asked.base,
        branch=asked.branch,
        kinds=asked.kind,
        ops=asked.op,
        limit=commit_changes_limit(asked.limit),
        cursor=asked.page_token,
    )
    return record_to_json(page)


def snapshot(call: Call) -> Reply:
    asked: SnapshotQuery = call.query
    branch, at = state_of(asked.branch, asked.snapshot)
    found = call.graph.snapshot(branch, at=at)
    return Reply(record_to_json(found), etag=found.graph_commit_id)


def revert(call: Call) -> dict[str, Any]:
    body: RevertRequest = call.body
    receipt = call.graph.revert(
        call.path["commit_id"],
        body.branch,
        strategy=body.strategy,
        resolutions=body.resolutions,
        message=body.message,
        idempotency_key=call.idempotency_key,
    )
    noted(call, receipt.commit, repeated=receipt.repeated)
    return record_to_json(receipt)


def cherry_pick(call: Call) -> dict[str, Any]:
    body: CherryPickRequest = call.body
    receipt = call.graph.cherry_pick(
        call.path["commit_id"],
        body.onto,
        strategy=body.strategy,
        resolutions=body.resolutions,
        message=body.message,
        idempotency_key=call.idempotency_key,
    )
    noted(call, receipt.commit, repeated=receipt.repeated)
    return record_to_json(receipt)


HISTORY_ROUTES = (
    RouteEntry(
        "GET",
        "/snapshot",
        "getSnapshot",
        "snapshots",
        snapshot,
        "The tables of one state.",
        action=actions.READ,
        query=SnapshotQuery,
        answer=tell.SnapshotOutput,
        statuses=(304, 400, 401, 403, 404, 409),
    ),
    RouteEntry(
        "GET",
        "/commits",
        "listCommits",
        "commits",
        list_commits,
        "Commits, newest first, or the commit of an idempotency key.",
        action=actions.READ,
        query=CommitsQuery,
        answer=tell.CommitListOutput,
        statuses=(400, 401, 403, 404),
    ),
    RouteEntry(
        "GET",
        "/commits/{commit_id}",
        "getCommit",
        "commits",
        show_commit,
        "One commit.",
        action=actions.READ,
        query=CommitQuery,
        answer=tell.CommitOutput,
        statuses=(400, 401, 403, 404),
    ),
    RouteEntry(
        "POST",
        "/commits/{commit_id}/revert",
        "revertCommit",
        "commits",
        may_respond_later(revert),
        "Undo what a commit changed, as a new commit.",
        action=actions.CHANGE,
        body=RevertRequest,
        body_optional=True,
        answer=tell.WriteOutput,
        statuses=(*WRITE_STATUSES, 202),
        admission=SMALL_WRITE,
        takes_key=True,
        is_async_work=True,
    ),
    RouteEntry(
        "POST",
        "/commits/{commit_id}/cherry-pick",
        "cherryPickCommit",
        "commits",
        cherry_pick,
        "Make the changes of a commit again on another branch.",
        action=actions.CHANGE,
        body=CherryPickRequest,
        body_optional=True,
        answer=tell.WriteOutput,
        statuses=WRITE_STATUSES,
        admission=SMALL_WRITE,
        takes_key=True,
    ),
    RouteEntry(
        "GET",
        "/diff",
        "diff",
        "changes",
        diff,
        "What turns one state into another.",
        action=actions.READ,
        query=DiffQuery,
        strict_query=True,
        answer=tell.DiffOutput,
        statuses=READ_STATUSES,
    ),
)
