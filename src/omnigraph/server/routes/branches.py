"""`/branches`, `/branches/merge` and `/tags`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from omnigraph.merge.conflicts import MergePreview
from omnigraph.policy import actions
from omnigraph.server import answers as tell
from omnigraph.server.calls import Call, noted
from omnigraph.server.replies import Reply, encode
from omnigraph.server.request_bodies import (
    BranchCreateRequest,
    BranchMergeRequest,
    BranchRenameRequest,
    TagCreateRequest,
)
from omnigraph.server.route_entry import SMALL_WRITE, WRITE_STATUSES, RouteEntry
from omnigraph.server.routes.long_work import may_respond_later
from omnigraph.wire.records import record_to_json


def list_branches(call: Call) -> Reply:
    found = [branch.to_dict() for branch in call.graph.branches.list()]
    names = sorted(branch["name"] for branch in found)
    tag = hashlib.sha256(encode(found)).hexdigest()[:32]
    return Reply({"branches": names, "details": found}, etag=tag)


def create_branch(call: Call) -> dict[str, Any]:
    body: BranchCreateRequest = call.body
    branch = call.graph.branches.create(
        body.name, body.source, idempotency_key=call.idempotency_key
    )
    noted(call, None, repeated=branch.repeated)
    return {
        "uri": call.graph_id,
        "from": body.source,
        "name": branch.name,
        "actor_id": call.actor,
        "branch": record_to_json(branch),
    }


def rename_branch(call: Call) -> dict[str, Any]:
    body: BranchRenameRequest = call.body
    renamed = call.graph.branches.rename(
        body.name, body.new_name, idempotency_key=call.idempotency_key
    )
    noted(call, None, repeated=renamed.repeated)
    return record_to_json(renamed)


def delete_branch(call: Call) -> dict[str, Any]:
    return _delete(call, call.path["branch"])


def delete_named(name: str) -> Callable[[Call], dict[str, Any]]:
    """DELETE of a path that is also another route, such as `/branches/merge`."""
    return lambda call: _delete(call, name)


def _delete(call: Call, name: str) -> dict[str, Any]:
    repeated = call.graph.branches.delete(name, idempotency_key=call.idempotency_key)
    noted(call, None, repeated=repeated)
    return {"uri": call.graph_id, "name": name, "actor_id": call.actor}


def merge_branches(call: Call) -> dict[str, Any]:
    body: BranchMergeRequest = call.body
    found = call.graph.merge(
        body.source,
        body.target,
        body.strategy,
        body.resolutions,
        body.preview,
        body.delete_branch,
        body.message,
        idempotency_key=call.idempotency_key,
    )
    if isinstance(found, MergePreview):
        return record_to_json(found)
    noted(call, found.commit, repeated=found.repeated)
    return {**record_to_json(found), "actor_id": call.actor}


def list_tags(call: Call) -> dict[str, Any]:
    return {"tags": [record_to_json(tag) for tag in call.graph.tags.list()]}


def create_tag(call: Call) -> dict[str, Any]:
    body: TagCreateRequest = call.body
    tag = call.graph.tags.create(body.name, body.target, idempotency_key=call.idempotency_key)
    noted(call, None, repeated=tag.repeated)
    return record_to_json(tag)


def delete_tag(call: Call) -> dict[str, Any]:
    name = call.path["tag"]
    repeated = call.graph.tags.delete(name, idempotency_key=call.idempotency_key)
    noted(call, None, repeated=repeated)
    return {"name": name, "actor_id": call.actor}


BRANCH_ROUTES = (
    RouteEntry(
        "GET",
        "/branches",
        "listBranches",
        "branches",
        list_branches,
        "The branches.",
        action=actions.READ,
        answer=tell.BranchListOutput,
        statuses=(304, 401, 403, 404),
    ),
    RouteEntry(
        "POST",
        "/branches",
        "createBranch",
        "branches",
        create_branch,
        "Start a branch.",
        action=actions.BRANCH_CREATE,
        body=BranchCreateRequest,
        answer=tell.BranchCreateOutput,
        statuses=WRITE_STATUSES,
        admission=SMALL_WRITE,
        takes_key=True,
    ),
    RouteEntry(
        "POST",
        "/branches/merge",
        "mergeBranches",
        "branches",
        may_respond_later(merge_branches),
        "Merge a branch into another as one commit.",
        action=actions.BRANCH_MERGE,
        body=BranchMergeRequest,
        answer=tell.BranchMergeOutput,
        statuses=(*WRITE_STATUSES, 202),
        admission=SMALL_WRITE,
        takes_key=True,
        is_async_work=True,
    ),
    RouteEntry(
        "POST",
        "/branches/rename",
        "renameBranch",
        "branches",
        rename_branch,
        "Give a branch another name.",
        action=actions.BRANCH_CREATE,
        body=BranchRenameRequest,
        answer=tell.BranchOutput,
        statuses=WRITE_STATUSES,
        admission=SMALL_WRITE,
        takes_key=True,
    ),
    RouteEntry(
        "DELETE",
        "/branches/{branch:path}",
        "deleteBranch",
        "branches",
        delete_branch,
        "Delete a branch.",
        action=actions.BRANCH_DELETE,
        answer=tell.BranchDeleteOutput,
        statuses=(400, 401, 403, 404, 409, 429, 503),
        admission=SMALL_WRITE,
        takes_key=True,
    ),
    *(
        RouteEntry(
            "DELETE",
            f"/branches/{name}",
            f"deleteBranchNamed{name.capitalize()}",
            "branches",
            delete_named(name),
            "Delete the branch of this name.",
            admission=SMALL_WRITE,
            takes_key=True,
            listed=False,
        )
        for name in ("merge", "rename")
    ),
    RouteEntry(
        "GET",
        "/tags",
        "listTags",
        "branches",
        list_tags,
        "The tags.",
        action=actions.READ,
        answer=tell.TagListOutput,
        statuses=(401, 403, 404),
    ),
    RouteEntry(
        "POST",
        "/tags",
        "createTag",
        "branches",
        create_tag,
        "Name a commit.",
        action=actions.BRANCH_CREATE,
        body=TagCreateRequest,
        answer=tell.TagOutput,
        statuses=WRITE_STATUSES,
        admission=SMALL_WRITE,
        takes_key=True,
    ),
    RouteEntry(
        "DELETE",
        "/tags/{tag:path}",
        "deleteTag",
        "branches",
        delete_tag,
        "Delete a tag.",
        action=actions.BRANCH_DELETE,
        answer=tell.TagDeleteOutput,
        statuses=(400, 401, 403, 404, 409, 429, 503),
        admission=SMALL_WRITE,
        takes_key=True,
    ),
)
