"""The state ledger: what was applied, with statuses, observations and records.

It is one JSON object, replaced with compare-and-swap. Its token is the digest of its bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from omnigraph.cluster.resources import (
    GRAPH,
    ResourceEntry,
    graph_digest,
    kind_of,
    name_of,
    sha256,
)
from omnigraph.errors import ClusterRefused

VERSION = 1
APPLIED = "applied"
BLOCKED = "blocked"
DRIFTED = "drifted"
FAILED = "error"
PENDING = "pending"

_SECTIONS = ("resource_statuses", "approval_records", "recovery_records", "observations")
_KEYS = ("version", "state_revision", "applied_revision", *_SECTIONS)


@dataclass(slots=True)
class Ledger:
    """The content of `state.json`. `config_digest` is set only when everything was applied."""

    revision: int = 0
    config_digest: str | None = None
    resources: dict[str, ResourceEntry] = field(default_factory=dict)
    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)
    approvals: dict[str, dict[str, Any]] = field(default_factory=dict)
    recoveries: dict[str, dict[str, Any]] = field(default_factory=dict)
    observations: dict[str, dict[str, Any]] = field(default_factory=dict)

    def copy(self) -> Ledger:
        return deepcopy(self)

    def digest(self, address: str) -> str | None:
        entry = self.resources.get(address)
        return None if entry is None else entry.digest

    @property
    def graph_ids(self) -> list[str]:
        return [name_of(address) for address in self.resources if kind_of(address) == GRAPH]

    def set_status(
        self, address: str, status: str, conditions: tuple[str, ...] = (), message: str = ""
    ) -> None:
        found: dict[str, Any] = {"status": status, "conditions": list(conditions)}
        if message:
            found["message"] = message
        self.statuses[address] = found

    def to_dict(self) -> dict[str, Any]:
        applied: dict[str, Any] = {
            "resources": {name: entry.to_dict() for name, entry in sorted(self.resources.items())}
        }
        if self.config_digest is not None:
            applied = {"config_digest": self.config_digest, **applied}
        sections = {
            "resource_statuses": self.statuses,
            "approval_records": self.approvals,
            "recovery_records": self.recoveries,
            "observations": self.observations,
        }
        return {
            "version": VERSION,
            "state_revision": self.revision,
            "applied_revision": applied,
            **{name: dict(sorted(part.items())) for name, part in sections.items() if part},
        }

    def to_bytes(self) -> bytes:
        return (json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n").encode()


@dataclass(frozen=True, slots=True)
class StoredLedger:
    """A ledger as it was read. Without `data` there is none yet, and the ledger is empty."""

    ledger: Ledger
    data: bytes | None

    @property
    def found(self) -> bool:
        return self.data is not None

    @property
    def cas(self) -> str | None:
        return None if self.data is None else cas_token(self.data)


def cas_token(data: bytes) -> str:
    return f"sha256:{sha256(data)}"


def parse_ledger(data: bytes) -> Ledger:
    """Read the bytes of a ledger; refuses unknown keys and newer versions."""
    try:
        body = json.loads(data)
    except ValueError as error:
        raise _invalid(f"is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise _invalid("holds no object")
    if body.get("version") != VERSION:
        raise ClusterRefused(
            f"the ledger has version {body.get('version')!r}, and this program knows version "
            f"{VERSION}: use the program that wrote it",
            reason="unsupported_state_version",
            path="__cluster/state.json",
        )
    _known(body, _KEYS)
    revision, applied = body.get("state_revision"), body.get("applied_revision")
    if isinstance(revision, bool) or not isinstance(revision, int) or revision < 0:
        raise _invalid("has no state_revision")
    if not isinstance(applied, dict):
        raise _invalid("has no applied_revision")
    _known(applied, ("config_digest", "resources"))
    sections = {name: body.get(name) or {} for name in _SECTIONS}
    if not all(_is_section(part) for part in sections.values()):
        raise _invalid("has a section that does not hold objects")
    return Ledger(
        revision,
        applied.get("config_digest"),
        _entries(applied.get("resources") or {}),
        *(sections[name] for name in _SECTIONS),
    )


def _is_section(part: Any) -> bool:
    return isinstance(part, dict) and all(isinstance(each, dict) for each in part.values())


def _entries(body: Any) -> dict[str, ResourceEntry]:
    if not isinstance(body, dict):
        raise _invalid("has resources that are no object")
    found = {}
    for address, entry in body.items():
        try:
            found[address] = ResourceEntry.from_dict(entry)
        except (ValueError, TypeError, AttributeError) as error:
            raise _invalid(f"has a wrong entry {address}: {error}") from None
    return found


def _known(body: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    unknown = sorted(body.keys() - set(keys))
    if unknown:
        raise _invalid(f"has unknown keys: {', '.join(unknown)}")


def _invalid(problem: str) -> ClusterRefused:
    return ClusterRefused(
        f"the ledger {problem}. Restore it from a backup: it is never edited by hand",
        reason="invalid_state_json",
        path="__cluster/state.json",
    )


def check_graph_digests(ledger: Ledger) -> None:
    """Refuse a ledger in which a graph and its parts do not fit together."""
    for address, entry in ledger.resources.items():
        if kind_of(address) != GRAPH:
            continue
        if graph_digest(name_of(address), entry, ledger.resources) != entry.digest:
            raise ClusterRefused(
                f"the ledger does not fit together at {address}: its digest is not that of its "
                "parts. Restore the ledger from a backup: it is never edited by hand",
                reason="external_blob_policy_digest_mismatch",
                path=address,
            )
