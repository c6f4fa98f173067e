"""`/branches`, `/branches/merge` and `/tags`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from omnigraph.merge.conflicts import MergePreview
from omnigraph.server.calls import Call
from omnigraph.server.replies import Reply, encode
from omnigraph.server.request_bodies import (
    BranchCreateRequest,
    BranchMergeRequest,
    BranchRenameRequest,
    TagCreateRequest,
)
from omnigraph.server.route_replays import noted
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
        "branch": branch.to_dict(),
    }


def rename_branch(call: Call) -> dict[str, Any]:
    body: BranchRenameRequest = call.body
    return call.graph.branches.rename(body.name, body.new_name).to_dict()


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
