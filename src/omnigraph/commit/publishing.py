"""Publish, and if the answer is lost ask again until it is known."""

from __future__ import annotations

from omnigraph.errors import OutcomeUnknown, StorageFailure, StorageFull
from omnigraph.manifest.publication import Publication
from omnigraph.manifest.publisher import Published, Publisher, Repeated
from omnigraph.manifest.records import BranchRef
from omnigraph.values.clock import Clock

_ATTEMPTS = 4
_PAUSE = 0.2


def publish_until_known(
    publisher: Publisher, ref: BranchRef, publication: Publication, clock: Clock
) -> Published | Repeated:
    """The commit id is fixed, so a lost answer is found as our own success on the next try."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return publisher.publish(ref, publication)
        except StorageFailure as error:
            if isinstance(error, StorageFull) and attempt == 1:
                raise  # certainly not published, and a moment's wait frees no space
            if attempt == _ATTEMPTS:
                raise outcome_unknown(publication, error) from error
            clock.sleep(_PAUSE * attempt)
    raise AssertionError("unreachable")


def outcome_unknown(publication: Publication, error: StorageFailure) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the write could be neither published nor undone ({error}); its intent "
        f"{publication.intent_id} stays and the next writer settles it",
        commit_id=publication.commit.commit_id if publication.commit else None,
        operation_id=publication.intent_id,
    )
