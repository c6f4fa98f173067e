"""Prepare a commit of index segments, built here or elsewhere, without moving any HEAD."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Sequence
from typing import Any

from lance import Index, LanceDataset, LanceOperation, Transaction

from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.search.index_segments import find_index, probed_name
from omnigraph.lance_store.search.vector_calibration import calibrated_probes
from omnigraph.lance_store.search.vector_search import partitions
from omnigraph.lance_store.staging.index_builds import free_stem
from omnigraph.lance_store.staging.stage import StagedWrite
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store
from omnigraph.values.indexes import BuiltIndex, IndexKind, IndexSpec


def stage_indexes(
    store: Store, at: DatasetVersion, built: Sequence[BuiltIndex]
) -> StagedWrite | None:
    """What was built for exactly `at`, as one segment an index; None when nothing was."""
    # Merging segments borrows the handle for as long as it takes: readers must not share it.
    dataset = store.open_private(at)
    added: list[Any] = []
    removed: list[Any] = []
    with storage_errors(f"indexing {at.location}"):
        for index in (found for found in built if found.segments):
            spec, segment = index.build.spec, _one_segment(dataset, index)
            old = _present_segments(dataset, spec) if index.build.starts_over else []
            if index.build.starts_over and spec.kind is IndexKind.VECTOR:
                probes, preview = _calibrate(dataset, spec, segment, old)
                store.forget_detached(at, preview)
                # Another column may have been renamed away from this name with its index.
                name = probed_name(free_stem(dataset, spec), probes)
                segment = dataclasses.replace(segment, name=name)
            added.append(segment)
            removed += old
    if not added:
        return None
    transaction = Transaction(at.version, LanceOperation.CreateIndex(added, removed))
    return StagedWrite(at, transaction, transaction.uuid, dataset.count_rows())


def inherits_indexes(store: Store, at: DatasetVersion) -> bool:
    """Whether a branch uses index files of the lineage it was forked from."""
    return bool(_inherited(store.open(at)))


def stage_without_inherited(store: Store, at: DatasetVersion) -> StagedWrite | None:
    """Leave those of the lineage behind; None when there are none.

    A compaction carries indexes over. Lance would write such a one below the branch and look for it
    below the original: every later lookup fails. Without them the table is scanned until they are
    built again.
    """
    dataset = store.open(at)
    inherited = _inherited(dataset)
    if not inherited:
        return None
    transaction = Transaction(at.version, LanceOperation.CreateIndex([], inherited))
    return StagedWrite(at, transaction, transaction.uuid, dataset.count_rows())


def _inherited(dataset: Dataset) -> list[Index]:
    return [
        _as_index(index, segment)
        for index in dataset.describe_indices()
        for segment in index.segments
        if segment.base_id is not None
    ]


def _one_segment(dataset: Dataset, index: BuiltIndex) -> Any:
    parts = [pickle.loads(segment) for segment in index.segments]
    if len(parts) == 1 and index.build.spec.kind is not IndexKind.FULL_TEXT:
        return parts[0]
    # Even a single fresh full-text segment is in parts that cannot be read until they are merged.
    return dataset.merge_existing_index_segments(parts)


def _calibrate(dataset: Dataset, spec: IndexSpec, segment: Any, old: list[Any]) -> tuple[int, int]:
    """Measure on a detached version that nobody can find: HEAD does not move."""
    preview = LanceDataset.commit(
        dataset,
        LanceOperation.CreateIndex([segment], old),
        read_version=dataset.version,
        detached=True,
        max_retries=3,
    )
    most = partitions(dataset.count_rows())
    return calibrated_probes(preview, spec.column, spec.recall, most), int(preview.version)


def _present_segments(dataset: Dataset, spec: IndexSpec) -> list[Any]:
    present = find_index(dataset, spec.column, spec.kind)
    if present is None:
        return []
    described = next(i for i in dataset.describe_indices() if i.name == present.name)
    return [_as_index(described, segment) for segment in present.segments]


def _as_index(described: Any, segment: Any) -> Index:
    return Index(
        uuid=segment.uuid,
        name=described.name,
        fields=list(described.fields),
        dataset_version=segment.dataset_version_at_last_update,
        fragment_ids=set(segment.fragment_ids),
        index_version=segment.index_version,
    )
