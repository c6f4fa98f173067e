"""Prepare index segments of one dataset without moving its HEAD.

A segment covers only fragments that no segment of its index covers yet. When an index has
gathered many segments, most rows are new to it, or it could be misled by old entries, one segment
over everything replaces them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from lance import Index, LanceDataset, LanceOperation, Transaction

from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.search.index_segments import (
    PresentIndex,
    find_index,
    index_name,
    probed_name,
)
from omnigraph.lance_store.search.vector_calibration import calibrated_probes
from omnigraph.lance_store.search.vector_search import FLAT_ROWS, partitions
from omnigraph.lance_store.staging.stage import StagedWrite
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store
from omnigraph.values.indexes import IndexKind, IndexSpec

_SEGMENT_LIMIT = 8
# New rows beyond this share of the old ones: partitions trained on the old rows fit badly.
_OUTGROWN = 1.0

# A rewritten row keeps its row id. While the fragment it moved to is uncovered, Lance ignores what
# older segments say about it; once a second segment covers it, these two kinds of index believe
# the old entry again (pylance 14).
_MISLED_BY_REWRITES = (IndexKind.FULL_TEXT, IndexKind.LIST)

_LANCE_TYPES = {
    IndexKind.SORTED: "BTREE",
    IndexKind.FULL_TEXT: "INVERTED",
    IndexKind.SUBSTRING: "NGRAM",
    IndexKind.LIST: "LABEL_LIST",
    IndexKind.VECTOR: "IVF_FLAT",
}

# Terms exactly as in values/text_terms.py. Lance's defaults stem, fold and drop words.
_FULL_TEXT_OPTIONS: dict[str, Any] = {
    "base_tokenizer": "simple",
    "lower_case": True,
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
    "max_token_length": None,
    "with_position": False,
}


def stage_indexes(
    store: Store, at: DatasetVersion, specs: Sequence[IndexSpec]
) -> StagedWrite | None:
    """Segments that bring each wanted index to full coverage; None when all are there."""
    # Building an index borrows the handle for as long as it takes: readers must not share it.
    dataset = store.open_private(at)
    added: list[Any] = []
    removed: list[Any] = []
    with storage_errors(f"indexing {at.location}"):
        for spec in specs:
            present = find_index(dataset, spec.column, spec.kind)
            if present is not None and not _uncovered(dataset, present):
                continue
            if spec.kind is IndexKind.VECTOR:
                new, old, preview = _vector_segment(dataset, spec, present)
                if preview is not None:
                    store.forget_detached(at, preview)
            else:
                new, old = _segment(dataset, spec, present)
            added += new
            removed += old
    if not added:
        return None
    transaction = Transaction(at.version, LanceOperation.CreateIndex(added, removed))
    return StagedWrite(at, transaction, transaction.uuid, dataset.count_rows())


Segments = tuple[list[Any], list[Any]]
"""(to add, to remove)."""


def _segment(dataset: Dataset, spec: IndexSpec, present: PresentIndex | None) -> Segments:
    replaced = present if present and _must_start_over(dataset, spec, present) else None
    fragments = _all_fragments(dataset)
    if present is not None and replaced is None:
        fragments = _uncovered(dataset, present)
    segment = dataset.create_index_uncommitted(
        spec.column,
        _LANCE_TYPES[spec.kind],
        name=present.name if present else _free_name(dataset, spec),
        replace=present is not None,
        fragment_ids=fragments,
        **(_FULL_TEXT_OPTIONS if spec.kind is IndexKind.FULL_TEXT else {}),
    )
    if spec.kind is IndexKind.FULL_TEXT:
        # A fresh full-text segment is in parts that cannot be read until they are merged.
        segment = dataset.merge_existing_index_segments([segment])
    return [segment], _as_written(dataset, replaced) if replaced else []


def _must_start_over(dataset: Dataset, spec: IndexSpec, present: PresentIndex) -> bool:
    if len(present.segments) >= _SEGMENT_LIMIT:
        return True
    return spec.kind in _MISLED_BY_REWRITES and _holds_rewrites(dataset, present)


def _holds_rewrites(dataset: Dataset, present: PresentIndex) -> bool:
    """Whether uncovered fragments hold new contents of rows that an older segment knows."""
    known = max(segment.dataset_version_at_last_update for segment in present.segments)
    uncovered = [f for f in dataset.get_fragments() if f.fragment_id not in present.covered]
    scanner = dataset.scanner(
        columns=["id"],
        fragments=uncovered,
        filter=f"_row_created_at_version <= {known}",
        limit=1,
    )
    return bool(scanner.to_table().num_rows)


def _vector_segment(
    dataset: Dataset, spec: IndexSpec, present: PresentIndex | None
) -> tuple[list[Any], list[Any], int | None]:
    """(to add, to remove, the detached version that the calibration left)."""
    if present is None and dataset.count_rows() < FLAT_ROWS:
        return [], [], None
    rows = {f.fragment_id: f.count_rows() for f in dataset.get_fragments()}
    if present is not None:
        covered = sum(rows.get(f, 0) for f in present.covered)
        pending = sum(rows.values()) - covered
        if len(present.segments) < _SEGMENT_LIMIT and pending <= covered * _OUTGROWN:
            segment = _train(dataset, spec, present.name, _uncovered(dataset, present), pending)
            return ([segment] if segment else []), [], None
    name = probed_name(spec.column, 0)
    segment = _train(dataset, spec, name, list(rows), sum(rows.values()))
    if segment is None:
        return [], [], None
    old = _as_written(dataset, present) if present else []
    probes, preview = _calibrate(dataset, spec, segment, old)
    # Another column may have been renamed away from this name with its index.
    suffix = probed_name(_free_stem(dataset, spec), probes)
    return [dataclasses.replace(segment, name=suffix)], old, preview


def _train(
    dataset: Dataset, spec: IndexSpec, name: str, fragments: list[int], rows: int
) -> Any | None:
    """None when these fragments hold no vector with a direction."""
    try:
        return dataset.create_index_uncommitted(
            spec.column,
            _LANCE_TYPES[spec.kind],
            name=name,
            metric="cosine",
            replace=True,
            num_partitions=partitions(rows),
            fragment_ids=fragments,
        )
    except RuntimeError as error:
        if "KMeans cannot train" in str(error):
            return None
        raise


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


def _uncovered(dataset: Dataset, present: PresentIndex) -> list[int]:
    return [f for f in _all_fragments(dataset) if f not in present.covered]


def _all_fragments(dataset: Dataset) -> list[int]:
    return [f.fragment_id for f in dataset.get_fragments()]


def _free_name(dataset: Dataset, spec: IndexSpec) -> str:
    return index_name(_free_stem(dataset, spec), spec.kind)


def _free_stem(dataset: Dataset, spec: IndexSpec) -> str:
    """The column's name, unless an index of a renamed column still goes by it."""
    plain = index_name(spec.column, spec.kind)
    foreign = (i for i in dataset.describe_indices() if i.field_names != [spec.column])
    if any(i.name.startswith(plain) for i in foreign):
        return f"{spec.column}_{_field_id(dataset, spec.column)}"
    return spec.column


def _as_written(dataset: Dataset, present: PresentIndex) -> list[Any]:
    described = next(i for i in dataset.describe_indices() if i.name == present.name)
    return [
        Index(
            uuid=segment.uuid,
            name=present.name,
            fields=list(described.fields),
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=set(segment.fragment_ids),
            index_version=segment.index_version,
        )
        for segment in present.segments
    ]


def _field_id(dataset: Dataset, column: str) -> int:
    return next(int(f.id()) for f in dataset.lance_schema.fields() if f.name() == column)
