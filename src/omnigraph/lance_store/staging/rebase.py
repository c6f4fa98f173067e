"""Carry staged upkeep of a dataset over to a newer version, where that version still has its files.

Index segments and rewritten fragments are made from the files of fragments. Other writers may
commit meanwhile: most of them add fragments. What was made stays right as long as the fragments
that it was made from are the same, so it is not made again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from lance import LanceOperation, Transaction
from lance.optimize import RewriteResult

from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.staging.compaction import RewriteTasks
from omnigraph.lance_store.staging.stage import StagedWrite
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store


def rebase(store: Store, staged: StagedWrite, at: DatasetVersion) -> StagedWrite | None:
    """The same upkeep, staged on `at`; None when it does not fit `at` or is no upkeep.

    `at` must be a version of the same lineage as `staged.at`, with the same columns.
    """
    if (at.location, at.branch) != (staged.at.location, staged.at.branch):
        return None
    before, now = store.open(staged.at), store.open(at)
    with storage_errors(f"carrying the upkeep of {at.location} over"):
        if before.schema != now.schema or not _has_same_indexes(before, now):
            return None
        transaction = _rebased(staged.transaction, before, now)
        if transaction is None:
            return None
        return replace(staged, at=at, transaction=transaction, row_count=now.count_rows())


def _rebased(transaction: Any, before: Dataset, now: Dataset) -> Any | None:
    if isinstance(transaction, RewriteTasks):
        rewritten = (f.id for result in transaction.results for f in result.original_fragments)
        if not _have_same_rows(before, now, rewritten):
            return None
        return RewriteTasks([_read_at(result, int(now.version)) for result in transaction.results])
    operation = getattr(transaction, "operation", None)
    if not isinstance(operation, LanceOperation.CreateIndex):
        return None
    covered = {f for index in operation.new_indices for f in index.fragment_ids}
    if not _have_same_files(before, now, covered):
        return None
    present = _segments(now)
    removed = [index for index in operation.removed_indices if str(index.uuid) in present]
    adopted = LanceOperation.CreateIndex(operation.new_indices, removed)
    return Transaction(int(now.version), adopted, transaction.uuid)


def _have_same_rows(before: Dataset, now: Dataset, fragments: Iterable[int]) -> bool:
    """Whether no row of the fragments was deleted. A rewrite would bring such a row back."""
    old, new = _by_id(before), _by_id(now)
    return all(f in new and new[f].to_json() == old[f].to_json() for f in fragments)


def _have_same_files(before: Dataset, now: Dataset, fragments: Iterable[int]) -> bool:
    """Whether an index of the fragments is right for those of them that are left.

    Lance leaves out what an index says about deleted rows, and about fragments that are gone.
    """
    old, new = _by_id(before), _by_id(now)
    left = [f for f in fragments if f in new]
    return all(_files(new[f]) == _files(old[f]) for f in left)


def _files(fragment: Any) -> list[tuple[str, tuple[int, ...]]]:
    return [(file.path, tuple(file.fields)) for file in fragment.files]


def _by_id(dataset: Dataset) -> dict[int, Any]:
    return {f.fragment_id: f.metadata for f in dataset.get_fragments()}


def _has_same_indexes(before: Dataset, now: Dataset) -> bool:
    """Whether no upkeep of another process changed the indexes.

    Every commit of Lance drops segments that cover no fragment any more.
    """
    old, new, fragments = _segments(before), _segments(now), set(_by_id(now))
    dropped = (old[uuid] for uuid in old.keys() - new.keys())
    return new.keys() <= old.keys() and not any(covered & fragments for covered in dropped)


def _segments(dataset: Dataset) -> dict[str, set[int]]:
    """The fragments that each index segment covers."""
    described = (segment for index in dataset.describe_indices() for segment in index.segments)
    return {str(segment.uuid): set(segment.fragment_ids) for segment in described}


def _read_at(result: Any, version: int) -> Any:
    """The same rewrite, as if it had read this version, on which Lance then commits it."""
    return RewriteResult.from_json(
        json.dumps({**json.loads(result.json()), "read_version": version})
    )
