"""`/commits`, `/diff`, `/snapshot`, revert and cherry-pick."""

from __future__ import annotations

from typing import Any

from omnigraph.server.calls import Call
from omnigraph.server.replies import Refusal, Reply
from omnigraph.server.request_bodies import (
    CherryPickRequest,
    CommitQuery,
    CommitsQuery,
    DiffQuery,
    RevertRequest,
    SnapshotQuery,
)
from omnigraph.server.route_replays import noted
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
