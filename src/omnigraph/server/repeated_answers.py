"""Answers to requests that came before, byte for byte, while their state is still the head.

A repeated request is not decoded again. The policy is asked, the limit of reads is looked at, and
the head of the branch is compared, as for any other read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnigraph.manifest.snapshot import Snapshot
from omnigraph.server.calls import Call
from omnigraph.server.compression import SMALLEST_PACKED
from omnigraph.server.replies import Headers, Reply
from omnigraph.values.bounded_cache import BoundedCache

_MOST_ANSWERS = 8 * 1024
_SHARE = 4
"""The part of the memory for answers that this takes: these answers are the smallest."""
_ENTRY_BYTES = 2048


@dataclass(frozen=True, slots=True)
class RepeatedAnswer:
    """A whole answer, and the state as its actor saw it."""

    snapshot: Snapshot
    headers: Headers
    content: bytes
    notes: dict[str, Any]


class RepeatedAnswers:
    """The answers of one process, bounded in bytes."""

    def __init__(self, answer_bytes: int) -> None:
        self._answers: BoundedCache[Any, RepeatedAnswer] = BoundedCache(
            _MOST_ANSWERS, answer_bytes // _SHARE
        )

    def find(self, call: Call) -> RepeatedAnswer | None:
        """The answer to this request, if the state that its actor sees is the same."""
        found = self._answers.get(_key(call))
        if found is None or b"if-none-match" in call.given:
            return None
        admission = call.state.admission
        if admission.inflight["read"] >= admission.limits.reads:
            return None  # the read itself is refused, and counted as such
        # The same object: no commit, no change of the rules, and no other rules.
        if call.graph.snapshot(found.snapshot.graph_branch) is not found.snapshot:
            return None
        return found

    def keep(self, call: Call, reply: Reply) -> None:
        """Keep a small answer of the head of a graph on local disk."""
        snapshot = reply.snapshot
        if snapshot is None or reply.status != 200 or call.headers:
            return
        content = reply.content()
        # Larger ones depend on the compression that the client takes. On an object store the look
        # at the head is a request, for which the event loop must not wait.
        if len(content) >= SMALLEST_PACKED or call.graph.engine.store.location.path is None:
            return
        headers = [
            *reply.headers,
            (b"content-type", reply.media_type),
            (b"content-length", str(len(content)).encode()),
        ]
        weight = _ENTRY_BYTES + len(content) + len(call.raw)
        self._answers.put(
            _key(call), RepeatedAnswer(snapshot, headers, content, call.notes), weight
        )


def _key(call: Call) -> Any:
    given = call.given
    return (
        call.graph_id,
        call.actor,
        call.route.path,
        given.get(b"accept"),
        given.get(b"content-type"),
        call.raw,
    )
