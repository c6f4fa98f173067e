"""The commit a write would make, before it knows its parent and time."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.changes.changeset import MergedHead
from omnigraph.errors import OutcomeUnknown, StorageFailure
from omnigraph.manifest.publication import CommitDraft, Publication


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


def outcome_unknown(publication: Publication, error: StorageFailure) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the write could be neither published nor undone ({error}); its intent "
        f"{publication.intent_id} stays and the next writer settles it",
        commit_id=publication.commit.commit_id if publication.commit else None,
        operation_id=publication.intent_id,
    )
