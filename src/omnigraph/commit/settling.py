"""Publish until the outcome is known; the receipt, or the error when it stays unknown."""

from __future__ import annotations

from omnigraph.commit.request import WriteReceipt, WriteRequest, receipt_of
from omnigraph.errors import OutcomeUnknown, StorageFailure, StorageFull
from omnigraph.manifest.publication import Publication, fingerprint_of, require_same_request
from omnigraph.manifest.publisher import Published, Publisher, Repeated
from omnigraph.manifest.records import BranchRef
from omnigraph.tracing import span
from omnigraph.values.clock import Clock

_PUBLISH_ATTEMPTS = 4
_PUBLISH_PAUSE_SECONDS = 0.2


def publish_until_known(
    publisher: Publisher, ref: BranchRef, publication: Publication, clock: Clock
) -> Published | Repeated:
    """Publish, and repeat when the answer is lost.

    The commit id is fixed, so the next try finds a commit that landed without an answer.
    """
    for attempt in range(1, _PUBLISH_ATTEMPTS + 1):
        try:
            with span("commit publish"):
                return publisher.publish(ref, publication)
        except StorageFailure as error:
            if isinstance(error, StorageFull) and attempt == 1:
                raise  # it was not published, and waiting frees no space
            if attempt == _PUBLISH_ATTEMPTS:
                commit_id = publication.commit.commit_id if publication.commit else None
                raise outcome_unknown(publication.intent_id, commit_id, error) from error
            clock.sleep(_PUBLISH_PAUSE_SECONDS * attempt)
    raise AssertionError("unreachable")


def outcome_unknown(
    intent_id: str, commit_id: str | None, error: BaseException | None
) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the write could be neither published nor undone ({error}). Its intent "
        f"{intent_id} stays, and the next writer finishes or undoes it",
        commit_id=commit_id,
        operation_id=intent_id,
    )


def receipt_from(request: WriteRequest, found: Published | Repeated) -> WriteReceipt:
    """The receipt of a commit; refuses a key whose first request asked for something else."""
    repeated = isinstance(found, Repeated)
    key, commit = request.idempotency_key, found.commit
    # A batch that was committed before may have come with another key.
    if repeated and commit is not None and key is not None and commit.idempotency_key == key:
        require_same_request(commit, key, fingerprint_of(request.details))
    return receipt_of(request.branch, found.commit, repeated=repeated)
