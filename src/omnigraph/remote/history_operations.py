"""Branches, tags, commits, merges, diffs and feeds of a graph on a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omnigraph.commit.request import WriteReceipt
from omnigraph.diff.change import ChangeFilter, ChangePage
from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.feed import FeedPage
from omnigraph.graph.collections import Branch
from omnigraph.graph.commit_history import DrawnCommit, draw
from omnigraph.manifest.commit_graph import CommitName, name_text
from omnigraph.manifest.records import PIPELINE, Commit
from omnigraph.manifest.refs import Tag
from omnigraph.merge.conflicts import MergePreview, MergeResult
from omnigraph.merge.decisions import Decisions, Resolution, Side, read_resolutions
from omnigraph.remote.exchanges import Exchange, RemoteRequest, asked, get, refuse_spark, segment
from omnigraph.remote.write_operations import new_key, write
from omnigraph.values.identifiers import MAIN
from omnigraph.values.json_values import json_value
from omnigraph.values.known_names import AUTO, LOCAL, SPARK, require_engine
from omnigraph.wire.records import record_from_json

_MOST_COMMITS = 1000
_MOST_CHANGES = 8192


def _name(commit: CommitName) -> str:
    name = name_text(commit)
    if not isinstance(name, str):
        raise InvalidArgument(f"a commit is named by a text or a datetime, got {commit!r}")
    return name


# Merges


def merge(
    source: str,
    into: str,
    strategy: str,
    resolutions: object,
    preview: bool,
    delete_branch: bool,
    message: str | None,
    engine: str,
    idempotency_key: str | None,
) -> Exchange[MergeResult | MergePreview]:
    require_engine(engine, "merge", (AUTO, LOCAL, SPARK))
    refuse_spark(engine, "merge")
    if preview:
        return (yield from preview_merge(source, into, strategy, resolutions))
    body = {
        **_merge_members(source, into, strategy, resolutions),
        "delete_branch": delete_branch or None,
        "message": message,
    }
    found = yield from asked(write("/branches/merge", body, idempotency_key, is_long=True))
    return record_from_json(MergeResult, found)


def preview_merge(
    source: str, into: str, strategy: str, resolutions: object
) -> Exchange[MergePreview]:
    body = {**_merge_members(source, into, strategy, resolutions), "preview": True}
    request = RemoteRequest("POST", "/branches/merge", json=body, is_long=True)
    found = yield from asked(request)
    return record_from_json(MergePreview, found)


def _merge_members(source: str, into: str, strategy: str, resolutions: object) -> dict[str, Any]:
    members = {"source": source, "target": into, "strategy": strategy}
    decided = _entries(strategy, resolutions)
    return {**members, "resolutions": decided} if decided else members


def _entries(strategy: str, resolutions: object) -> list[dict[str, Any]] | None:
    """The decisions as JSON; a file of them is read here, because the server does not have it."""
    found = read_resolutions(resolutions)
    Decisions(strategy, found)  # refuses a strategy that does not exist
    return [_entry(resolution) for resolution in found] or None


def _entry(resolution: Resolution) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type_name": resolution.type_name,
        "entity_id": resolution.entity_id,
    }
    if resolution.property is not None:
        entry["property"] = resolution.property
    take = resolution.take
    if take.side is Side.VALUE:
        return {**entry, "value": json_value(take.value)}
    return {**entry, "take": take.side.value}


def revert(
    commit_id: CommitName,
    branch: str,
    strategy: str,
    resolutions: object,
    message: str | None,
    idempotency_key: str | None,
) -> Exchange[WriteReceipt]:
    return (
        yield from _picked(
            *("revert", commit_id, {"branch": branch}, strategy, resolutions, message),
            idempotency_key,
        )
    )


def cherry_pick(
    commit_id: CommitName,
    onto: str,
    strategy: str,
    resolutions: object,
    message: str | None,
    idempotency_key: str | None,
) -> Exchange[WriteReceipt]:
    return (
        yield from _picked(
            *("cherry-pick", commit_id, {"onto": onto}, strategy, resolutions, message),
            idempotency_key,
        )
    )


def _picked(
    word: str,
    commit_id: CommitName,
    where: Mapping[str, str],
    strategy: str,
    resolutions: object,
    message: str | None,
    key: str | None,
) -> Exchange[WriteReceipt]:
    body = {
        **where,
        "strategy": strategy,
        "resolutions": _entries(strategy, resolutions),
        "message": message,
    }
    path = f"/commits/{segment(_name(commit_id))}/{word}"
    found = yield from asked(write(path, body, key, is_long=True))
    return record_from_json(WriteReceipt, found)


# Diffs and feeds


def diff(
    a: CommitName | None,
    b: CommitName | None,
    types: Sequence[str] | None,
    base: CommitName | None,
    branch: CommitName | None,
    kinds: Sequence[str] | None,
    ops: Sequence[str] | None,
    limit: int | None,
    cursor: str | None,
) -> Exchange[ChangePage]:
    states = {"from": a, "to": b, "base": base, "branch": branch}
    named = [(key, name_text(value)) for key, value in states.items()]
    return (yield from _changes("/diff", [*named, *_filter(types, kinds, ops)], limit, cursor))


def _filter(
    types: Sequence[str] | None, kinds: Sequence[str] | None, ops: Sequence[str] | None
) -> list[tuple[str, object]]:
    wanted = ChangeFilter.of(types, kinds, ops)
    return [("type", wanted.types), ("kind", wanted.kinds), ("op", wanted.ops)]


def _changes(
    path: str, query: Sequence[tuple[str, object]], limit: int | None, cursor: str | None
) -> Exchange[ChangePage]:
    """All pages, or one of at most `limit` changes; a server makes pages of a limited size."""
    if limit is not None and limit < 1:
        raise InvalidArgument(f"limit must be a positive number, not {limit!r}")
    found = ChangePage()
    token = cursor
    while True:
        room = _MOST_CHANGES if limit is None else min(limit - len(found), _MOST_CHANGES)
        page = yield from asked(get(path, *query, ("limit", room), ("page_token", token)))
        read = record_from_json(ChangePage, page)
        found.extend(read)
        token = read.next_cursor
        if token is None or (limit is not None and len(found) >= limit):
            found.next_cursor = token
            return found


def changes(
    branch: str,
    cursor: str | None,
    start: str,
    types: Sequence[str] | None,
    kinds: Sequence[str] | None,
    ops: Sequence[str] | None,
    limit: int,
) -> Exchange[FeedPage]:
    _require_limit(limit)
    since = ("cursor", cursor) if cursor is not None else ("start", start)
    parameters = [("branch", branch), since, *_filter(types, kinds, ops)]
    request = get("/changes", *parameters, ("limit", min(limit, _MOST_CHANGES)))
    return record_from_json(FeedPage, (yield from asked(request)))


def _require_limit(limit: int) -> None:
    if limit < 1:
        raise InvalidArgument(f"limit must be a positive number, not {limit!r}")


def baseline(
    branch: str, types: Sequence[str] | None, kinds: Sequence[str] | None, limit: int
) -> Exchange[FeedPage]:
    _require_limit(limit)
    wanted = [("branch", branch), *_filter(types, kinds, None)]
    request = get("/changes/baseline", *wanted, ("limit", min(limit, _MOST_CHANGES)))
    return record_from_json(FeedPage, (yield from asked(request)))


# Branches and tags


def create_branch(name: str, source: str, idempotency_key: str | None) -> Exchange[Branch]:
    body = {"name": name, "from": source}
    found = yield from asked(write("/branches", body, idempotency_key))
    return record_from_json(Branch, found["branch"])


def list_branches() -> Exchange[list[Branch]]:
    found = yield from asked(get("/branches"))
    return [record_from_json(Branch, branch) for branch in found["details"]]


def show_branch(name: str) -> Exchange[Branch]:
    found = yield from list_branches()
    for branch in found:
        if branch.name == name:
            return branch
    yield get("/snapshot", ("branch", name))  # raises the error of a branch that is not there
    raise NotFound(f"no branch {name!r}", branch=name)


def rename_branch(name: str, new_name: str, idempotency_key: str | None) -> Exchange[Branch]:
    body = {"name": name, "new_name": new_name}
    found = yield from asked(write("/branches/rename", body, idempotency_key))
    return record_from_json(Branch, found)


def delete_branch(name: str, idempotency_key: str | None) -> Exchange[bool]:
    return (yield from _removed(f"/branches/{segment(name)}", idempotency_key))


def _removed(path: str, key: str | None) -> Exchange[bool]:
    """True when an earlier request with the same key did it."""
    answer = yield RemoteRequest("DELETE", path, writes=True, key=key or new_key())
    return bool(answer.headers.get("idempotency-replayed") == "true")


def create_tag(name: str, target: CommitName, idempotency_key: str | None) -> Exchange[Tag]:
    body = {"name": name, "target": _name(target)}
    return record_from_json(Tag, (yield from asked(write("/tags", body, idempotency_key))))


def list_tags() -> Exchange[list[Tag]]:
    found = yield from asked(get("/tags"))
    return [record_from_json(Tag, tag) for tag in found["tags"]]


def delete_tag(name: str, idempotency_key: str | None) -> Exchange[bool]:
    return (yield from _removed(f"/tags/{segment(name)}", idempotency_key))


def commits_by_key(idempotency_key: str) -> Exchange[Sequence[Commit]]:
    found = yield from asked(get("/commits", ("idempotency_key", idempotency_key)))
    return [record_from_json(Commit, commit) for commit in found["commits"]]


# Commits


def list_commits(
    branch: str,
    limit: int | None,
    first_parent: bool,
    pipeline: str | None = None,
    after: str | None = None,
) -> Exchange[list[Commit]]:
    found: list[Commit] = []
    while limit is None or len(found) < limit:
        room = _MOST_COMMITS if limit is None else min(limit - len(found), _MOST_COMMITS)
        request = get(
            "/commits",
            ("branch", branch),
            ("limit", room if pipeline is None else _MOST_COMMITS),
            ("first_parent", first_parent or None),
            ("after", after),
        )
        page = yield from asked(request)
        found += _of_pipeline(pipeline, [record_from_json(Commit, c) for c in page["commits"]])
        after = page.get("next")
        if after is None:
            break
    return found[:limit]


def _of_pipeline(name: str | None, commits: list[Commit]) -> list[Commit]:
    if name is None:
        return commits
    return [c for c in commits if c.details.get(PIPELINE, {}).get("name") == name]


def show_commit(commit_id: CommitName, branch: str) -> Exchange[Commit]:
    found = yield from asked(get(f"/commits/{segment(_name(commit_id))}", ("branch", branch)))
    return record_from_json(Commit, found)


def schema_steps(commit_id: CommitName, branch: str) -> Exchange[Sequence[Mapping[str, Any]]]:
    path = f"/commits/{segment(_name(commit_id))}/schema-steps"
    found = yield from asked(get(path, ("branch", branch)))
    return tuple(found["steps"])


def draw_commits(branch: str, limit: int) -> Exchange[Sequence[str]]:
    """The commits are drawn here."""
    commits = yield from list_commits(branch, limit, False)
    return draw([_drawn(commit) for commit in commits])


def _drawn(commit: Commit) -> DrawnCommit:
    parents = [p for p in (commit.parent_commit_id, commit.merged_parent_commit_id) if p]
    label = f"{commit.graph_commit_id} ({commit.graph_branch})"
    return DrawnCommit(
        commit.graph_commit_id, tuple(parents), f"{label} {commit.message or commit.operation}"
    )


def commit_changes(
    commit_id: CommitName,
    types: Sequence[str] | None,
    branch: str,
    kinds: Sequence[str] | None,
    ops: Sequence[str] | None,
    limit: int | None,
    cursor: str | None,
) -> Exchange[ChangePage]:
    name = _name(commit_id)
    if branch != MAIN:
        commit = yield from show_commit(name, branch)
        name = commit.graph_commit_id
    path = f"/commits/{segment(name)}/changes"
    return (yield from _changes(path, _filter(types, kinds, ops), limit, cursor))
