"""Automatic upkeep: a thread that looks after the tables that this process writes.

It counts commits. After enough commits to a table it looks at the layout, and past a threshold it
compacts the table and extends its indexes through the one write path, as maintenance: this makes
no commit and changes no answer, and a write that was staged in between is staged again. The thread
starts when there is something to do and ends when there is not.

After a large commit the index of its ids is built, which takes all processors about as long as the
commit did. The first queries of the new rows come at the same time, so the index gives way to them:
it waits for a moment, and then until nothing is built beside queries.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.commit.transaction import Transaction
from omnigraph.errors import NotFound, OmnigraphError
from omnigraph.maintain.cleanup import Cleanup
from omnigraph.maintain.garbage import Retention
from omnigraph.maintain.table_upkeep import ACTOR, look_after
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import Commit
from omnigraph.settings.models import MaintenanceSettings
from omnigraph.values.bounded_cache import BoundedCache
from omnigraph.values.identifiers import TableKey

logger = logging.getLogger(__name__)

_CLOSE_PATIENCE_SECONDS = 10.0
# A thread that is in Lance when the interpreter ends brings the process down with SIGABRT. An index
# of a hundred million ids takes minutes.
_EXIT_PATIENCE_SECONDS = 1800.0
_MOST_TABLES = 16_384
# How long the index of a large commit gives way: to queries at least, and to their builds at most.
_REST_SECONDS = 1.0
_LONGEST_REST_SECONDS = 30.0
_LOOK_EVERY_SECONDS = 0.05

Table = tuple[str, TableKey]


@dataclass(frozen=True, slots=True)
class _Due:
    """Upkeep of a table that has not begun."""

    whole: bool
    """All upkeep; else the index of ids alone, after a large commit."""
    since: float


class Reconciler:
    """The automatic upkeep of one open graph."""

    def __init__(
        self,
        reader: ManifestReader,
        transaction: Transaction,
        cleanup: Cleanup,
        settings: MaintenanceSettings,
        queries_build: Callable[[], bool] = lambda: False,
    ) -> None:
        self._reader = reader
        self._transaction = transaction
        self._cleanup = cleanup
        self._settings = settings
        self._queries_build = queries_build
        """Whether something is built beside queries at this moment."""
        self._retention = Retention.of_settings(settings)
        self._condition = threading.Condition()
        self._commits: BoundedCache[Table, int] = BoundedCache(_MOST_TABLES)
        self._since_cleanup = 0
        self._waiting: dict[Table | None, _Due] = {}
        """What is due by table. The cleanup is due by None."""
        self._thread: threading.Thread | None = None
        self._stopped = not settings.automatic
        _reconcilers.add(self)

    def committed(self, commit: Commit) -> None:
        """Count a commit of this process; starts the thread when something is due."""
        if self._stopped:
            return
        with self._condition:
            for pins in commit.pins:
                if pins.after is not None:
                    before = pins.before.row_count if pins.before is not None else 0
                    is_large = pins.after.row_count - before >= self._settings.unindexed_rows
                    self._count((commit.graph_branch, pins.after.key), at_once=is_large)
            self._since_cleanup += 1
            is_due = self._since_cleanup >= self._settings.cleanup_every_commits
            if is_due and not self._retention.keeps_all:
                self._since_cleanup = 0
                self._waiting[None] = _Due(whole=True, since=time.monotonic())
            if self._waiting and self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="omnigraph-upkeep", daemon=True
                )
                self._thread.start()

    def settle(self, timeout: float = 60.0) -> bool:
        """Wait until nothing is due; False when the timeout passed first."""
        with self._condition:
            return self._condition.wait_for(lambda: self._thread is None, timeout)

    def stop(self, patience: float = _CLOSE_PATIENCE_SECONDS) -> None:
        """Finish the current step and begin no other; a killed step would need a recovery.

        The index of a large commit has begun with the commit, although it gave way to queries.
        """
        with self._condition:
            self._stopped = True
            self._waiting = {table: due for table, due in self._waiting.items() if not due.whole}
            self._condition.notify_all()
        self.settle(patience)

    def _count(self, table: Table, *, at_once: bool) -> None:
        commits = (self._commits.get(table) or 0) + 1
        if commits >= self._settings.look_every_commits:
            commits = 0
            self._waiting[table] = _Due(whole=True, since=time.monotonic())
        elif at_once:
            self._waiting.setdefault(table, _Due(whole=False, since=time.monotonic()))
        self._commits.put(table, commits)

    def _work(self) -> None:
        while True:
            with self._condition:
                begun = self._begin()
                while begun is None and self._waiting:
                    self._condition.wait(_LOOK_EVERY_SECONDS)
                    begun = self._begin()
                if begun is None:
                    self._thread = None
                    self._condition.notify_all()
                    return
            self._attend(*begun)

    def _begin(self) -> tuple[Table | None, bool] | None:
        """The next table, and whether it is due for all upkeep; None when all of them give way."""
        for table, due in self._waiting.items():
            if due.whole or not self._gives_way(due.since):
                del self._waiting[table]
                return table, due.whole
        return None

    def _gives_way(self, since: float) -> bool:
        age = time.monotonic() - since
        if self._stopped or age >= _LONGEST_REST_SECONDS:
            return False
        return age < _REST_SECONDS or self._queries_build()

    def _attend(self, table: Table | None, whole: bool) -> None:
        try:
            if table is None:
                self._cleanup.run(self._retention, ACTOR)
            else:
                look_after(
                    self._transaction,
                    self._reader,
                    self._settings,
                    table,
                    whole=whole,
                    stopped=lambda: self._stopped,
                )
        except NotFound:
            pass  # the branch or type was deleted in between
        except OmnigraphError as error:
            # Upkeep can wait; the next commits make it due again.
            logger.warning("upkeep of %s put off: %s", table or "old versions", error)
        except Exception:
            # A fault in upkeep must not break the process of the user; it is logged.
            logger.exception("upkeep of %s failed", table or "old versions")


_reconcilers: weakref.WeakSet[Reconciler] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for reconciler in list(_reconcilers):
        reconciler.stop(_EXIT_PATIENCE_SECONDS)
