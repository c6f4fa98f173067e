"""Make a staged write durable: only these calls move the HEAD of a dataset."""

from __future__ import annotations

from dataclasses import dataclass

from lance import LanceDataset, LanceOperation
from lance.commit import CommitConflictError
from lance.optimize import Compaction

from omnigraph import failpoints
from omnigraph.lance_store.objects.storage_errors import is_panic, storage_errors
from omnigraph.lance_store.reads.recent_fragments import remember_successor
from omnigraph.lance_store.staging.compaction import RewriteTasks
from omnigraph.lance_store.staging.stage import StagedWrite
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store, head_version


@dataclass(frozen=True, slots=True)
class HeadMoved:
    """HEAD was not at the version that the write was staged on; do not publish the write."""

    at: DatasetVersion
    head: int
    landed_on_top: bool
    """Our transaction was committed above a foreign one, so a restore must undo it."""


def advance(store: Store, staged: StagedWrite) -> DatasetVersion | HeadMoved:
    """Commit strictly: HEAD must be `staged.at`, and the result `staged.result_version`.

    The answer to a successful commit may get lost, or a retry of the client may turn it into a
    conflict. After a failure the transaction is therefore looked up by its uuid.
    """
    dataset = store.open(staged.at)
    try:
        committed = _commit(store, dataset, staged)
    except BaseException as error:
        if not (isinstance(error, (CommitConflictError, OSError)) or is_panic(error)):
            raise
        return _after_failure(store, staged, dataset, error)
    if committed.version != staged.result_version:
        return HeadMoved(staged.at, int(committed.version), landed_on_top=True)
    result = DatasetVersion(staged.at.location, staged.at.branch, int(committed.version))
    store.remember_successor(staged.at, result, committed)
    if not isinstance(staged.transaction, tuple):  # a schema change may rewrite keys in place
        remember_successor(dataset, committed)
    return result


def restore(store: Store, target: DatasetVersion) -> DatasetVersion:
    """Make a new HEAD with the content of `target`; every transaction staged earlier then fails."""
    with storage_errors(f"restoring {target}"):
        head = store.open_head(target.location, target.branch)
        restored = LanceDataset.commit(
            head, LanceOperation.Restore(target.version), read_version=head.version, max_retries=0
        )
    result = DatasetVersion(target.location, target.branch, int(restored.version))
    store.remember(result, restored)
    return result


def transaction_at(store: Store, at: DatasetVersion) -> str | None:
    """The uuid of the transaction that made this version; None when Lance cannot read it."""
    try:
        transaction = store.open(at).read_transaction(at.version)
    except TypeError:
        # pylance 14 cannot decode a compaction of an indexed dataset. No caller needs to recognise
        # one, because maintenance is never rolled forward.
        return None
    return transaction.uuid if transaction is not None else None


def tag_version(store: Store, at: DatasetVersion, name: str) -> None:
    """Keep an unpublished version readable, so that an operator can investigate."""
    with storage_errors(f"tagging {at}"):
        root = store.open_head(at.location, None)
        if name not in root.tags.list():
            root.tags.create(name, at.version if at.branch is None else (at.branch, at.version))


def _commit(store: Store, dataset: Dataset, staged: StagedWrite) -> Dataset:
    if isinstance(staged.transaction, RewriteTasks):
        # The call moves the handle that it gets, and readers share the handle of this version.
        private = store.open_private(staged.at)
        Compaction.commit(private, staged.transaction.results)
        return store.open_head(staged.at.location, staged.at.branch)
    if isinstance(staged.transaction, tuple):
        for transaction in staged.transaction:
            dataset = LanceDataset.commit(dataset, transaction, max_retries=0)
            failpoints.hit("schema_apply.after_table")
        return dataset
    return LanceDataset.commit(dataset, staged.transaction, max_retries=0)


def _after_failure(
    store: Store, staged: StagedWrite, dataset: Dataset, error: BaseException
) -> DatasetVersion | HeadMoved:
    head = head_version(dataset)
    ours = DatasetVersion(staged.at.location, staged.at.branch, staged.result_version)
    recognisable = head >= ours.version and staged.uuid is not None
    if recognisable and transaction_at(store, ours) == staged.uuid:
        return ours
    if head == staged.at.version:
        # No race: the store refused (disk full, permission, network), or Lance panicked.
        with storage_errors(f"committing {staged.at.location}"):
            raise error
    return HeadMoved(staged.at, head, landed_on_top=False)
