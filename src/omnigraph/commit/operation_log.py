"""Long work that answers later: its record under the graph, and its state after a crash.

An operation is a few small objects in `__operations`: one when it begins, which its process holds,
one with its progress, one when it ends, and one that decides whether it publishes or is cancelled.
The first writer of the last one decides. When the process of the operation died, the commit log
decides what became of it: the operation had an idempotency key, and its commit has the same. A
write that died before its publication may be finished by recovery, so recovery comes first.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from omnigraph.commit.intents import IntentBoard
from omnigraph.errors import CommitRejected, NotFound, OmnigraphError, ResourceLimit
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.layout import OPERATIONS
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import Commit
from omnigraph.values.clock import Clock, ulid_micros
from omnigraph.values.processes import has_ended, this_process

Json = dict[str, Any]

QUEUED, RUNNING = "queued", "running"
SUCCEEDED, FAILED, CANCELLED, UNKNOWN = "succeeded", "failed", "cancelled", "unknown"
_KEPT_MICROS = 86_400_000_000
_BEGUN, _ENDED, _DECIDED = ".begun.json", ".ended.json", ".decided.json"
_PROGRESS = ".progress.json"
_OBJECTS = (_BEGUN, _PROGRESS, _DECIDED, _ENDED)
_PUBLISHES, _IS_CANCELLED = b'{"decided":"publish"}', b'{"decided":"cancel"}'


@dataclass(frozen=True, slots=True)
class OperationBegun:
    """What is known about an operation before it runs."""

    operation_id: str
    kind: str
    actor_id: str | None
    created_at: int
    commit_operation: str | None
    """`Commit.operation` of the commit that it makes; None when it makes none."""
    branch: str | None
    idempotency_key: str
    host: str
    process: str

    def to_json(self) -> Json:
        return {name: getattr(self, name) for name in self.__slots__}


class RunningOperation:
    """An operation of this process."""

    def __init__(
        self, begun: OperationBegun, may_publish: Callable[[], bool], release: Callable[[], None]
    ) -> None:
        self.begun = begun
        self.cancel = threading.Event()
        self.started_at: int | None = None
        self.progress: Json | None = None
        self.told: bytes | None = None
        """What the other workers know of its progress."""
        self._may_publish = may_publish
        self._publishes = False
        self._lock = threading.Lock()
        self._release = release

    def reached(self, progress: Json, *, publishes: bool) -> None:
        """Note its next step; raises if it was asked to stop before it began to publish."""
        with self._lock:
            if publishes and not self._publishes and not self.cancel.is_set():
                self._publishes = self._may_publish()
                if not self._publishes:
                    self.cancel.set()
        if self.cancel.is_set():
            raise ResourceLimit("the operation was cancelled", limit="cancelled")
        self.progress = progress

    def release(self) -> None:
        self._release()


class OperationLog:
    """The operations of one graph."""

    def __init__(
        self,
        reader: ManifestReader,
        board: IntentBoard,
        recover: Callable[[], object],
        clock: Clock,
    ) -> None:
        """`recover` finishes or undoes what dead writers left."""
        self._reader = reader
        self._board = board
        self._recover = recover
        self._files = reader.store.files
        self._is_local = reader.store.location.path is not None
        self._commits = CommitGraph(reader)
        self._clock = clock
        self._here: dict[str, RunningOperation] = {}

    def begin(
        self,
        kind: str,
        actor: str | None,
        key: str | None,
        commit_operation: str | None,
        branch: str | None,
    ) -> RunningOperation:
        """Record that an operation is about to run. Without a key of the caller it makes one."""
        operation_id = self._clock.new_ulid()
        begun = OperationBegun(
            operation_id=operation_id,
            kind=kind,
            actor_id=actor,
            created_at=self._clock.now_micros(),
            commit_operation=commit_operation,
            branch=branch,
            idempotency_key=key or f"operation-{operation_id}",
            host=socket.gethostname(),
            process=this_process(),
        )
        body = json.dumps(begun.to_json()).encode()
        release = self._files.put_held(_place(operation_id, _BEGUN), body)
        assert release is not None, "a new id is not taken"
        decided = _place(operation_id, _DECIDED)
        operation = RunningOperation(begun, lambda: self._files.put(decided, _PUBLISHES), release)
        self._here[operation_id] = operation
        return operation

    def end(
        self,
        operation: RunningOperation,
        status: str,
        result: Json | None = None,
        error: Json | None = None,
    ) -> None:
        """Record how it ended."""
        body = {
            "status": status,
            "started_at": operation.started_at,
            "finished_at": self._clock.now_micros(),
            "result": result,
            "error": error,
        }
        name = operation.begun.operation_id
        self._files.put(_place(name, _ENDED), json.dumps(body, default=str).encode())
        self._here.pop(name, None)
        operation.release()

    def show(self, operation_id: str, *, read_only: bool = False) -> Json:
        """The operation object, whichever process runs or ran it.

        The work of a dead process is recovered first, unless this process only reads.
        """
        begun = self._begun(operation_id)
        found: Json = {
            "operation_id": operation_id,
            "kind": begun.kind,
            "actor_id": begun.actor_id,
            "status": RUNNING,
            "progress": None,
            "created_at": begun.created_at,
        }
        ended = self._ended(operation_id)
        if ended is not None:
            return found | ended
        here = self._here.get(operation_id)
        if here is not None:
            started = {"started_at": here.started_at} if here.started_at else {"status": QUEUED}
            return found | {"progress": here.progress, **started}
        alive = self._is_alive(begun)
        if alive:
            return found | self._told(operation_id)
        if alive is None:
            return found | {"status": UNKNOWN}
        # It may have ended since the first look.
        ended = self._ended(operation_id)
        return found | (ended or self._after_crash(begun, read_only=read_only))

    def _told(self, operation_id: str) -> Json:
        """How far an operation of another process is, as that process told it last."""
        told = self._files.get(_place(operation_id, _PROGRESS))
        return {} if told is None else dict(json.loads(told))

    def _ended(self, operation_id: str) -> Json | None:
        """The members that the process of the operation wrote when it ended."""
        ended = self._files.get(_place(operation_id, _ENDED))
        if ended is None:
            return None
        return {name: value for name, value in json.loads(ended).items() if value is not None}

    def _is_alive(self, begun: OperationBegun) -> bool | None:
        """None when nothing here can tell: an object store, and a process of another machine."""
        place = _place(begun.operation_id, _BEGUN)
        if self._is_local:
            return not self._files.holder_is_dead(place)
        ended = has_ended(begun.process)
        return None if ended is None else not ended

    def _after_crash(self, begun: OperationBegun, *, read_only: bool) -> Json:
        commit = self.commit_of(begun)
        if commit is None and begun.commit_operation is not None:
            if not read_only:
                with suppress(OmnigraphError):  # then its intent is still there
                    self._recover()
            if self._may_be_finished(begun):
                return {"status": UNKNOWN}
            commit = self.commit_of(begun)
        if commit is not None:
            result = {"commit": commit.to_dict(), "repeated": True}
            return {"status": SUCCEEDED, "finished_at": commit.created_at, "result": result}
        lost = "the process that ran this operation died before it was done"
        if begun.commit_operation is not None:
            lost = f"{lost}; nothing changed"
        return {"status": FAILED, "error": {"error": lost, "retryable": True}}

    def _may_be_finished(self, begun: OperationBegun) -> bool:
        """Whether an intent is left that recovery, or a repetition, publishes with this key."""
        drafts = [
            seen.intent.publication.commit
            for seen in self._board.others()
            if seen.intent.publication is not None
        ]
        return any(
            (draft.idempotency_key, draft.actor_id) == (begun.idempotency_key, begun.actor_id)
            for draft in drafts
            if draft is not None
        )

    def commit_of(self, begun: OperationBegun) -> Commit | None:
        """The commit that the operation made, if it made one."""
        if begun.commit_operation is None or begun.branch is None:
            return None
        with suppress(NotFound):
            _, state = self._reader.branch(begun.branch)
            return self._commits.find_by_key(
                state,
                begun.idempotency_key,
                begun.created_at,
                begun.actor_id,
                begun.commit_operation,
            )
        return None

    def list(self, *, read_only: bool = False) -> list[Json]:
        """All operations of the last day, newest first. Older ones are removed."""
        self.sweep()
        names = [name for name in self._files.list(OPERATIONS) if name.endswith(_BEGUN)]
        return [
            self.show(name.removesuffix(_BEGUN), read_only=read_only) for name in reversed(names)
        ]

    def ask_cancel(self, operation_id: str) -> Json:
        """Ask for the end; refused for an operation that has ended, or publishes, or has done so.

        One of another process hears of it within a second, or when it is about to publish.
        """
        begun, found = self._begun(operation_id), self.show(operation_id)
        state = found["status"]
        stops = state in (QUEUED, RUNNING) and self.commit_of(begun) is None
        if stops and not self._decide_to_cancel(operation_id):
            stops, state = False, "publishing"
        if not stops:
            raise CommitRejected(
                f"operation {operation_id} cannot be cancelled any more: it is {state}"
            )
        here = self._here.get(operation_id)
        if here is not None:
            here.cancel.set()
        return found

    def _decide_to_cancel(self, operation_id: str) -> bool:
        """False: the operation has begun to publish, and comes to its end."""
        decided = _place(operation_id, _DECIDED)
        return self._files.put(decided, _IS_CANCELLED) or self._files.get(decided) == _IS_CANCELLED

    def notice_cancellations(self) -> None:
        """Look for requests that other workers took; called now and then by each worker."""
        if not self._here:
            return
        names = {name for name in self._files.list(OPERATIONS) if name.endswith(_DECIDED)}
        for name, operation in list(self._here.items()):
            decided = f"{name}{_DECIDED}"
            if decided in names and self._files.get(f"{OPERATIONS}/{decided}") == _IS_CANCELLED:
                operation.cancel.set()

    def tell_progress(self) -> None:
        """Write how far the operations of this process are; called now and then, for others."""
        for name, operation in list(self._here.items()):
            if operation.started_at is None:
                continue
            body = {"started_at": operation.started_at, "progress": operation.progress}
            now, place = json.dumps(body).encode(), _place(name, _PROGRESS)
            if operation.told is None:
                self._files.put(place, now, synced=False)
            elif now != operation.told:
                self._files.replace_exactly(place, operation.told, now)
            operation.told = now

    def sweep(self) -> None:
        """Remove the objects of operations that ended, or died, more than a day ago."""
        oldest = self._clock.now_micros() - _KEPT_MICROS
        latest: dict[str, int] = {}
        for file in self._files.walk(OPERATIONS):
            operation_id = file.path.rpartition("/")[2].partition(".")[0]
            latest[operation_id] = max(latest.get(operation_id, 0), file.modified)
        for operation_id, modified in latest.items():
            if modified < oldest and ulid_micros(operation_id) is not None:
                self._remove_ended(operation_id)

    def _remove_ended(self, operation_id: str) -> None:
        """Remove all objects of one operation, unless a process runs it."""
        with suppress(NotFound):
            begun = self._begun(operation_id)
            if self._ended(operation_id) is None and self._is_alive(begun):
                return
        self._files.delete_many([_place(operation_id, kind) for kind in _OBJECTS])

    def _begun(self, operation_id: str) -> OperationBegun:
        known = ulid_micros(operation_id) is not None
        data = self._files.get(_place(operation_id, _BEGUN)) if known else None
        if data is None:
            raise NotFound(f"no operation {operation_id!r}; they are kept for a day")
        return OperationBegun(**json.loads(data))


def _place(operation_id: str, suffix: str) -> str:
    return f"{OPERATIONS}/{operation_id}{suffix}"
