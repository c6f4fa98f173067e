"""What every write reports: its commit in the log and the metrics, and whether it was repeated."""

from __future__ import annotations

from omnigraph.manifest.records import Commit
from omnigraph.server.calls import Call

REPLAYED = (b"idempotency-replayed", b"true")


def noted(call: Call, commit: Commit | None, *, repeated: bool = False) -> None:
    if repeated:
        call.headers.append(REPLAYED)
    if commit is None:
        return
    call.notes["graph_commit_id"] = commit.graph_commit_id
    if not repeated:
        call.state.metrics.committed(call.graph_id or "", commit.operation)
