"""Which fragments a lookup by id or by the end of an edge has to search.

An index covers the fragments that were there when it was built. Lance searches all other fragments
one by one, and every small write makes one more: with 40 of them a lookup takes five times as long.
This module remembers the ids and ends that small fragments hold, and in which row, so that a lookup
leaves out the fragments that do not hold a wanted one. Deleted rows are remembered, too, because
older versions and other branches may still show them.

The name of a data file is unique and its rows never change, so what is remembered of a file is true
for every version and every branch that has the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from omnigraph.lance_store.reads.indexes import find_index
from omnigraph.lance_store.store import Dataset
from omnigraph.values.bounded_cache import BoundedCache
from omnigraph.values.indexes import IndexKind

KEYS = ("id", "src", "dst")

# Larger fragments come from loads, and are searched until an index covers them.
_MOST_ROWS = 1000
# With fewer fragments outside of the index it is not worth the trouble.
_FEWEST = 3
_FILES = 65_536
_VALUES = 2_000_000

Held = Mapping[str, Mapping[str, Sequence[int]]]
"""By key column: the rows of a data file that hold a value."""

_held: BoundedCache[str, Held] = BoundedCache(_FILES, _VALUES)
"""By data file."""


@dataclass(frozen=True, slots=True)
class FragmentFile:
    """The data file of a fragment, and the number of rows in it, deleted ones included."""

    path: str
    rows: int

    @property
    def is_small(self) -> bool:
        return self.rows <= _MOST_ROWS


_files: WeakKeyDictionary[Dataset, dict[int, FragmentFile | None]] = WeakKeyDictionary()
"""The data file of each fragment that was looked at; None when it has several.

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
    if len(present) < _FEWEST or not set(wanted) <= set(KEYS):
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
    held = held_by(dataset, files_of(dataset, recent), recent)
    chosen = [f for f in recent if _may_hold(held.get(f), sought)]
    return [dataset.get_fragment(f) for f in sorted([*(within & present), *chosen])]


def held_by(
    dataset: Dataset, files: Mapping[int, FragmentFile | None], fragments: Iterable[int]
) -> dict[int, Held]:
    """What the small ones of these fragments hold. Those that are not known yet are read."""
    small = {f: file for f in fragments if (file := files[f]) is not None and file.is_small}
    unknown = {f: file for f, file in small.items() if file.path not in _held}
    if unknown:
        _read(dataset, unknown)
    known = ((f, _held.get(file.path)) for f, file in small.items())
    return {f: held for f, held in known if held is not None}


def count_unread(files: Iterable[FragmentFile]) -> int:
    """The number of small files whose keys are not known yet."""
    return sum(file.is_small and file.path not in _held for file in files)


def files_of(dataset: Dataset, fragments: Sequence[int]) -> dict[int, FragmentFile | None]:
    known = _files.get(dataset, {})
    if len(known) > 2 * len(fragments) + 64:
        known = {f: known[f] for f in fragments if f in known}
    for fragment_id in fragments:
        if fragment_id not in known:
            found = dataset.get_fragment(fragment_id).metadata
            is_one = len(found.files) == 1
            file = FragmentFile(found.files[0].path, found.physical_rows) if is_one else None
            known[fragment_id] = file
    _files[dataset] = known
    return known


def _read(dataset: Dataset, files: Mapping[int, FragmentFile]) -> None:
    """Read and remember the keys of small fragments, all of them with one scan."""
    found = dataset.scanner(
        columns=[name for name in KEYS if name in dataset.schema.names],
        fragments=[dataset.get_fragment(f) for f in files],
        include_deleted_rows=True,
        with_row_id=True,
    ).to_table()
    start = 0
    for file in files.values():
        _remember(file.path, found.slice(start, file.rows))
        start += file.rows


def _remember(file: str, rows: pa.Table) -> None:
    held: dict[str, dict[str, list[int]]] = {}
    for name in KEYS:
        if name in rows.column_names:
            places = held.setdefault(name, {})
            for place, value in enumerate(rows.column(name).to_pylist()):
                if value is not None:
                    places.setdefault(value, []).append(place)
    _held.put(file, held, rows.num_rows * len(held) + 1)


def _may_hold(held: Held | None, sought: Mapping[str, frozenset[str]]) -> bool:
    if held is None:
        return True
    return any(not held[column].keys().isdisjoint(values) for column, values in sought.items())
