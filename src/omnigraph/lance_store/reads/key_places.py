"""Where the data files of a table hold a key, for lookups that go straight to the row.

A lookup through the index of a table plans a scan, loads a page of the index and reads the deleted
rows of the version again, which takes several times as long as to read the row. This module
remembers the places of keys in data files. A data file never changes, so its places are true for
every version and every branch that has the file. Places are found by a hash of the key, so the rows
that are read are compared with the key.

What is deleted differs from version to version. It is in a deletion file, which never changes
either. This process knows what it deleted itself, and learns the rest while it reads the keys.

The places of a large file are read by a thread, after some lookups asked for them. Until then, and
for files of which they would take too much memory, the index answers.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lance_store.reads.recent_fragments import (
    KEYS,
    FragmentFile,
    count_unread,
    files_of,
    held_by,
)
from omnigraph.lance_store.store import Dataset
from omnigraph.values.bounded_cache import BoundedCache
from omnigraph.values.machine_memory import memory_share
from omnigraph.yielding import GiveWay

logger = logging.getLogger(__name__)

ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"

# More values are looked up together by the index.
_MOST_VALUES = 16
# Each fragment is asked for the value.
_MOST_FRAGMENTS = 256
# A lookup reads the keys of so many small files itself. More of them are left to the index.
_MOST_UNREAD = 8
# Reading the keys of so many rows takes as long as the time that one lookup saves, and some.
_ROWS_PER_LOOKUP = 50_000
_FEWEST_LOOKUPS = 4

_MOST_BYTES = memory_share(24, 1024**3)
_BYTES_PER_ROW = 12
_DELETED_BYTES = 64 * 1024**2
_FILES = 4096
_BATCH_ROWS = 32 * 1024
_GIVE_WAY_ROWS = 128 * 1024

Hashes = npt.NDArray[np.uint64]
Offsets = npt.NDArray[np.uint32]

_NONE: Offsets = np.empty(0, np.uint32)


@dataclass(frozen=True, slots=True)
class _KeyPlaces:
    """The rows of a file in the order of the hashes of one column."""

    hashes: Hashes
    rows: Offsets

    def of(self, sought: Hashes) -> list[int]:
        low = np.searchsorted(self.hashes, sought, "left")
        high = np.searchsorted(self.hashes, sought, "right")
        spans = zip(low.tolist(), high.tolist(), strict=True)
        return [row for a, b in spans for row in self.rows[a:b].tolist()]


_places: BoundedCache[tuple[str, str], _KeyPlaces] = BoundedCache(_FILES, _MOST_BYTES)
"""By data file and column."""

_Deletion = tuple[str, str | None]
"""A data file and one of its deletion files; None before the first delete."""
_deleted: BoundedCache[_Deletion, Offsets] = BoundedCache(_FILES, _DELETED_BYTES)
"""The rows that a deletion file names, in order."""
_more_deleted: BoundedCache[_Deletion, tuple[_Deletion, Offsets]] = BoundedCache(_FILES)
"""What this process deleted: the deletion file before, and the rows that the new one adds."""
_lookups: BoundedCache[str, int] = BoundedCache(_FILES)
"""How often the places of a data file were missed."""


def rows_by_key(
    dataset: Dataset, wanted: Mapping[str, pa.Array], columns: Sequence[str]
) -> pa.Table | None:
    """`columns` and `_rowaddr` of the rows that hold a wanted value in one of these columns.

    None when the places of some file are not known: then the index has to be asked.
    """
    if sum(map(len, wanted.values())) > _MOST_VALUES or not set(wanted) <= set(KEYS):
        return None
    present = list(dataset.fragment_ids())
    if not 0 < len(present) <= _MOST_FRAGMENTS:
        return None
    files = files_of(dataset, present)
    found = _candidates(dataset, files, present, wanted)
    if found is None:
        return None
    read = list(dict.fromkeys([*columns, *wanted]))
    parts = []
    for fragment_id, rows in found.items():
        file = files[fragment_id]
        assert file is not None
        part = _take(dataset.get_fragment(fragment_id), file, rows, read)
        if part is None:
            _miss(dataset, {fragment_id: file}, wanted)
            return None
        parts.append(part)
    if not parts:
        fields = [dataset.schema.field(name) for name in columns]
        return pa.schema([*fields, pa.field(ROW_ADDRESS, pa.uint64())]).empty_table()
    return _holding(pa.concat_tables(parts), wanted).select([*columns, ROW_ADDRESS])


def remember_deleted(fragment: Any, after: Any, rows: npt.NDArray[np.unsignedinteger]) -> None:
    """`after` is the metadata of `fragment` without these rows as well."""
    if len(after.files) == 1:
        before = _deletion(fragment.metadata)
        _more_deleted.put(_deletion(after), (before, rows.astype(np.uint32)))


def settle() -> None:
    """Wait until no places are read any more."""
    _reading.wait()


def _candidates(
    dataset: Dataset,
    files: Mapping[int, FragmentFile | None],
    present: Sequence[int],
    wanted: Mapping[str, pa.Array],
) -> dict[int, Offsets] | None:
    """The rows of each fragment that may hold a wanted value; None when some are not known."""
    known = {f: file for f in present if (file := files[f]) is not None}
    large = {f: file for f, file in known.items() if not file.is_small}
    unread = {f: file for f, file in large.items() if not _is_read(file, wanted)}
    if unread:
        _miss(dataset, unread, wanted)
    few = count_unread(known.values()) <= _MOST_UNREAD
    if unread or not few or len(known) < len(present):
        return None
    small = held_by(dataset, files, present)
    if len(small) + len(large) < len(present):
        return None  # pushed out of the cache this moment
    found: dict[int, list[int]] = {}
    for column, values in wanted.items():
        texts = values.to_pylist()
        for fragment_id, held in small.items():
            rows = [row for text in texts for row in held[column].get(text, ())]
            if rows:
                found.setdefault(fragment_id, []).extend(rows)
        hashes = hashes_of(pa.array(texts, pa.string()))
        for fragment_id, file in large.items():
            places = _places.get((file.path, column))
            if places is None:
                return None
            found.setdefault(fragment_id, []).extend(places.of(hashes))
    return {f: np.unique(np.array(rows, np.uint32)) for f, rows in found.items() if rows}


def _is_read(file: FragmentFile, columns: Iterable[str]) -> bool:
    return all((file.path, column) in _places for column in columns)


def _take(fragment: Any, file: FragmentFile, rows: Offsets, columns: list[str]) -> pa.Table | None:
    """These rows of a fragment, unless they are deleted; None when it is not known which are."""
    gone = _deleted_of(_deletion(fragment.metadata))
    if gone is None and file.is_small:
        gone = _read_deleted(fragment)
    if gone is None:
        return None
    # Lance counts the rows of a fragment without the deleted ones.
    before = np.searchsorted(gone, rows)
    if len(gone):
        live = gone[np.minimum(before, len(gone) - 1)] != rows
        rows, before = rows[live], before[live]
    taken = fragment.take((rows - before).tolist(), columns=columns)
    addresses = rows.astype(np.uint64) | np.uint64(fragment.fragment_id << 32)
    return taken.append_column(pa.field(ROW_ADDRESS, pa.uint64()), pa.array(addresses))


def _holding(rows: pa.Table, wanted: Mapping[str, pa.Array]) -> pa.Table:
    """The rows that hold a wanted value: others have the same hash."""
    masks = [pc.is_in(rows.column(column), value_set=values) for column, values in wanted.items()]
    mask = masks[0]
    for other in masks[1:]:
        mask = pc.or_(mask, other)
    return rows.filter(mask)


def _deletion(metadata: Any) -> _Deletion:
    deletion = metadata.deletion_file
    return metadata.files[0].path, None if deletion is None else deletion.path(metadata.id)


def _deleted_of(wanted: _Deletion) -> Offsets | None:
    """The deleted rows, from the last deletion file that was read and from own deletes since."""
    since: list[Offsets] = []
    base = wanted
    while base[1] is not None and base not in _deleted:
        step = _more_deleted.get(base)
        if step is None:
            return None
        base, rows = step
        since.append(rows)
    known = _NONE if base[1] is None else _deleted.get(base)
    if known is None or not since:
        return known
    gone = np.unique(np.concatenate([known, *since]))
    _deleted.put(wanted, gone, gone.nbytes)
    return gone


def _read_deleted(fragment: Any) -> Offsets:
    found = fragment.scanner(columns=[], include_deleted_rows=True, with_row_id=True).to_table()
    gone = np.flatnonzero(found.column(ROW_ID).is_null().to_numpy()).astype(np.uint32)
    _deleted.put(_deletion(fragment.metadata), gone, gone.nbytes)
    return gone


# --- reading the keys of large files


class _KeyReading:
    """One thread that reads the keys of one file after the other."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._asked: dict[str, tuple[Dataset, int, FragmentFile, tuple[str, ...]]] = {}
        self._thread: threading.Thread | None = None
        self.stopped = False

    def ask(
        self, dataset: Dataset, fragment_id: int, file: FragmentFile, columns: tuple[str, ...]
    ) -> None:
        with self._condition:
            if self.stopped:
                return
            self._asked[file.path] = (dataset, fragment_id, file, columns)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="omnigraph-key-places", daemon=True
                )
                self._thread.start()

    def wait(self, timeout: float = 60.0) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self._thread is None, timeout)

    def stop(self) -> None:
        self.stopped = True
        self.wait(10.0)

    def _work(self) -> None:
        while True:
            with self._condition:
                if self.stopped or not self._asked:
                    self._thread = None
                    self._condition.notify_all()
                    return
                asked = self._asked.pop(next(iter(self._asked)))
            try:
                _read_places(*asked)
            except (OSError, ValueError) as error:
                # The version may have been cleaned up meanwhile. Lookups go on through the index.
                logger.debug("keys of %s were not read: %s", asked[2].path, error)
            except Exception:
                # A fault here must not end the thread, because lookups would wait for it no more.
                logger.exception("keys of %s were not read", asked[2].path)


_reading = _KeyReading()
atexit.register(_reading.stop)


def _miss(
    dataset: Dataset, files: Mapping[int, FragmentFile], wanted: Mapping[str, pa.Array]
) -> None:
    """Count a lookup that needed the places of these files; after enough of them they are read."""
    rows = sum(file.rows for file in files.values()) * len(wanted)
    # Files that take most of the memory would push out the others, and are pushed out by them.
    if _BYTES_PER_ROW * rows > _MOST_BYTES // 4:
        return
    first = next(iter(files.values())).path
    lookups = (_lookups.get(first) or 0) + 1
    is_due = lookups >= max(_FEWEST_LOOKUPS, rows // _ROWS_PER_LOOKUP)
    _lookups.put(first, 0 if is_due else lookups)
    if is_due:
        for fragment_id, file in files.items():
            _reading.ask(dataset, fragment_id, file, tuple(wanted))


def _read_places(
    dataset: Dataset, fragment_id: int, file: FragmentFile, columns: tuple[str, ...]
) -> None:
    fragment = dataset.get_fragment(fragment_id)
    new = [name for name in columns if (file.path, name) not in _places]
    scan = fragment.scanner(
        columns=new, batch_size=_BATCH_ROWS, include_deleted_rows=True, with_row_id=True
    )
    hashes = {name: np.empty(file.rows, np.uint64) for name in new}
    gone: list[Offsets] = []
    give_way = GiveWay()
    start = 0
    for batch in scan.to_batches():
        if _reading.stopped:
            return
        for name in new:
            hashes[name][start : start + batch.num_rows] = hashes_of(batch.column(name))
        is_gone = batch.column(ROW_ID).is_null().to_numpy(zero_copy_only=False)
        gone.append((np.flatnonzero(is_gone) + start).astype(np.uint32))
        start += batch.num_rows
        if start % _GIVE_WAY_ROWS < _BATCH_ROWS:
            give_way()
    assert start == file.rows, "a scan with deleted rows gives every row of the file"
    for name, found in hashes.items():
        order = np.argsort(found)
        places = _KeyPlaces(found[order], order.astype(np.uint32))
        _places.put((file.path, name), places, _BYTES_PER_ROW * file.rows)
    if fragment.metadata.deletion_file is not None:
        all_gone = np.concatenate(gone)
        _deleted.put(_deletion(fragment.metadata), all_gone, all_gone.nbytes)


_factors: Hashes = np.random.default_rng(25).integers(1, 2**63, 256, np.uint64) * 2 + 1


def hashes_of(texts: pa.Array) -> Hashes:
    """A hash of each text: the sum of its bytes, each times the factor of its position."""
    global _factors
    sums: Hashes = np.zeros(len(texts), np.uint64)
    _, ends, letters = texts.buffers()
    if len(texts) == 0 or letters is None:
        return sums
    starts = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    lengths = np.diff(starts)
    longest = int(lengths.max())
    while longest > len(_factors):
        more = np.random.default_rng(len(_factors)).integers(1, 2**63, len(_factors), np.uint64)
        _factors = np.concatenate([_factors, more * 2 + 1])
    bytes_ = np.frombuffer(letters, np.uint8)[starts[0] : starts[-1]]
    begins = starts[:-1] - starts[0]
    within = np.arange(len(bytes_)) - np.repeat(begins, lengths)
    products = (bytes_.astype(np.uint64) + np.uint64(1)) * _factors[within]
    filled = lengths > 0
    if filled.any():
        sums[filled] = np.add.reduceat(products, begins[filled])
    return sums
