"""Commits, tags and snapshots over HTTP.

The commit object has the number of entities that a commit changed in each table. The versions of
datasets and the lists of ids stay on the server, so `pins` of a commit that came over HTTP is
empty and `changes` has counts without ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnigraph.catalog.serialize import catalog_from_json, catalog_to_json
from omnigraph.manifest.records import Commit, RecoveryAudit, TableChanges, TablePin
from omnigraph.manifest.refs import Tag
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import MAIN, EntityKind, TableKey

Json = dict[str, Any]


def commit_to_json(commit: Commit) -> Json:
    found = {
        **commit.to_dict(),
        "schema_id": commit.schema_id,
        "changed": [_counts_to_json(counts) for counts in commit.changes],
        "equals_merged": commit.equals_merged,
    }
    return {**found, "recovery": commit.recovery.to_dict()} if commit.recovery else found


def commit_from_json(data: Mapping[str, Any]) -> Commit:
    recovery = data.get("recovery")
    return Commit(
        graph_commit_id=data["graph_commit_id"],
        graph_branch=data.get("graph_branch") or MAIN,
        graph_manifest_version=data["graph_manifest_version"],
        parent_commit_id=data.get("parent_commit_id"),
        merged_parent_commit_id=data.get("merged_parent_commit_id"),
        actor_id=data.get("actor_id"),
        message=data.get("message"),
        operation=data.get("operation", ""),
        created_at=data["created_at"],
        schema_id=data.get("schema_id", ""),
        changes=tuple(map(_counts_from_json, data.get("changed", ()))),
        recovery=audit_from_json(recovery) if recovery else None,
        equals_merged=data.get("equals_merged", False),
        details=data.get("details", {}),
    )


def _counts_to_json(counts: TableChanges) -> Json:
    return {
        "entity_kind": counts.key.kind.value,
        "type_name": counts.key.type_name,
        "inserted": counts.inserted,
        "updated": counts.updated,
        "deleted": counts.deleted,
    }


def _counts_from_json(data: Mapping[str, Any]) -> TableChanges:
    key = TableKey(EntityKind(data["entity_kind"]), data["type_name"])
    return TableChanges(key, data["inserted"], data["updated"], data["deleted"], None)


def audit_from_json(data: Mapping[str, Any]) -> RecoveryAudit:
    return RecoveryAudit(**{k: v for k, v in data.items() if k != "created_at_rfc3339"})


def tag_to_json(tag: Tag) -> Json:
    return {
        **tag.to_dict(),
        "graph_manifest_version": tag.graph_manifest_version,
        "commit_created_at": tag.commit_created_at,
        "schema_id": tag.schema_id,
        "datasets": [_pin_to_json(pin) for pin in tag.tables],
    }


def tag_from_json(data: Mapping[str, Any]) -> Tag:
    return Tag(
        name=data["name"],
        graph_commit_id=data["graph_commit_id"],
        graph_branch=data["graph_branch"],
        graph_manifest_version=data["graph_manifest_version"],
        commit_created_at=data["commit_created_at"],
        schema_id=data["schema_id"],
        tables=tuple(map(_pin_from_json, data["datasets"])),
        created_at=data["created_at"],
    )


def snapshot_to_json(snapshot: Snapshot, *, with_catalog: bool = True) -> Json:
    """The snapshot object. The catalog is for clients that need the types of properties."""
    found: Json = {
        **snapshot.to_dict(),
        "schema_id": snapshot.schema_id,
        "datasets": [
            {
                **_pin_to_json(pin),
                **({"entity_count": None} if pin.key in snapshot.uncounted else {}),
            }
            for pin in _in_name_order(snapshot)
        ],
    }
    return {**found, "catalog": catalog_to_json(snapshot.catalog)} if with_catalog else found


def _in_name_order(snapshot: Snapshot) -> list[TablePin]:
    return sorted(snapshot.tables.values(), key=lambda pin: str(pin.key))


def snapshot_from_json(data: Mapping[str, Any]) -> Snapshot:
    """A snapshot that was sent with its catalog; its tables are in the order of the schema."""
    catalog = catalog_from_json(data["catalog"])
    pins = {pin.key: pin for pin in map(_pin_from_json, data["datasets"])}
    declared = [entity.table_key for entity in catalog.entity_types()]
    order = [
        *(key for key in declared if key in pins),
        *(key for key in pins if key not in declared),
    ]
    return Snapshot(
        graph_branch=data["graph_branch"],
        graph_commit_id=data["graph_commit_id"],
        graph_manifest_version=data["graph_manifest_version"],
        schema_id=data["schema_id"],
        catalog=catalog,
        tables={key: pins[key] for key in order},
        internal_schema_version=data["internal_schema_version"],
        uncounted=frozenset(
            TableKey(EntityKind(d["entity_kind"]), d["type_name"])
            for d in data["datasets"]
            if d["entity_count"] is None
        ),
    )


def _pin_to_json(pin: TablePin) -> Json:
    return {
        "entity_kind": pin.key.kind.value,
        "type_name": pin.key.type_name,
        "dataset_path": pin.location,
        "published_dataset_version": pin.version,
        "native_dataset_branch": pin.branch,
        "entity_count": pin.row_count,
        "owner": pin.owner,
        "content_epoch": pin.content_epoch,
    }


def _pin_from_json(data: Mapping[str, Any]) -> TablePin:
    return TablePin(
        key=TableKey(EntityKind(data["entity_kind"]), data["type_name"]),
        location=data["dataset_path"],
        branch=data.get("native_dataset_branch"),
        version=data["published_dataset_version"],
        row_count=data["entity_count"] or 0,
        owner=data.get("owner", ""),
        content_epoch=data.get("content_epoch", ""),
    )
