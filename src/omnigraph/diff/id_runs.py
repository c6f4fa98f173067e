"""Sorted sets of ids that can be larger than memory: sorted runs on disk, read in chunks."""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.values.text_order import text_order

_RUN_IDS = 1_000_000
CHUNK_IDS = 64 * 1024


class Scratch:
    """A temporary folder, created with the first file and removed by `close`."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files = 0

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def new_file(self, suffix: str) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="omnigraph-")
        self._files += 1
        return Path(self._folder.name) / f"{self._files}{suffix}"


class IdRuns:
    """Collects ids in any order and returns them sorted and distinct."""

    def __init__(self, scratch: Scratch, run_ids: int = _RUN_IDS) -> None:
        self._scratch = scratch
        self._run_ids = run_ids
        self._open: list[pa.Array] = []
        self._open_count = 0
        self._runs: list[pa.Array] = []

    def add(self, ids: pa.Array) -> None:
        if len(ids) == 0:
            return
        self._open.append(ids.cast(pa.string()))
        self._open_count += len(ids)
        if self._open_count >= self._run_ids:
            self._runs.append(self._spilled(self._close_run()))

    @property
    def most(self) -> int:
        """An upper bound of the number of ids; they are fewer if some were added twice."""
        return self._open_count + sum(map(len, self._runs))

    def chunks(
        self, after: str | None = None, size: Callable[[], int] = lambda: CHUNK_IDS
    ) -> Iterator[pa.Array]:
        """Ascending, distinct; every id greater than `after`; `size` is asked before each chunk."""
        runs = [*self._runs, *([self._close_run()] if self._open else [])]
        self._runs = runs
        starts = [_position_after(run, after) if after is not None else 0 for run in runs]
        while any(start < len(run) for start, run in zip(starts, runs, strict=True)):
            # Every run gives at most `most` ids: all ids up to `last` are taken from all runs.
            most = size()
            last = min(
                run[min(start + most, len(run)) - 1].as_py()
                for start, run in zip(starts, runs, strict=True)
                if start < len(run)
            )
            ends = [_position_after(run, last) for run in runs]
            parts = [run[a:b] for run, a, b in zip(runs, starts, ends, strict=True)]
            starts = ends
            filled = [part for part in parts if len(part)]
            found = filled[0] if len(filled) == 1 else _sorted_distinct(pa.concat_arrays(filled))
            # Overlapping runs give up to `most` ids each: split, so that no chunk is larger.
            given = 0
            while given < len(found):
                piece = found.slice(given, size())
                given += len(piece)
                yield piece

    def _close_run(self) -> pa.Array:
        run = _sorted_distinct(pa.concat_arrays(self._open))
        self._open, self._open_count = [], 0
        return run

    def _spilled(self, run: pa.Array) -> pa.Array:
        path = self._scratch.new_file(".arrow")
        batch = pa.record_batch({"id": run})
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0).column("id")


def _position_after(run: pa.Array, value: str) -> int:
    # Code point order is the order of UTF-8 bytes, which is how Arrow and Lance sort.
    return bisect_right(run, value, key=lambda scalar: scalar.as_py())


def _sorted_distinct(ids: pa.Array) -> pa.Array:
    if pc.all(pc.less(ids[:-1], ids[1:])).as_py() is not False:
        return ids  # loads and merges list ids in order
    ordered = ids.take(pa.array(text_order(ids)))
    new = pc.not_equal(ordered[1:], ordered[:-1])
    if pc.all(new).as_py():
        return ordered
    return ordered.filter(pa.concat_arrays([pa.array([True]), new]))
