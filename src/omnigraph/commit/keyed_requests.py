"""Requests with an idempotency key: a second one returns what the first one did.

The key and the fingerprint of a request are in the commit that it makes, so they become durable
together. A request that makes no commit leaves an object in `__requests`. While a request runs, a
held object there lets other processes of this host see it.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from omnigraph.errors import IdempotencyConflict, NotFound, OutcomeUnknown, RequestInFlight
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.layout import REQUESTS
from omnigraph.manifest.publication import FINGERPRINT, REQUEST, require_same_request
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import Commit
from omnigraph.settings.models import HistorySettings
from omnigraph.values.clock import Clock
from omnigraph.values.identifiers import check_ref_name

R = TypeVar("R")
Json = dict[str, Any]

_DAY_MICROS = 86_400_000_000
_STATED = "fingerprint"


def fingerprint(*parts: object) -> str:
    """A hash of what a request asks for."""
    text = json.dumps(parts, sort_keys=True, default=str, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """One request of an actor: its operation, its key, and what it asks for."""

    operation: str
    actor: str | None
    key: str
    fingerprint: str | None
    """None when it is known at the commit only, as for a body that is read as a stream."""
    branch: str | None = None
    """The branch that gets the commit; None for a request that makes none."""

    @property
    def object_name(self) -> str:
        scope = json.dumps([self.actor, self.operation, self.key])
        return hashlib.sha256(scope.encode()).hexdigest()

    @property
    def details(self) -> Json:
        """The part of `Commit.details` that remembers this request."""
        return {REQUEST: {FINGERPRINT: self.fingerprint}} if self.fingerprint else {}


@dataclass(frozen=True, slots=True)
class Replay(Generic[R]):
    """How the result of an earlier request is made again."""

    of_commit: Callable[[Commit], R | None]
    """From its commit; None when the operation finds it itself."""
    to_json: Callable[[R], Json | None]
    """What is stored of a result that made no commit; None stores nothing."""
    of_json: Callable[[Json], R]
    after_crash: Callable[[int], R | None] = lambda _: None
    """The result of a request that began at this time and whose process died, if it was done."""


class KeyedRequests:
    """The requests of one graph that run now, or left a result without a commit."""

    def __init__(self, reader: ManifestReader, settings: HistorySettings, clock: Clock) -> None:
        self._reader = reader
        self._files = reader.store.files
        self._is_local = reader.store.location.path is not None
        self._commits = CommitGraph(reader)
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._running: set[str] = set()

    def once(
        self, request: KeyedRequest | None, run: Callable[[], R], replay: Replay[R]
    ) -> tuple[R, bool]:
        """(the result, whether an earlier request made it). Without a request: just run."""
        if request is None:
            return run(), False
        name = request.object_name
        with self._lock:
            if name in self._running:
                raise _in_flight(request)
            self._running.add(name)
        try:
            return self._once(request, f"{REQUESTS}/{name}", run, replay)
        finally:
            with self._lock:
                self._running.discard(name)

    def _once(
        self, request: KeyedRequest, place: str, run: Callable[[], R], replay: Replay[R]
    ) -> tuple[R, bool]:
        # Held before it looks: otherwise a request that another process ends in between would be
        # made a second time.
        began, release = self._begin(request, place)
        ended = True
        try:
            earlier = self._earlier(request, place, began, replay)
            if earlier is not None:
                return earlier, True
            result = run()
            self._store(request, place, replay.to_json(result))
            return result, False
        except OutcomeUnknown:
            ended = False
            raise
        finally:
            self._end(place, release, remove=ended)

    def _earlier(
        self, request: KeyedRequest, place: str, began: int | None, replay: Replay[R]
    ) -> R | None:
        """The result of an earlier request; `began` is when a process began it that died."""
        earlier = self._stored(request, place, replay)
        if earlier is None:
            earlier = self._committed(request, replay)
        if earlier is None and began is not None:
            earlier = replay.after_crash(began)
            if earlier is not None:
                self._store(request, place, replay.to_json(earlier))
        return earlier

    def _stored(self, request: KeyedRequest, place: str, replay: Replay[R]) -> R | None:
        data = self._files.get(f"{place}.done")
        if data is None:
            return None
        body = json.loads(data)
        if body["at"] < self._oldest():
            self._files.delete(f"{place}.done")
            return None
        known = None not in (request.fingerprint, body[_STATED])
        if body["branch"] != request.branch or (known and request.fingerprint != body[_STATED]):
            raise IdempotencyConflict(_other_request(request.key), key=request.key)
        return replay.of_json(body["result"])

    def _committed(self, request: KeyedRequest, replay: Replay[R]) -> R | None:
        if request.branch is None:
            return None
        branch = check_ref_name(request.branch)
        for state in self._heads(branch):
            commit = self._commits.find_by_key(
                state, request.key, self._oldest(), request.actor, request.operation
            )
            if commit is not None:
                if commit.graph_branch != branch:
                    raise IdempotencyConflict(_other_request(request.key), key=request.key)
                require_same_request(commit, request.key, request.fingerprint)
                return replay.of_commit(commit)
        return None

    def _heads(self, branch: str) -> Iterator[BranchState]:
        """The head of the branch, then those of the others, because a key names no branch."""
        with suppress(NotFound):
            yield self._reader.branch(branch)[1]
        for ref, state in self._reader.live_branches():
            if ref.name != branch:
                yield state

    def _begin(
        self, request: KeyedRequest, place: str
    ) -> tuple[int | None, Callable[[], None] | None]:
        """Hold an object while the request runs; (when a dead process began it, the release)."""
        if not self._is_local and request.branch is not None:
            return None, None  # the commit alone decides, because objects of buckets hold no lock
        body = {"at": self._clock.now_micros(), _STATED: request.fingerprint}
        release = self._files.put_held(place, json.dumps(body).encode())
        if release is not None:
            return None, release
        if self._is_local and not self._files.holder_is_dead(place):
            raise _in_flight(request)
        data = self._files.get(place)
        return (json.loads(data)["at"] if data is not None else None), None

    def _end(self, place: str, release: Callable[[], None] | None, *, remove: bool) -> None:
        if remove:
            self._files.delete(place)
        if release is not None:
            release()

    def _store(self, request: KeyedRequest, place: str, result: Json | None) -> None:
        if result is None:
            return
        body = {
            "at": self._clock.now_micros(),
            _STATED: request.fingerprint,
            "branch": request.branch,
            "result": result,
        }
        self._files.put(f"{place}.done", json.dumps(body).encode())

    def _oldest(self) -> int:
        return self._clock.now_micros() - self._settings.idempotency_days * _DAY_MICROS

    def sweep(self) -> int:
        """Remove objects that are older than keys are kept; returns their number."""
        oldest = self._oldest()
        old = [file.path for file in self._files.walk(REQUESTS) if file.modified < oldest]
        self._files.delete_many(old)
        return len(old)


def _in_flight(request: KeyedRequest) -> RequestInFlight:
    return RequestInFlight(
        f"the first request with the key {request.key!r} still runs: repeat it in a second",
        key=request.key,
    )


def _other_request(key: str) -> str:
    return f"the idempotency key {key!r} was used for another request: use a new key"
