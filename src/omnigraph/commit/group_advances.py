"""The tables of a group: files are written and versions are made while later writes are built.

Writes that only add rows to a table are held back. Those that follow each other share one data
file and one commit of Lance (`lance_store.row_steps`), which is begun when a build reads one of
their versions, when a write does more than add rows, or when the group ends.

Every other write has files of its own. They are written for the versions before the group, which
exist already, so several are written at once. Tables are advanced in order, by one thread. The
versions are known before they exist. A build that opens one waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate

import pyarrow as pa

from omnigraph import failpoints
from omnigraph.commit.arming import IntentHold
from omnigraph.commit.staging import EditedTable, FoundEdit
from omnigraph.errors import StorageFailure
from omnigraph.lance_store.advance import HeadMoved, advance
from omnigraph.lance_store.row_steps import MOST_ROWS, RowSteps, StepTaken, advance_in_steps
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.manifest.records import TablePin
from omnigraph.values.identifiers import TableKey

_MOST_AHEAD = 8
"""How many writes with files of their own are built at most ahead of the tables."""
_FILE_THREADS = 2
"""How many writes have their files written at once. Files are independent of each other."""
_RUN_BYTES = 4 * 1024 * 1024
_REFILL_BYTES = 8 * 1024
"""The rows of a fragment that the next rows replace. They are written again."""


class NotAdvanced(Exception):
    """A table could not be advanced. It is not known whose fault that is, so the group ends."""

    def __init__(self, why: str, orphan: DatasetVersion | None = None) -> None:
        super().__init__(why)
        self.orphan = orphan
        """A version that another program wrote."""


@dataclass(slots=True)
class _InsertRun:
    """Edits of one table that follow each other and only add rows, which are in no file yet."""

    edits: list[FoundEdit] = field(default_factory=list)
    rows: list[pa.Table] = field(default_factory=list)
    row_count: int = 0
    size: int = 0

    def takes(self, edit: FoundEdit) -> bool:
        """Add the edit, unless it does more or the run is too large for it."""
        added = edit.only_added
        if added is None:
            return False
        if self.rows and not (
            self.row_count + added.num_rows <= MOST_ROWS
            and self.size + added.nbytes <= _RUN_BYTES
            and added.schema.equals(self.rows[0].schema)
        ):
            return False
        self.edits.append(edit)
        self.rows.append(added)
        self.row_count += added.num_rows
        self.size += added.nbytes
        return True


@dataclass(frozen=True, slots=True)
class _Tail:
    """The last fragment of a table and its rows, when the group has made it of added rows."""

    fragment: int
    rows: pa.Table

    def can_hold(self, added: pa.Table) -> bool:
        """Otherwise every few writes add a fragment, which makes later reads and commits slower."""
        fits = self.rows.nbytes + added.nbytes <= _REFILL_BYTES
        return fits and bool(self.rows.schema.equals(added.schema))


class GroupAdvances:
    """Writes files and advances tables in threads of its own."""

    def __init__(self, store: Store, hold: IntentHold, before: Mapping[TableKey, TablePin]) -> None:
        self._store = store
        self._hold = hold
        self._before = before
        self._files = ThreadPoolExecutor(_FILE_THREADS, "group-files")
        self._thread = ThreadPoolExecutor(1, "group-advance")
        self._lock = threading.Lock()
        """A build may open versions in several threads."""
        self._runs: dict[TableKey, _InsertRun] = {}
        self._begun: list[Future[None]] = []
        self._makers: dict[DatasetVersion, Future[None]] = {}
        self._made: list[DatasetVersion] = []
        self._tails: dict[TableKey, _Tail] = {}
        self._stopped = False
        self._worker: int | None = None

    def __enter__(self) -> GroupAdvances:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._store.expect_no_more(self._made)
        # Only the versions before and after a group will have readers soon.
        last = {(at.location, at.branch): at for at in self._made}
        for at in set(self._made) - set(last.values()):
            self._store.forget(at)

    def begin(self, edits: Sequence[FoundEdit]) -> None:
        """Advance the tables of these edits, after those that were begun before."""
        for edit in edits:
            at = _result_of(edit)
            with self._lock:
                if not self._runs.setdefault(edit.pin.key, _InsertRun()).takes(edit):
                    self._send_run(edit.pin.key)
                    if edit.only_added is not None:
                        self._runs[edit.pin.key] = run = _InsertRun()
                        run.takes(edit)
                    else:
                        self._send_alone(edit)
            self._made.append(at)
            self._store.expect(at, partial(self._wait_for, at))
        if len(self._begun) >= _MOST_AHEAD:
            self._begun[-_MOST_AHEAD].result()

    def check(self) -> None:
        """Raise when an advance has failed; does not wait."""
        for begun in self._begun:
            if begun.done():
                begun.result()

    def finish(self) -> None:
        """Wait for all of them; raises when one has failed."""
        with self._lock:
            for key in list(self._runs):
                self._send_run(key)
        for begun in self._begun:
            begun.result()

    def stop(self) -> None:
        """Begin no further advance, and wait for the one that runs."""
        self._stopped = True
        self._files.shutdown(wait=True, cancel_futures=True)
        self._thread.shutdown(wait=True)

    def _send_run(self, key: TableKey) -> None:
        run = self._runs.pop(key, None)
        if run is not None and run.edits:
            self._send(run.edits, self._thread.submit(self._advance, self._steps_of(run)))

    def _send_alone(self, edit: FoundEdit) -> None:
        files = self._files.submit(edit.written, self._store, self._before[edit.pin.key].at)
        self._send([edit], self._thread.submit(self._advance, self._alone(edit, files)))

    def _send(self, edits: Sequence[FoundEdit], begun: Future[None]) -> None:
        self._begun.append(begun)
        self._makers.update((_result_of(edit), begun) for edit in edits)

    def _wait_for(self, at: DatasetVersion) -> None:
        # After a lost answer, the thread that makes a version opens it to see whether it is there.
        if threading.get_ident() == self._worker:
            return
        with self._lock:
            for key, run in list(self._runs.items()):
                if any(_result_of(edit) == at for edit in run.edits):
                    self._send_run(key)
        self._makers[at].result()

    def _advance(self, versions: Iterator[object]) -> None:
        """Make the versions. The work of each is done between two of them."""
        self._worker = threading.get_ident()
        try:
            self._go_on()
            for _ in versions:
                failpoints.hit("group.after_advance_first")
                self._go_on()
        except BaseException:
            self._stopped = True  # the tables of later writes build on these
            raise

    def _go_on(self) -> None:
        if self._stopped:
            raise NotAdvanced("the group was given up")
        self._hold.check()

    def _steps_of(self, run: _InsertRun) -> Iterator[object]:
        """Make a version for each edit of a run."""
        pin, rows = run.edits[0].pin, pa.concat_tables(run.rows).combine_chunks()
        counts = [part.num_rows for part in run.rows]
        replaced, tail = None, self._tails.pop(pin.key, None)
        if tail is not None and tail.can_hold(rows):
            rows = pa.concat_tables([tail.rows, rows]).combine_chunks()
            counts[0] += tail.rows.num_rows
            replaced = tail.fragment
        steps = advance_in_steps(
            self._store, pin.at, RowSteps(rows, tuple(accumulate(counts)), replaced)
        )
        while (taken := _next(steps)) is not None:
            if isinstance(taken, HeadMoved):
                raise _moved(pin, taken)
            self._tails[pin.key] = _Tail(taken.fragment, rows)
            yield taken

    def _alone(self, edit: FoundEdit, files: Future[EditedTable]) -> Iterator[object]:
        """Make the version of an edit with files of its own."""
        try:
            table = files.result()
        except (Exception, CancelledError) as error:
            # A failure may be the fault of the store.
            raise NotAdvanced(str(error)) from error
        self._tails.pop(edit.pin.key, None)
        try:
            outcome = advance(self._store, table.staged(self._store).write)
        except StorageFailure as error:
            raise NotAdvanced(str(error)) from error
        if isinstance(outcome, HeadMoved):
            raise _moved(edit.pin, outcome)
        yield outcome


def _result_of(edit: FoundEdit) -> DatasetVersion:
    return replace(edit.pin.at, version=edit.pin.version + 1)


def _next(steps: Iterator[StepTaken | HeadMoved]) -> StepTaken | HeadMoved | None:
    try:
        return next(steps, None)
    except Exception as error:
        # The rows of one write may not be writable, or it is the fault of the store.
        raise NotAdvanced(str(error)) from error


def _moved(pin: TablePin, moved: HeadMoved) -> NotAdvanced:
    orphan = moved.head - moved.landed_on_top
    foreign = replace(moved.at, version=orphan) if orphan > pin.version else None
    return NotAdvanced(f"{pin.key} was moved by another program", foreign)
