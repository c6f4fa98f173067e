"""Which fragments a lookup by id or by the end of an edge has to search.

An index covers the fragments that were there when it was built. Lance searches all other fragments
one by one, and every small write makes one more: with 40 of them a lookup takes five times as long.
This module remembers the ids and ends that small fragments hold, so that a lookup leaves out the
fragments that do not hold a wanted one. Only absence is trusted.

The name of a data file is unique and its rows never change. Deleted rows are remembered, too,
because an older version may still have them. So what is remembered of a file is true for every
version and every branch that has the file.

A row that every commit writes again, such as a counter, is a deleted row of many small fragments.
Therefore this module also remembers which values a fragment still holds after its deletions. The
name of a deletion file is unique and its content never changes, too. A version with other deletions
of the same data file has another deletion file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lance_store.reads.indexes import find_index
from omnigraph.lance_store.store import Dataset
from omnigraph.values.bounded_cache import BoundedCache
from omnigraph.values.indexes import IndexKind

_KEYS = ("id", "src", "dst")

# Larger fragments come from loads, and are searched until an index covers them.
_MOST_ROWS = 1000
# With fewer fragments outside of the index it is not worth the trouble.
_FEWEST = 3
_FILES = 65_536
_VALUES = 2_000_000

_Held = Mapping[str, frozenset[str]]
_held: BoundedCache[str, _Held] = BoundedCache(_FILES, _VALUES)
"""The values of the key columns, by data file."""

_Deletion = tuple[str, int, int]
"""Names a deletion file: the data file, the version that it was made from, its random number."""
_left: BoundedCache[_Deletion, _Held] = BoundedCache(_FILES, _VALUES)
"""The values of the key columns in rows that are not deleted, by deletion file."""

_files: WeakKeyDictionary[Dataset, dict[int, str | None]] = WeakKeyDictionary()
"""The data file of each recent fragment that was looked at; None for a large fragment.

The versions that this process makes one from the other share a dict, because a commit does not use
a fragment id again.
"""


def remember_written(fragments: Sequence[Any], rows: pa.Table) -> None:
    """Remember the rows of a small write, which are the rows of its one fragment."""
    if len(fragments) == 1 and rows.num_rows <= _MOST_ROWS:
        _remember(fragments[0].files[0].path, rows)


def remember_successor(before: Dataset, after: Dataset) -> None:
    """`after` is the version that one commit made from `before`."""
    known = _files.get(before)
    if known is not None:
        _files[after] = known


def fragments_to_search(dataset: Dataset, wanted: Mapping[str, pa.Array]) -> list[Any] | None:
    """The fragments that may hold a wanted value in one of these columns; None: all of them."""
    present = set(dataset.fragment_ids())
    if len(present) < _FEWEST or not set(wanted) <= set(_KEYS):
        return None
    indexes = [find_index(dataset, column, IndexKind.SORTED) for column in wanted]
    covered = {index.covered if index is not None else None for index in indexes}
    if len(covered) != 1:
        return None  # Lance would search what one of the indexes does not cover
    (within,) = covered
    recent = sorted(present - within) if within is not None else []
    if within is None or len(recent) < _FEWEST:
        return None
    sought = {column: frozenset(values.to_pylist()) for column, values in wanted.items()}
    files = _files_of(dataset, recent)
    unknown = [f for f in recent if (file := files[f]) is not None and file not in _held]
    if unknown:
        _read(dataset, unknown, files)
    chosen = [f for f in recent if _may_hold(_held_in(files[f]), sought)]
    if len(chosen) > 1:
        chosen = _without_deleted(dataset, chosen, files, sought)
    return [dataset.get_fragment(f) for f in sorted([*(within & present), *chosen])]


def _files_of(dataset: Dataset, fragments: Sequence[int]) -> dict[int, str | None]:
    known = _files.get(dataset, {})
    if len(known) > 2 * len(fragments) + 64:
        known = {f: known[f] for f in fragments if f in known}
    for fragment_id in fragments:
        if fragment_id not in known:
            found = dataset.get_fragment(fragment_id).metadata
            is_small = found.physical_rows <= _MOST_ROWS and len(found.files) == 1
            known[fragment_id] = found.files[0].path if is_small else None
    _files[dataset] = known
    return known


def _without_deleted(
    dataset: Dataset,
    fragments: Sequence[int],
    files: Mapping[int, str | None],
    sought: Mapping[str, frozenset[str]],
) -> list[int]:
    """Those of the fragments that may hold a wanted value in a row that is not deleted."""
    found = {f: _deletion_of(dataset.get_fragment(f), files[f]) for f in fragments}
    unknown = [f for f, deletion in found.items() if deletion and deletion not in _left]
    if len(unknown) > _FEWEST:  # a scan of a few fragments more is as fast as this read of them
        _read(dataset, unknown, files)
    return [
        f
        for f, deletion in found.items()
        if deletion is None or _may_hold(_left.get(deletion), sought)
    ]


def _deletion_of(fragment: Any, file: str | None) -> _Deletion | None:
    """The deletion file of a small fragment; None when it has none."""
    deletion = fragment.metadata.deletion_file
    return (file, deletion.read_version, deletion.id) if file and deletion else None


def _read(dataset: Dataset, fragments: Sequence[int], files: Mapping[int, str | None]) -> None:
    """Read and remember the keys of small fragments, all of them with one scan."""
    columns = [name for name in _KEYS if name in dataset.schema.names]
    opened = [dataset.get_fragment(f) for f in fragments]
    found = dataset.scanner(
        columns=columns,
        fragments=opened,
        scan_in_order=True,
        include_deleted_rows=True,
        with_row_id=True,  # deleted rows come with row ids only, and have none themselves
    ).to_table()
    # Deleted rows have no address, so the rows of a fragment are known by their number.
    sizes = [fragment.metadata.physical_rows for fragment in opened]
    assert found.num_rows == sum(sizes), (found.num_rows, sizes)
    start = 0
    for fragment, size in zip(opened, sizes, strict=True):
        file = files[fragment.fragment_id]
        assert file is not None
        rows = found.slice(start, size)
        start += size
        _remember(file, rows)
        deletion = _deletion_of(fragment, file)
        if deletion is not None:
            left = _values(rows.filter(pc.is_valid(rows.column("_rowid"))))
            _left.put(deletion, left, _size(left))


def _remember(file: str, rows: pa.Table) -> None:
    held = _values(rows)
    _held.put(file, held, _size(held))


def _values(rows: pa.Table) -> _Held:
    return {
        name: frozenset(pc.drop_null(rows.column(name)).to_pylist())
        for name in _KEYS
        if name in rows.column_names
    }


def _size(held: _Held) -> int:
    return sum(map(len, held.values())) + 1


def _held_in(file: str | None) -> _Held | None:
    return _held.get(file) if file is not None else None


def _may_hold(held: _Held | None, sought: Mapping[str, frozenset[str]]) -> bool:
    if held is None:
        return True
    return any(not values.isdisjoint(held[column]) for column, values in sought.items())
