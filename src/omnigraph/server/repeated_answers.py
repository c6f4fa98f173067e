"""Answers to requests that came before, byte for byte, while their state is still the head.

A repeated request is found by its path, its body and the headers that the answer depends on, before
anything is made for it. The token is checked, the policy is asked, the limit of reads is looked at
and the head of the branch is compared, as for any other read. Whatever is not exactly as before
goes the way of all requests.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import OmnigraphError
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.server.calls import Call
from omnigraph.server.compression import SMALLEST_PACKED
from omnigraph.server.exchange import (
    AccessLine,
    Exchange,
    is_logged,
    log_access,
    request_id_of,
)
from omnigraph.server.replies import CONDITION, Refusal, Reply, Scope, WholeAnswer, head_lines
from omnigraph.server.served_graphs import ServedGraph
from omnigraph.server.state import ServerState
from omnigraph.values.bounded_cache import BoundedCache

_MOST_ANSWERS = 8 * 1024
_SHARE = 4
"""The part of the memory for answers that this takes: these answers are the smallest."""
_ENTRY_BYTES = 2048
_LARGEST_BODY = 64 * 1024
_DECIDED_LATER = frozenset(
    {b"content-encoding", b"idempotency-key", b"if-none-match", b"traceparent", CONDITION}
)
"""A request with one of these headers takes the longer way."""


@dataclass(frozen=True, slots=True)
class RepeatedAnswer:
    """A whole answer, and the graph and its state as the actor saw them."""

    served: ServedGraph
    snapshot: Snapshot
    route: str
    head: bytes
    """The lines of its headers, without the id of the request."""
    content: bytes
    notes: dict[str, Any]


class RepeatedAnswers:
    """The answers of one process, bounded in bytes."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        # By request, and then by actor, so that a request is looked up before its token.
        self._answers: BoundedCache[Any, dict[str | None, RepeatedAnswer]] = BoundedCache(
            _MOST_ANSWERS, state.settings.limits.answer_bytes // _SHARE
        )

    def answer(self, scope: Scope, body: bytes) -> WholeAnswer | None:
        """The answer to a repeated request, which is counted and logged; None: it is none."""
        began = time.perf_counter()
        given = scope["headers"]
        headers = dict(given)
        if len(headers) != len(given) or not headers.keys().isdisjoint(_DECIDED_LATER):
            return None
        if scope["query_string"]:
            return None
        by_actor = self._answers.get(
            (scope["path"], body, headers.get(b"accept"), headers.get(b"content-type"))
        )
        if by_actor is None:
            return None
        state = self._state
        try:
            actor = None
            if state.needs_token:
                name = headers.get(b"authorization")
                actor = state.tokens.actor_of(None if name is None else name.decode("latin-1"))
            found = by_actor.get(actor)
            if found is None or not self._holds(found, actor):
                return None
        except (OmnigraphError, Refusal):
            return None  # refused as all requests are, with its line in the log
        request_id = request_id_of(given)
        graph_id, seconds = found.served.graph_id, time.perf_counter() - began
        state.metrics.observe(found.route, "POST", 200, graph_id, seconds)
        if is_logged():
            log_access(
                AccessLine(
                    request_id,
                    "POST",
                    found.route,
                    graph_id,
                    actor,
                    200,
                    seconds,
                    len(body),
                    len(found.content),
                    found.notes,
                )
            )
        head = found.head + b"x-request-id: " + request_id.encode() + b"\r\n"
        return WholeAnswer(200, head, found.content)

    def _holds(self, found: RepeatedAnswer, actor: str | None) -> bool:
        """Whether the same read would give the same answer now. Asks the policy."""
        state, served = self._state, found.served
        if state.graphs.find(served.graph_id) is not served:
            return False
        admission = state.admission
        if admission.inflight["read"] >= admission.limits.reads:
            return False  # the read itself is refused, and counted as such
        # The same object: no commit, no change of the rules, and no other rules.
        graph = served.as_actor(actor)
        return graph.snapshot(found.snapshot.graph_branch) is found.snapshot

    def keep(self, call: Call, reply: Reply, exchange: Exchange) -> None:
        """Keep a small answer of the head of a graph on local disk."""
        snapshot, served = reply.snapshot, call.served
        if snapshot is None or served is None or reply.status != 200 or call.headers:
            return
        content = reply.content()
        # Larger ones depend on the compression that the client takes. On an object store the look
        # at the head is a request, for which the event loop must not wait.
        small = len(content) < SMALLEST_PACKED and len(call.raw) <= _LARGEST_BODY
        if not small or call.graph.engine.store.location.path is None:
            return
        headers = [
            *reply.headers,
            (b"content-type", reply.media_type),
            (b"content-length", str(len(content)).encode()),
            *(header for header in exchange.headers if header[0] != b"x-request-id"),
        ]
        answer = RepeatedAnswer(
            served, snapshot, exchange.route, head_lines(headers), content, dict(call.notes)
        )
        key = (
            call.scope["path"],
            call.raw,
            call.given.get(b"accept"),
            call.given.get(b"content-type"),
        )
        by_actor = {**(self._answers.get(key) or {}), call.actor: answer}
        weight = len(call.raw) + (_ENTRY_BYTES + len(content)) * len(by_actor)
        self._answers.put(key, by_actor, weight)
