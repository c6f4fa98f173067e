"""Index segments of one dataset: plan them, build them in any process, stage their commit.

A new segment covers only fragments that no segment of its index covers. One segment over all
fragments replaces the others when an index has many segments, when most rows are new to it, or when
old entries could mislead it. No reader uses a segment until a staged commit names it.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Sequence
from typing import Any

from lance import Index, LanceDataset, LanceOperation, Transaction

from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.reads.filters import lance_filter
from omnigraph.lance_store.reads.indexes import (
    PresentIndex,
    find_index,
    index_name,
    probed_name,
)
from omnigraph.lance_store.search.vector_search import FLAT_ROWS, calibrated_probes, partitions
from omnigraph.lance_store.staging.stage import StagedWrite
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store
from omnigraph.values.conditions import Condition
from omnigraph.values.indexes import BuiltIndex, IndexBuild, IndexKind, IndexSpec

_SEGMENT_LIMIT = 8

# With more new rows than this share of the old ones, partitions trained on the old rows fit badly.
_OUTGROWN = 1.0

# A row that a compaction moved keeps its row id. While no segment covers its new fragment, Lance
# ignores what older segments say about the row. As soon as a second segment covers the fragment,
# these two kinds of index believe the old entry again (pylance 14).
_MISLED_BY_MOVED_ROWS = (IndexKind.FULL_TEXT, IndexKind.LIST)

_LANCE_TYPES = {
    IndexKind.SORTED: "BTREE",
    IndexKind.FULL_TEXT: "INVERTED",
    IndexKind.SUBSTRING: "NGRAM",
    IndexKind.LIST: "LABEL_LIST",
    IndexKind.VECTOR: "IVF_FLAT",
}

# These options give the terms of values/text_terms.py. Lance's defaults stem, fold and drop words.
_FULL_TEXT_OPTIONS: dict[str, Any] = {
    "base_tokenizer": "simple",
    "lower_case": True,
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
    "max_token_length": None,
    "with_position": False,
}


def plan_indexes(
    store: Store, at: DatasetVersion, specs: Sequence[IndexSpec]
) -> tuple[IndexBuild, ...]:
    """The builds that let each wanted index cover all rows; empty when they do."""
    dataset = store.open(at)
    with storage_errors(f"planning the indexes of {at.location}"):
        rows = {f.fragment_id: f.count_rows() for f in dataset.get_fragments()}
        planned = (_plan(dataset, spec, rows) for spec in specs)
        return tuple(build for build in planned if build is not None)


def build_indexes(
    store: Store, at: DatasetVersion, builds: Sequence[IndexBuild]
) -> tuple[BuiltIndex, ...]:
    """Build all of them in this process, each as one segment."""
    found = []
    for build in builds:
        segment = build_segment(store, at, build)
        found.append(BuiltIndex(build, () if segment is None else (segment,)))
    return tuple(found)


def build_segment(store: Store, at: DatasetVersion, build: IndexBuild) -> bytes | None:
    """One segment over the fragments of `build`; None when no vector of them has a direction."""
    # Building blocks the handle for as long as it takes, so readers must not share it.
    dataset = store.open_private(at)
    with storage_errors(f"indexing {at.location}"):
        try:
            segment = dataset.create_index_uncommitted(
                build.spec.column,
                _LANCE_TYPES[build.spec.kind],
                name=build.name,
                replace=build.extends,
                fragment_ids=list(build.fragments),
                **_options(build),
            )
        except RuntimeError as error:
            if "KMeans cannot train" in str(error):
                return None
            raise
    return pickle.dumps(segment)


def stage_indexes(
    store: Store, at: DatasetVersion, built: Sequence[BuiltIndex]
) -> StagedWrite | None:
    """Stage what was built for exactly `at`, each index as one segment; None without a segment."""
    # Merging blocks the handle for as long as it takes, so readers must not share it.
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
                # An index of a renamed column may still have the name of this column.
                name = probed_name(_free_stem(dataset, spec), probes)
                segment = dataclasses.replace(segment, name=name)
            added.append(segment)
            removed += old
    if not added:
        return None
    transaction = Transaction(at.version, LanceOperation.CreateIndex(added, removed))
    return StagedWrite(at, transaction, transaction.uuid, dataset.count_rows())


def inherits_indexes(store: Store, at: DatasetVersion) -> bool:
    """Whether a branch uses index files of the lineage that it was forked from."""
    return bool(_inherited(store.open(at)))


def stage_without_inherited(store: Store, at: DatasetVersion) -> StagedWrite | None:
    """Drop the indexes that a branch inherited; None when there are none.

    A compaction rewrites indexes. Lance would write an inherited one into the folder of the branch
    and look for it in the folder of the original, so every later lookup would fail. Without them
    the table is scanned until they are built again.
    """
    dataset = store.open(at)
    inherited = _inherited(dataset)
    if not inherited:
        return None
    transaction = Transaction(at.version, LanceOperation.CreateIndex([], inherited))
    return StagedWrite(at, transaction, transaction.uuid, dataset.count_rows())


def _plan(dataset: Dataset, spec: IndexSpec, rows: dict[int, int]) -> IndexBuild | None:
    present = find_index(dataset, spec.column, spec.kind)
    if present is None:
        return _first_build(dataset, spec, rows)
    missing = {f: count for f, count in rows.items() if f not in present.covered}
    if not missing:
        return None
    if not _must_start_over(dataset, spec, present, rows):
        return _build(spec, present.name, missing, extends=True)
    name = probed_name(spec.column, 0) if spec.kind is IndexKind.VECTOR else present.name
    return _build(spec, name, rows, extends=True, starts_over=True)


def _first_build(dataset: Dataset, spec: IndexSpec, rows: dict[int, int]) -> IndexBuild | None:
    if spec.kind is not IndexKind.VECTOR:
        return _build(spec, index_name(_free_stem(dataset, spec), spec.kind), rows)
    if sum(rows.values()) < FLAT_ROWS:
        return None
    # `stage_indexes` measures how many partitions a query must search, and names the index.
    return _build(spec, probed_name(spec.column, 0), rows, extends=True, starts_over=True)


def _build(spec: IndexSpec, name: str, rows: dict[int, int], **how: bool) -> IndexBuild:
    return IndexBuild(spec, name, tuple(rows), tuple(rows.values()), **how)


def _must_start_over(
    dataset: Dataset, spec: IndexSpec, present: PresentIndex, rows: dict[int, int]
) -> bool:
    if len(present.segments) >= _SEGMENT_LIMIT:
        return True
    if spec.kind is IndexKind.VECTOR:
        covered = sum(rows.get(f, 0) for f in present.covered)
        return sum(rows.values()) - covered > covered * _OUTGROWN
    return spec.kind in _MISLED_BY_MOVED_ROWS and _holds_moved_rows(dataset, present)


def _holds_moved_rows(dataset: Dataset, present: PresentIndex) -> bool:
    """Whether uncovered fragments hold rows that an older segment may have entries of."""
    known = max(segment.dataset_version_at_last_update for segment in present.segments)
    uncovered = [f for f in dataset.get_fragments() if f.fragment_id not in present.covered]
    scanner = dataset.scanner(
        columns=["id"],
        fragments=uncovered,
        filter=lance_filter([Condition("_row_created_at_version", "<=", (known,))]),
        limit=1,
    )
    return bool(scanner.to_table().num_rows)


def _options(build: IndexBuild) -> dict[str, Any]:
    match build.spec.kind:
        case IndexKind.FULL_TEXT:
            return _FULL_TEXT_OPTIONS
        case IndexKind.VECTOR:
            return {"metric": "cosine", "num_partitions": partitions(sum(build.rows))}
        case _:
            return {}


def _free_stem(dataset: Dataset, spec: IndexSpec) -> str:
    """The first part of an index name: the column, unless an index of a renamed column has it."""
    plain = index_name(spec.column, spec.kind)
    foreign = (i for i in dataset.describe_indices() if i.field_names != [spec.column])
    if any(i.name.startswith(plain) for i in foreign):
        return f"{spec.column}_{_field_id(dataset, spec.column)}"
    return spec.column


def _field_id(dataset: Dataset, column: str) -> int:
    return next(int(f.id()) for f in dataset.lance_schema.fields() if f.name() == column)


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
    # Even one new full-text segment has parts that cannot be read before they are merged.
    return dataset.merge_existing_index_segments(parts)


def _calibrate(dataset: Dataset, spec: IndexSpec, segment: Any, old: list[Any]) -> tuple[int, int]:
    """(probes, detached version): measured on a version that no other process finds."""
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
