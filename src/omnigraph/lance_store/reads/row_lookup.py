"""Find rows by their ids or by other values: their addresses, and columns of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lance_store.blobs import as_scanned, scan_options
from omnigraph.lance_store.objects.storage_errors import snapshot_errors
from omnigraph.lance_store.reads.filters import any_of, have_literals, lance_filter
from omnigraph.lance_store.reads.recent_fragments import fragments_to_search
from omnigraph.lance_store.store import Dataset
from omnigraph.values.conditions import LONGEST_LIST, Condition
from omnigraph.values.text_order import text_order

ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"


# More rows in new fragments come from a compaction or a load; then the index is faster.
_MOST_RECENT_ROWS = 200_000

# Reading this many neighbouring rows takes as long as finding one by the index.
_RECENT_ROWS_PER_ID = 40

# Up to so many rows for each wanted one, a scan is faster than the id index.
_SCANNED_ROWS_PER_ID = 4

# Rows may be wide, so batches that are read ahead are bounded by bytes.
_SCAN_BATCH_BYTES = 8 * 1024 * 1024
_SCAN_READAHEAD = 2

# Every batch hashes the keys again, so a scan that probes reads few, large batches.
_PROBE_BATCH = 1024 * 1024


def find_rows(
    dataset: Dataset, ids: pa.Array, columns: Sequence[str] = (), *, key: str = "id"
) -> pa.Table:
    """Rows whose `key` column is in `ids`: that column, `_rowid`, `_rowaddr` and `columns`."""
    wanted = [key, *(c for c in columns if c != key)]
    if len(ids) == 0 or dataset.count_rows() == 0:
        return _empty(dataset, wanted)
    options: dict[str, Any] = {
        "columns": wanted,
        "with_row_id": True,
        "with_row_address": True,
        **scan_options(dataset),
    }
    with snapshot_errors("looking up ids"):
        if len(ids) <= LONGEST_LIST:
            searched = fragments_to_search(dataset, {key: ids})
            if searched == []:
                return _empty(dataset, wanted)
            return dataset.scanner(
                filter=any_of(key, ids), fragments=searched, **options
            ).to_table()
        probe = pc.unique(ids)
        scan = dataset.scanner(batch_size=_PROBE_BATCH, **options)
        parts = [
            pa.Table.from_batches([batch]).filter(pc.is_in(batch.column(key), value_set=probe))
            for batch in scan.to_batches()
        ]
    return pa.concat_tables(parts) if parts else _empty(dataset, wanted)


def find_recent_rows(
    dataset: Dataset,
    older: Dataset,
    ids: pa.Array,
    columns: Sequence[str],
    most_rows: int = _MOST_RECENT_ROWS,
) -> pa.Table:
    """`find_rows` for ids that were written after `older`, so in fragments that it does not have.

    It asks the index when those fragments have more than `most_rows` rows, or not all of the ids.
    """
    wanted = ["id", *(c for c in columns if c != "id")]
    if len(ids) == 0:
        return _empty(dataset, wanted)
    with snapshot_errors("looking up recent rows"):
        recent = _fragments_since(dataset, older)
        if recent and sum(f.metadata.physical_rows for f in recent) <= most_rows:
            found = dataset.scanner(
                columns=wanted,
                fragments=recent,
                with_row_id=True,
                with_row_address=True,
                **scan_options(dataset),
            ).to_table()
            found = found.filter(pc.is_in(found.column("id"), value_set=ids))
            if found.num_rows == len(ids):
                return found
    return find_rows(dataset, ids, columns)


def find_sorted(
    dataset: Dataset, ids: pa.Array, columns: Sequence[str], since: Dataset | None = None
) -> pa.Table:
    """`columns`, `_rowid` and `_rowaddr` of the rows whose id is in `ids`, in the order of `ids`.

    The ids are sorted and distinct. `since` is a version after which they were probably written:
    the fragments that it does not have are searched first. Many ids are read by a scan of the
    table or of a range of the id index, so that consecutive calls do not look up single rows.
    """
    wanted = list(columns)
    if len(ids) == 0 or dataset.count_rows() == 0:
        return _empty(dataset, wanted)
    if len(ids) <= LONGEST_LIST:
        if since is None:
            return _in_order(find_rows(dataset, ids, wanted), ids)
        most = _RECENT_ROWS_PER_ID * len(ids)
        return _in_order(find_recent_rows(dataset, since, ids, wanted, most), ids)
    with snapshot_errors("looking up ids"):
        if since is None:
            return _in_order(_scan_between(dataset, ids, wanted), ids)
        recent = _fragments_since(dataset, since)
        if sum(f.metadata.physical_rows for f in recent) > _SCANNED_ROWS_PER_ID * len(ids):
            return _in_order(_scan_between(dataset, ids, wanted), ids)
        found = _in_order(_scan_between(dataset, ids, wanted, recent), ids)
    if found.num_rows == len(ids):
        return found
    known = pc.is_in(ids, value_set=found.column("id").combine_chunks())
    older = find_sorted(dataset, ids.filter(pc.invert(known)), wanted)
    return _in_order(pa.concat_tables([found, older], promote_options="default"), ids)


def _fragments_since(dataset: Dataset, older: Dataset) -> list[Any]:
    new = sorted({*dataset.fragment_ids()} - {*older.fragment_ids()})
    return [dataset.get_fragment(fragment_id) for fragment_id in new]


def _scan_between(
    dataset: Dataset, ids: pa.Array, columns: list[str], fragments: list[Any] | None = None
) -> pa.Table:
    """The rows from the first id to the last one; of several times as many, only those of `ids`."""
    if fragments == []:
        return _empty(dataset, columns)
    first, last = (ids[i].as_py() for i in (0, len(ids) - 1))
    in_range = (Condition("id", ">=", (first,)), Condition("id", "<=", (last,)))
    # The id index gives rows of a range one by one, so most of a table is read without it.
    whole = fragments is not None or dataset.count_rows() <= _SCANNED_ROWS_PER_ID * len(ids)
    scanner = dataset.scanner(
        columns=columns,
        filter=None if whole else lance_filter(in_range),
        fragments=fragments,
        batch_size_bytes=_SCAN_BATCH_BYTES,
        batch_readahead=_SCAN_READAHEAD,
        with_row_id=True,
        with_row_address=True,
        **scan_options(dataset),
    )
    parts = [_empty(dataset, columns)]
    held = 0
    for batch in scanner.to_batches():
        rows = pa.Table.from_batches([batch])
        if whole:
            stored = rows.column("id")
            within = pc.and_(pc.greater_equal(stored, first), pc.less_equal(stored, last))
            rows = rows if pc.all(within).as_py() else rows.filter(within)
        parts.append(rows)
        held += rows.num_rows
        # Every probe hashes the ids again, so there is one for many batches, or none.
        if held > 2 * len(ids):
            gathered = pa.concat_tables(parts[1:])
            parts[1:] = [gathered.filter(pc.is_in(gathered.column("id"), value_set=ids))]
            held = parts[1].num_rows
    return pa.concat_tables(parts[1:]) if held else parts[0]


def _in_order(found: pa.Table, ids: pa.Array) -> pa.Table:
    """The rows of `ids` among the found ones, in the order of `ids`."""
    stored = found.column("id")
    if stored.equals(pa.chunked_array([ids], stored.type)):
        return found
    texts = stored.combine_chunks()
    if len(texts) == len(ids):
        # Most often every id is found once. Then sorting is faster than looking up each id.
        order = pa.array(text_order(texts))
        if texts.take(order).equals(ids):
            return found.take(order)
    position = pc.index_in(ids, value_set=texts)
    return found.take(position.drop_null())


def find_any(dataset: Dataset, wanted: Mapping[str, pa.Array], columns: Sequence[str]) -> pa.Table:
    """Rows that hold a wanted text in one of these columns: `id`, `_rowid`, `_rowaddr`, `columns`.

    A row that holds wanted texts in two columns may come twice.
    """
    if any(len(values) > LONGEST_LIST for values in wanted.values()):
        names = ["id", *columns, ROW_ID, ROW_ADDRESS]
        parts = [
            find_rows(dataset, values, ["id", *columns], key=name).select(names)
            for name, values in wanted.items()
        ]
        return pa.concat_tables(parts)
    with snapshot_errors("looking up rows"):
        searched = fragments_to_search(dataset, wanted)
        if searched == []:
            return _empty(dataset, ["id", *columns])
        scan = dataset.scanner(
            columns=["id", *columns],
            fragments=searched,
            filter=" OR ".join(any_of(name, values) for name, values in wanted.items()),
            with_row_id=True,
            with_row_address=True,
            **scan_options(dataset),
        )
        return scan.to_table()


def find_candidates(
    dataset: Dataset, wanted: Mapping[str, pa.Array], columns: Sequence[str]
) -> pa.Table:
    """A superset of the rows that hold a wanted value in each of these columns.

    Storage judges short lists of scalars, by an index where it has one. The caller judges the rest.
    """
    filters = [
        any_of(name, values)
        for name, values in wanted.items()
        if len(values) <= LONGEST_LIST and have_literals(values)
    ]
    with snapshot_errors("looking up values"):
        scan = dataset.scanner(
            columns=list(columns),
            filter=" AND ".join(filters) if filters else None,
            **scan_options(dataset),
        )
        return scan.to_table()


def addresses_by_fragment(
    addresses: pa.ChunkedArray | pa.Array,
) -> Iterator[tuple[int, npt.NDArray[np.uint64]]]:
    """Row addresses as (fragment id, row offsets), ascending and distinct."""
    if len(addresses) == 0:
        return
    values = distinct_sorted(addresses.to_numpy(zero_copy_only=False))
    fragments = values >> np.uint64(32)
    offsets = values & np.uint64(0xFFFFFFFF)
    starts = np.flatnonzero(np.diff(fragments, prepend=np.uint64(2**63)))
    edges = [*(int(start) for start in starts), len(values)]
    for a, b in pairwise(edges):
        yield int(fragments[a]), offsets[a:b]


def distinct_sorted(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """`np.unique`, which hashes and is nine times slower for a million numbers."""
    ordered = values
    if len(values) > 1 and not (values[1:] > values[:-1]).all():
        ordered = np.sort(values)
        ordered = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return ordered


def _empty(dataset: Dataset, columns: Sequence[str]) -> pa.Table:
    fields = [as_scanned(dataset.schema.field(name)) for name in columns]
    fields += [pa.field(ROW_ID, pa.uint64()), pa.field(ROW_ADDRESS, pa.uint64())]
    return pa.schema(fields).empty_table()
