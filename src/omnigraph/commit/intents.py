"""Intents: each writer in flight posts one where every process sees it.

An intent is one object `__recovery/<intent id>.json`. It names the resources that its writer takes
and the publication that it prepares. It is complete: the process that finds it can finish or undo
the write. A renewal or a takeover adds an object `<intent id>.epoch.<n>`; only one process can
create the next epoch, so renewal and takeover exclude each other.

`Intent` is the data, `IntentBoard` does all I/O on `__recovery/`.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from omnigraph.errors import CorruptIntent, StorageFailure
from omnigraph.lance_store.objects.control_files import ControlFiles
from omnigraph.manifest.layout import RECOVERY
from omnigraph.manifest.publication import Publication
from omnigraph.manifest.records import BranchRef
from omnigraph.values.clock import Clock
from omnigraph.values.identifiers import TableKey

_FORMAT = 1

GC = "gc"
"""The resource of cleanup, which takes it exclusively. Shared, it keeps cleanup away."""


class IntentKind(StrEnum):
    """Decides what recovery does with a dead intent."""

    WRITE = "write"
    """Content: rolled forward when every table has advanced, else back."""
    GROUP = "group"
    """Several writes with one publication: finished when it was published, else rolled back."""
    MAINTENANCE = "maintenance"
    """Physical only: always rolled back."""
    BRANCH_DELETE = "branch_delete"
    """Finished when the head is marked deleted, else dropped."""
    FRESH_BRANCH = "fresh_branch"
    """A branch made for one write: deleted again unless something was committed to it."""
    HOLD = "hold"
    """Keeps cleanup away; moves nothing, so it is dropped."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Names of tables, branches and schemas that a writer takes exclusively or shares."""

    exclusive: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()

    def overlaps(self, other: Resources) -> bool:
        """Writers that share a resource run side by side; an exclusive one excludes all others."""
        return not (
            self.exclusive.isdisjoint(other.exclusive)
            and self.exclusive.isdisjoint(other.shared)
            and self.shared.isdisjoint(other.exclusive)
        )

    def joined(self, other: Resources) -> Resources:
        """What both writers take together. Exclusive wins over shared."""
        exclusive = self.exclusive | other.exclusive
        return Resources(exclusive, (self.shared | other.shared) - exclusive)


@dataclass(frozen=True, slots=True)
class Intent:
    """One attempt of one writer."""

    intent_id: str
    operation_id: str
    """Stable over the attempts of one write: a write that has to repeat grows older and wins."""
    kind: IntentKind
    branch: BranchRef
    resources: Resources
    lease_seconds: float
    actor_id: str | None
    publication: Publication | None
    owner: str | None = None
    """The host and the process id of a lease that other callers are told about."""

    def overlaps(self, other: Intent) -> bool:
        return self.resources.overlaps(other.resources)


def guard_intent(
    kind: IntentKind,
    branch: BranchRef,
    resources: Resources,
    *,
    intent_id: str,
    lease_seconds: float,
    actor_id: str | None,
    owner: str | None = None,
) -> Intent:
    """An intent that takes resources and publishes nothing."""
    return Intent(
        intent_id=intent_id,
        operation_id=intent_id,
        kind=kind,
        branch=branch,
        resources=resources,
        lease_seconds=lease_seconds,
        actor_id=actor_id,
        publication=None,
        owner=owner,
    )


@dataclass(frozen=True, slots=True)
class PostedIntent:
    """An intent of this process on the board.

    `release` gives up the lock that proves that its writer lives, and leaves the object.
    """

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
        "branch": {
            "name": intent.branch.name,
            "incarnation": intent.branch.incarnation,
            "forked_from": intent.branch.forked_from,
            "created_at": intent.branch.created_at,
        },
        "exclusive": sorted(intent.resources.exclusive),
        "shared": sorted(intent.resources.shared),
        "lease_seconds": intent.lease_seconds,
        "actor_id": intent.actor_id,
        "publication": intent.publication.to_json() if intent.publication else None,
    } | ({"owner": intent.owner} if intent.owner else {})
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
        resources=Resources(frozenset(body["exclusive"]), frozenset(body["shared"])),
        lease_seconds=float(body["lease_seconds"]),
        actor_id=body["actor_id"],
        publication=Publication.from_json(publication) if publication else None,
        owner=body.get("owner"),
    )


_NAME = re.compile(r"(?P<id>[0-9A-HJKMNP-TV-Z]{26})\.(?:json|epoch\.(?P<epoch>\d+))")

# Errors of `intent_from_bytes` when the bytes are no intent.
_NO_INTENT = (ValueError, KeyError, TypeError, AttributeError)
_UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class SeenIntent:
    """An intent as a listing showed it. Epoch 0: it was neither renewed nor taken over."""

    intent: Intent
    epoch: int


@dataclass(frozen=True, slots=True)
class Takeover:
    """The right to recover a dead intent. It ends when this epoch is older than the lease."""

    intent: Intent
    epoch: int
    posted: PostedIntent


@dataclass(frozen=True, slots=True)
class PendingIntent:
    """A posted intent for status reports. Of an unreadable one only the id is known."""

    intent_id: str
    kind: str
    graph_branch: str | None
    actor_id: str | None

    @property
    def is_readable(self) -> bool:
        return self.kind != _UNREADABLE


class IntentBoard:
    """The posted intents of one graph.

    A board remembers when it first saw each epoch of each intent, because leases are measured on
    the clock of the observer.
    """

    def __init__(self, files: ControlFiles, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._lock = threading.Lock()
        self._parsed: dict[str, Intent] = {}
        self._first_seen: dict[tuple[str, int], float] = {}

    def post(self, intent: Intent) -> PostedIntent:
        """Make the intent visible. A failure here leaves no trace."""
        key = _key(intent.intent_id)
        try:
            release = self._files.put_held(key, intent_to_bytes(intent))
        except StorageFailure:
            # The object may have landed although the answer was lost; other writers would wait
            # for it until its lease ends.
            with suppress(StorageFailure):
                self._files.delete(key)
            raise
        if release is None:
            raise StorageFailure(f"intent {intent.intent_id} exists already")
        return PostedIntent(intent, release)

    def others(self, than: str | None = None) -> list[SeenIntent]:
        """Every posted intent except the one with id `than`. Raises when the listing fails."""
        epochs = self._list()
        seen = []
        for intent_id, epoch in epochs.items():
            if intent_id == than:
                continue
            intent = self._read(intent_id)
            if intent is not None:
                seen.append(SeenIntent(intent, epoch))
                with self._lock:
                    self._first_seen.setdefault((intent_id, epoch), self._clock.monotonic())
        self._forget_absent(epochs)
        return seen

    def pending(self) -> tuple[PendingIntent, ...]:
        """Everything that is posted, unreadable intents included: for status reports."""
        found = []
        for name in self._files.list(RECOVERY):
            data = self._files.get(f"{RECOVERY}/{name}") if name.endswith(".json") else None
            if data is None:
                continue
            intent_id = name.removesuffix(".json")
            try:
                intent = intent_from_bytes(data)
            except _NO_INTENT:
                found.append(PendingIntent(intent_id, _UNREADABLE, None, None))
            else:
                kind, branch = intent.kind.value, intent.branch.name
                found.append(PendingIntent(intent_id, kind, branch, intent.actor_id))
        return tuple(found)

    def is_dead(self, seen: SeenIntent) -> bool:
        """Its lock proves it, or this process saw no new epoch for the time of a lease."""
        name = seen.intent.intent_id
        holder = _key(name) if seen.epoch == 0 else _epoch_key(name, seen.epoch)
        if self._files.holder_is_dead(holder):
            return True
        since = self._first_seen.get((name, seen.epoch))
        return since is not None and self._clock.monotonic() - since > seen.intent.lease_seconds

    def age_seconds(self, seen: SeenIntent, against: Intent) -> float | None:
        """How much older its newest epoch is than another intent, by the clock of the store."""
        name = seen.intent.intent_id
        epoch = _key(name) if seen.epoch == 0 else _epoch_key(name, seen.epoch)
        moments = {each.path: each.modified for each in self._files.walk(RECOVERY)}
        then, now = moments.get(epoch), moments.get(_key(against.intent_id))
        return None if then is None or now is None else (now - then) / 1_000_000

    def take_over(self, seen: SeenIntent) -> Takeover | None:
        """Create the next epoch. None: another process created it, or the owner has finished."""
        name, epoch = seen.intent.intent_id, seen.epoch + 1
        release = self._files.put_held(_epoch_key(name, epoch), self._signature("takeover"))
        if release is None:
            return None
        if self._files.get(_key(name)) is None:
            self._files.delete(_epoch_key(name, epoch))
            release()
            return None
        return Takeover(seen.intent, epoch, PostedIntent(seen.intent, release))

    def is_gone_or_taken(self, intent: Intent) -> bool:
        """Another process has recovered this intent, or is about to."""
        return self._list().get(intent.intent_id, 1) > 0

    def renew(self, intent: Intent, epoch: int) -> PostedIntent | None:
        """Keep a long-lived intent alive. None: another process took it over, so stop."""
        name = intent.intent_id
        release = self._files.put_held(_epoch_key(name, epoch), self._signature("renewal"))
        if release is None:
            return None
        if self._files.get(_key(name)) is None:
            # It was recovered and removed while this process was stopped.
            self._files.delete(_epoch_key(name, epoch))
            release()
            return None
        return PostedIntent(intent, release)

    def remove(self, intent: Intent, epochs: int = 0) -> None:
        """Delete the object first, then its epochs.

        An epoch without an object is garbage, but an object without its epochs would look like a
        new intent.
        """
        self._files.delete(_key(intent.intent_id))
        for epoch in range(1, epochs + 1):
            self._files.delete(_epoch_key(intent.intent_id, epoch))

    def remove_stray_epochs(self) -> None:
        """Delete epochs whose intent is gone: a process was killed in the middle of `remove`."""
        names = self._files.list(RECOVERY)
        present = {n.removesuffix(".json") for n in names if n.endswith(".json")}
        for name in names:
            match = _NAME.fullmatch(name)
            if match and match["epoch"] and match["id"] not in present:
                self._files.delete(f"{RECOVERY}/{name}")

    def _signature(self, purpose: str) -> bytes:
        """Unique content, so that a process can tell its own epoch from a competitor's."""
        return f"{purpose} {self._clock.new_ulid()}".encode()

    def _list(self) -> dict[str, int]:
        """Intent ids with their highest epoch; stray epochs do not count."""
        present: set[str] = set()
        epochs: dict[str, int] = {}
        for name in self._files.list(RECOVERY):
            match = _NAME.fullmatch(name)
            if match is None:
                continue
            if match["epoch"] is None:
                present.add(match["id"])
            else:
                epochs[match["id"]] = max(epochs.get(match["id"], 0), int(match["epoch"]))
        return {intent_id: epochs.get(intent_id, 0) for intent_id in sorted(present)}

    def _read(self, intent_id: str) -> Intent | None:
        with self._lock:
            known = self._parsed.get(intent_id)
        if known is not None:
            return known
        data = self._files.get(_key(intent_id))
        if data is None:
            return None
        try:
            intent = intent_from_bytes(data)
            if intent.intent_id != intent_id:
                raise ValueError(f"its content is intent {intent.intent_id}")
        except _NO_INTENT as error:
            raise CorruptIntent(
                f"{_key(intent_id)} cannot be read ({error}). It is kept, and writes are refused "
                "until `omnigraph repair --confirm --force` moves it to quarantine",
                file=_key(intent_id),
            ) from error
        with self._lock:
            self._parsed[intent_id] = intent
        return intent

    def _forget_absent(self, epochs: dict[str, int]) -> None:
        with self._lock:
            self._parsed = {i: p for i, p in self._parsed.items() if i in epochs}
            self._first_seen = {k: t for k, t in self._first_seen.items() if k[0] in epochs}


def _key(intent_id: str) -> str:
    return f"{RECOVERY}/{intent_id}.json"


def _epoch_key(intent_id: str, epoch: int) -> str:
    return f"{RECOVERY}/{intent_id}.epoch.{epoch}"
