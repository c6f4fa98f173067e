"""Changes, feeds and conflicts over HTTP.

An image has the members `properties` and, for edges, `endpoints`. In Python it is one dict with the
id, the ends and all properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnigraph.diff.change import Change, ChangedType, ChangePage, Image
from omnigraph.feed import FeedBlock, FeedPage
from omnigraph.manifest.records import Commit
from omnigraph.merge.conflicts import Conflict, MergePreview
from omnigraph.values.identifiers import MAIN
from omnigraph.wire.commits import commit_from_json, commit_to_json
from omnigraph.wire.typed_values import NOTE, note_of, plain_value, restored_value

Json = dict[str, Any]

_ID, _FROM, _TO, _EDGE = "id", "from", "to", "edge"
_SIDES = ("before", "after")
_VERSIONS = ("base", "ours", "theirs")


def change_to_json(change: Change) -> Json:
    found: Json = {
        "kind": change.kind,
        "type": change.type.to_dict(),
        "id": change.id,
        "op": str(change.op),
    }
    notes = {}
    for side in _SIDES:
        image = getattr(change, side)
        if image is None:
            continue
        found[side] = _nested(image, change.kind)
        if note := note_of(image):
            notes[side] = note
    return {**found, NOTE: notes} if notes else found


def change_from_json(data: Mapping[str, Any]) -> Change:
    notes = data.get(NOTE, {})
    before, after = (
        _whole(data[side], data["id"], notes.get(side)) if data.get(side) is not None else None
        for side in _SIDES
    )
    kind = ChangedType(data["type"]["id"], data["type"]["name"])
    return Change(data["kind"], kind, data["id"], data["op"], before, after)


def _nested(image: Image, kind: str) -> Json:
    ends = (_FROM, _TO) if kind == _EDGE else ()
    found: Json = {
        "properties": {
            name: plain_value(value)
            for name, value in image.items()
            if name != _ID and name not in ends
        }
    }
    if ends:
        found["endpoints"] = {end: image.get(end) for end in ends}
    return found


def _whole(nested: Mapping[str, Any], entity_id: str, note: Any) -> Image:
    ends = nested.get("endpoints") or {}
    values = restored_value(dict(nested["properties"]), note)
    return {_ID: entity_id, **ends, **values}


def change_page_to_json(page: ChangePage) -> Json:
    found: Json = {"changes": [change_to_json(change) for change in page]}
    if page.next_cursor is not None:
        found["next_page_token"] = page.next_cursor
    return found


def change_page_from_json(data: Mapping[str, Any]) -> ChangePage:
    return ChangePage(map(change_from_json, data["changes"]), data.get("next_page_token"))


def cause_to_json(commit: Commit) -> Json:
    """The commit that made the changes of a block."""
    return {
        "graph_commit_id": commit.graph_commit_id,
        "parent_commit_id": commit.parent_commit_id,
        "merged_parent_commit_id": commit.merged_parent_commit_id,
        "authored_branch": commit.graph_branch,
        "actor_id": commit.actor_id,
        "authored_at": commit.created_at,
    }


def feed_block_to_json(block: FeedBlock) -> Json:
    return {
        "cause": cause_to_json(block.commit),
        "commit": commit_to_json(block.commit),
        "schema_version": block.schema_version,
        "baseline": block.baseline,
        "complete": block.complete,
        "schema_steps": [dict(step) for step in block.schema_steps],
        "changes": [change_to_json(change) for change in block.changes],
    }


def feed_block_from_json(data: Mapping[str, Any]) -> FeedBlock:
    return FeedBlock(
        commit_from_json(data["commit"]),
        tuple(map(change_from_json, data["changes"])),
        data["complete"],
        data["baseline"],
        tuple(data["schema_steps"]),
    )


def feed_page_to_json(page: FeedPage) -> Json:
    """`next_page_token` while more is ready, else the durable `cursor`."""
    found: Json = {
        "graph_branch": page.graph_branch,
        "blocks": [feed_block_to_json(block) for block in page.blocks],
    }
    if page.has_more:
        return {**found, "next_page_token": page.cursor}
    return {**found, "cursor": page.cursor, "caught_up": True}


def feed_page_from_json(data: Mapping[str, Any]) -> FeedPage:
    token = data.get("next_page_token")
    return FeedPage(
        data.get("graph_branch", MAIN),
        tuple(map(feed_block_from_json, data["blocks"])),
        token if token is not None else data["cursor"],
        token is not None,
    )


def conflict_to_json(conflict: Conflict) -> Json:
    """`kind` is `divergent_update` over HTTP and `DivergentUpdate` in Python."""
    found: Json = {
        "entity_kind": conflict.entity_kind,
        "type_name": conflict.type_name,
        "entity_id": conflict.entity_id,
        "kind": snake_case(conflict.kind),
        "message": conflict.message,
    }
    if conflict.property is not None:
        found["property"] = conflict.property
    values = {version: getattr(conflict, version) for version in _VERSIONS}
    found |= {version: plain_value(value) for version, value in values.items()}
    note = note_of(values)
    return {**found, NOTE: note} if note else found


def conflict_from_json(data: Mapping[str, Any]) -> Conflict:
    note = data.get(NOTE)
    versions = restored_value({version: data.get(version) for version in _VERSIONS}, note)
    return Conflict(
        data["entity_kind"],
        data["type_name"],
        data.get("entity_id", ""),
        _camel(data["kind"]),
        data["message"],
        data.get("property"),
        **versions,
    )


def snake_case(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in str(name)).lstrip("_")


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def merge_preview_to_json(preview: MergePreview) -> Json:
    return {
        **preview.to_dict(),
        "merge_conflicts": [conflict_to_json(conflict) for conflict in preview],
        **change_page_to_json(preview.changes),
    }


def merge_preview_from_json(data: Mapping[str, Any]) -> MergePreview:
    return MergePreview(
        data["source"],
        data["target"],
        data["outcome"],
        map(conflict_from_json, data["merge_conflicts"]),
        change_page_from_json(data),
        data["conflict_count"],
        more_changes=data["more_changes"],
    )
