"""The storage root of a cluster: a directory or an S3 prefix, and the objects below `__cluster`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from omnigraph.cluster.ledger import Ledger, StoredLedger, parse_ledger
from omnigraph.cluster.resources import catalog_key, sha256
from omnigraph.errors import ClusterRefused, OmnigraphError, StorageFailure
from omnigraph.lance_store.objects.control_files import ControlFiles, open_control_files
from omnigraph.lance_store.objects.storage_location import StorageLocation, parse_location
from omnigraph.manifest.layout import CLUSTER, CLUSTER_GRAPHS, CLUSTER_STATE, GRAPH_SUFFIX, MANIFEST

STATE = f"{CLUSTER}/{CLUSTER_STATE}"
LOCK = f"{CLUSTER}/lock.json"
_CATALOG = f"{CLUSTER}/resources"
_RECOVERIES = f"{CLUSTER}/recoveries"
_APPROVALS = f"{CLUSTER}/approvals"

CREATE = "graph_create"
SCHEMA_APPLY = "schema_apply"
DELETE = "graph_delete"
_INTENT_KINDS = (CREATE, SCHEMA_APPLY, DELETE)


@dataclass(frozen=True, slots=True)
class ClusterIntent:
    """What an apply is about to do to one graph; left behind only by a process that died."""

    operation_id: str
    started_at: str
    kind: str
    graph_id: str
    graph_uri: str
    desired_schema_digest: str = ""
    actor: str | None = None
    observed_manifest_version: int | None = None
    expected_manifest_version: int | None = None
    state_cas_base: str | None = None
    approval_id: str | None = None
    schema_version: int = 1

    def to_dict(self) -> dict[str, Any]:
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Approval:
    """One person's consent to one change, bound to the digests that the change had then."""

    approval_id: str
    resource: str
    operation: str
    reason: str
    bound_config_digest: str
    approved_by: str
    created_at: str
    bound_before_digest: str | None = None
    bound_after_digest: str | None = None
    consumed_at: str | None = None
    consumed_by_operation: str | None = None
    schema_version: int = 1

    def to_dict(self) -> dict[str, Any]:
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in found.items() if value is not None}


class ClusterRoot:
    """The objects of one cluster."""

    def __init__(self, location: StorageLocation) -> None:
        self.location = location
        self.files: ControlFiles = open_control_files(location, sync=True)

    @property
    def uri(self) -> str:
        return self.location.uri

    def graph_uri(self, graph_id: str) -> str:
        return self.location.child(_graph_prefix(graph_id))

    # The ledger.

    def read_ledger(self) -> StoredLedger:
        """The ledger, or an empty one when there is none."""
        try:
            data = self.files.get(STATE)
        except StorageFailure as error:
            raise ClusterRefused(error.message, reason="state_read_error", path=STATE) from error
        return StoredLedger(Ledger() if data is None else parse_ledger(data), data)

    def write_ledger(self, ledger: Ledger, base: StoredLedger) -> StoredLedger:
        """Swap the ledger; refuses if it is no longer the one that was read."""
        ledger.revision = base.ledger.revision + 1
        data = ledger.to_bytes()
        if base.data is None:
            swapped = self.files.put(STATE, data)
        else:
            swapped = self.files.replace_exactly(STATE, base.data, data)
        if not swapped:
            raise ClusterRefused(
                "the ledger changed while this command worked, so nothing is recorded: run the "
                "command again",
                reason="state_cas_mismatch",
                path=STATE,
            )
        return StoredLedger(ledger, data)

    # The catalog.

    def catalog_keys(self) -> frozenset[str]:
        """What the catalog holds; one listing."""
        found = self.files.walk(_CATALOG)
        return frozenset(each.path.removeprefix(f"{_CATALOG}/") for each in found)

    def put_payload(self, address: str, data: bytes) -> None:
        key = f"{_CATALOG}/{catalog_key(address, sha256(data))}"
        if self.files.put(key, data):
            return
        found = self.files.get(key)
        if found is not None and found != data and not self.files.replace_exactly(key, found, data):
            raise ClusterRefused(
                f"{key} has other bytes than its name says, and cannot be replaced",
                reason="resource_payload_write_error",
                path=address,
            )

    def payload(self, address: str, digest: str) -> bytes:
        """The text of a query or policy; refuses one that is missing or has other bytes."""
        key = f"{_CATALOG}/{catalog_key(address, digest)}"
        data = self.files.get(key)
        if data is None:
            raise ClusterRefused(
                f"{address}: {key} is missing; run `cluster apply` to write it again",
                reason="catalog_payload_missing",
                path=address,
            )
        if sha256(data) != digest:
            raise ClusterRefused(
                f"{address}: {key} has other bytes than its name says; run `cluster apply` to "
                "write it again",
                reason="catalog_payload_digest_mismatch",
                path=address,
            )
        return data

    # Intents.

    def write_intent(self, intent: ClusterIntent) -> None:
        self.files.put(f"{_RECOVERIES}/{intent.operation_id}.json", _json(intent.to_dict()))

    def retire_intent(self, operation_id: str) -> None:
        self.files.delete(f"{_RECOVERIES}/{operation_id}.json")

    def intents(self) -> list[ClusterIntent]:
        """All intents, oldest first; refuses one that this program cannot understand."""
        found = []
        for name in self.files.list(_RECOVERIES):
            data = self.files.get(f"{_RECOVERIES}/{name}")
            if data is not None:
                found.append(_intent(data, f"{_RECOVERIES}/{name}"))
        return sorted(found, key=lambda each: each.operation_id)

    # Approvals.

    def write_approval(self, approval: Approval) -> None:
        self.files.put(f"{_APPROVALS}/{approval.approval_id}.json", _json(approval.to_dict()))

    def mark_consumed(self, approval: Approval, when: str, operation: str) -> None:
        """Write into the file that the approval was used; the ledger has it already."""
        key = f"{_APPROVALS}/{approval.approval_id}.json"
        used = {"consumed_at": when, "consumed_by_operation": operation}
        self.files.replace_exactly(
            key, _json(approval.to_dict()), _json({**approval.to_dict(), **used})
        )

    def approvals(self) -> list[Approval]:
        """All approvals, oldest first. An unreadable file approves nothing."""
        found = []
        for name in self.files.list(_APPROVALS):
            data = self.files.get(f"{_APPROVALS}/{name}")
            approval = None if data is None else _approval(data)
            if approval is not None:
                found.append(approval)
        return found

    # Graphs.

    def graph_objects(self, graph_id: str) -> list[str]:
        """The keys below the root of a graph."""
        return [each.path for each in self.files.walk(_graph_prefix(graph_id))]

    def graph_files(self, graph_id: str) -> ControlFiles:
        """The small objects of a graph, by keys below its root."""
        return open_control_files(self.location.below(_graph_prefix(graph_id)))

    def delete_manifest(self, graph_id: str) -> None:
        """Remove what makes a graph a graph, so that a part of one is never opened."""
        prefix = f"{_graph_prefix(graph_id)}/{MANIFEST}/"
        self.files.delete_many(
            [key for key in self.graph_objects(graph_id) if key.startswith(prefix)]
        )

    def delete_graph(self, graph_id: str) -> None:
        """Remove all objects of a graph, the manifest first."""
        self.delete_manifest(graph_id)
        self.files.delete_many(self.graph_objects(graph_id))
        self.files.remove_empty_folders(_graph_prefix(graph_id))


def _graph_prefix(graph_id: str) -> str:
    return f"{CLUSTER_GRAPHS}/{graph_id}{GRAPH_SUFFIX}"


def open_root(uri: str, environment: Mapping[str, str] | None = None) -> ClusterRoot:
    try:
        location = parse_location(uri, os.environ if environment is None else environment)
    except OmnigraphError as error:
        raise ClusterRefused(error.message, reason="invalid_storage_root", path=uri) from error
    return ClusterRoot(location)


def _json(body: Mapping[str, Any]) -> bytes:
    return (json.dumps(body, indent=2, ensure_ascii=False) + "\n").encode()


def _intent(data: bytes, key: str) -> ClusterIntent:
    try:
        body = json.loads(data)
        version = body["schema_version"]
    except (ValueError, TypeError, KeyError):
        raise _refused("invalid_recovery_sidecar", key, "is no recovery intent") from None
    if version != 1:
        problem = f"has version {version!r}, which this program does not know"
        raise _refused("unsupported_recovery_sidecar_version", key, problem)
    if not body.get("graph_id"):
        raise _refused("cluster_recovery_unattributed", key, "names no graph")
    try:
        found = ClusterIntent(**body)
    except TypeError as error:
        raise _refused("invalid_recovery_sidecar", key, f"is no intent: {error}") from None
    if found.kind not in _INTENT_KINDS or key.rpartition("/")[2] != f"{found.operation_id}.json":
        raise _refused("invalid_recovery_sidecar", key, "has an unknown kind or another name")
    return found


def _refused(reason: str, key: str, problem: str) -> ClusterRefused:
    advice = "look at it, and remove it when the graph that it names is sound"
    return ClusterRefused(f"{key} {problem}: {advice}", reason=reason, path=key)


def _approval(data: bytes) -> Approval | None:
    try:
        found = Approval(**json.loads(data))
    except (ValueError, TypeError):
        return None
    return found if found.schema_version == 1 else None
