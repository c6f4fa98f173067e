"""Read some fragments of one dataset version, in any process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import lance
import pyarrow as pa

from omnigraph.lance_store.blobs import scan_options
from omnigraph.lance_store.objects.storage_errors import snapshot_errors
from omnigraph.lance_store.store import DatasetVersion, Store

_ROWS_PER_BATCH = 16 * 1024


@dataclass(frozen=True, slots=True)
class ReadTarget:
    """One dataset at one version, for a worker. Pickles."""

    uri: str
    version: int
    storage_options: dict[str, str] = field(default_factory=dict)


def read_target(store: Store, at: DatasetVersion) -> ReadTarget:
    uri = store.dataset_uri(at.location, at.branch)
    return ReadTarget(uri, at.version, dict(store.location.options))


def fragment_ids(store: Store, at: DatasetVersion) -> list[tuple[int, int]]:
    """(fragment id, rows), ascending."""
    with snapshot_errors(f"listing fragments of {at.location}"):
        fragments = store.open(at).get_fragments()
        return sorted((f.fragment_id, f.count_rows()) for f in fragments)


def read_fragments(
    target: ReadTarget,
    fragments: Sequence[int],
    columns: Sequence[str],
    row_filter: str | None = None,
) -> Iterator[pa.Table]:
    """Live rows of these fragments that pass a Lance filter, blobs as bytes, a batch at a time."""
    with snapshot_errors(f"reading {target.uri}"):
        dataset = lance.dataset(
            target.uri, version=target.version, storage_options=target.storage_options or None
        )
        scanner = dataset.scanner(
            columns=list(columns),
            filter=row_filter,
            fragments=[dataset.get_fragment(number) for number in fragments],
            batch_size=_ROWS_PER_BATCH,
            **scan_options(dataset),
        )
        for batch in scanner.to_batches():
            yield pa.Table.from_batches([batch])
