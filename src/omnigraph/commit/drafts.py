"""The commit a write would make, before it knows its parent and time."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.commit.request import WriteRequest
from omnigraph.manifest.publication import CommitDraft
from omnigraph.writes.changeset import MergedHead


def draft_of(request: WriteRequest, commit_id: str) -> CommitDraft:
    return CommitDraft(
        commit_id=commit_id,
        operation=request.operation,
        actor_id=request.actor_id,
        message=request.message,
        idempotency_key=request.idempotency_key,
        stream_batch=request.stream_batch,
    )


def merging(draft: CommitDraft, merged: MergedHead | None) -> CommitDraft:
    if merged is None:
        return draft
    return replace(
        draft,
        merged_parent_commit_id=merged.commit_id,
        merged_history=merged.history,
        equals_merged=merged.fast_forward,
        differs_from_merged=merged.differs,
        not_before=merged.created_at,
    )
