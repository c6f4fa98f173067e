"""Intents: what a writer in flight takes and holds, posted where every process sees it.

One object per attempt in `__recovery/`, plus `.epoch.<n>` objects for which renewal and takeover
compete. An intent is complete: whoever finds it can finish or undo the write it describes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from omnigraph.commit.claims import overlap
from omnigraph.manifest.publication import Publication
from omnigraph.manifest.records import BranchRef
from omnigraph.values.identifiers import TableKey

_FORMAT = 1

GC = "gc"


class IntentKind(StrEnum):
    """What recovery may do with a dead one."""

    WRITE = "write"
    """Content: rolled forward when every table has advanced, else back."""
    MAINTENANCE = "maintenance"
    """Physical only: always rolled back."""
    BRANCH_DELETE = "branch_delete"
    """Finished when the head is marked deleted, else dropped."""
    FRESH_BRANCH = "fresh_branch"
    """A branch made for one write: deleted again unless something was committed to it."""
    HOLD = "hold"
    """Keeps cleanup away; moves nothing, so it is dropped."""


@dataclass(frozen=True, slots=True)
class Intent:
    """One attempt of one writer."""

    intent_id: str
    operation_id: str
    """Stable over the attempts of one write, so that it gets older, not starved."""
    kind: IntentKind
    branch: BranchRef
    exclusive: frozenset[str]
    shared: frozenset[str]
    lease_seconds: float
    actor_id: str | None
    publication: Publication | None

    def overlaps(self, other: Intent) -> bool:
        return overlap(self, other)


@dataclass(frozen=True, slots=True)
class PostedIntent:
    """Our own intent, visible to others until `release` (which leaves the object) or removal."""

    intent: Intent
    release: Callable[[], None]


def table_resource(ref: BranchRef, key: TableKey) -> str:
    return f"{ref.incarnation}/table/{key}"


def branch_resource(ref: BranchRef) -> str:
    return f"{ref.incarnation}/branch"


def schema_resource(ref: BranchRef) -> str:
    return f"{ref.incarnation}/schema"


def intent_to_bytes(intent: Intent) -> bytes:
    body: dict[str, Any] = {
        "format": _FORMAT,
        "intent_id": intent.intent_id,
        "operation_id": intent.operation_id,
        "kind": intent.kind.value,
        "branch": asdict(intent.branch),
        "exclusive": sorted(intent.exclusive),
        "shared": sorted(intent.shared),
        "lease_seconds": intent.lease_seconds,
        "actor_id": intent.actor_id,
        "publication": intent.publication.to_json() if intent.publication else None,
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def intent_from_bytes(data: bytes) -> Intent:
    """Raises ValueError, KeyError or TypeError on anything that is not a whole intent."""
    body = json.loads(data)
    if body["format"] != _FORMAT:
        raise ValueError(f"intent format {body['format']} is not known to this release")
    publication = body["publication"]
    return Intent(
        intent_id=body["intent_id"],
        operation_id=body["operation_id"],
        kind=IntentKind(body["kind"]),
        branch=BranchRef(**body["branch"]),
        exclusive=frozenset(body["exclusive"]),
        shared=frozenset(body["shared"]),
        lease_seconds=float(body["lease_seconds"]),
        actor_id=body["actor_id"],
        publication=Publication.from_json(publication) if publication else None,
    )
