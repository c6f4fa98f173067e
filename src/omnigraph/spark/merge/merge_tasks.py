"""What the workers of a Spark merge run: merge the rows of some ids, check them, write them.

A task needs only its plan and its ids, so Spark can run it anywhere and repeat it. The driver
adopts the files of the attempt whose report it receives. Files of other attempts are referenced by
nothing, and cleanup removes them.
"""

from __future__ import annotations

import pickle
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from omnigraph import failpoints
from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import EntityType
from omnigraph.diff.id_runs import IdRuns, Scratch
from omnigraph.errors import OmnigraphError, StorageFailure
from omnigraph.integrity.row_checks import check_rows
from omnigraph.integrity.rules import checked_columns
from omnigraph.integrity.violations import Tally, Violation
from omnigraph.lance_store.objects.storage_location import StorageLocation
from omnigraph.lance_store.staging.written_fragments import write_to
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.merge.conflicts import Conflict
from omnigraph.merge.decisions import Decisions
from omnigraph.merge.output import MergeFindings, fragment_sized
from omnigraph.merge.tables import TableMerge
from omnigraph.writes.row_compare import Mask

TASK, IDS, RESULT = "task", "ids", "result"
RESULT_COLUMNS = f"{TASK} int, {RESULT} binary"
TASK_SCHEMA = pa.schema([pa.field(TASK, pa.int32()), pa.field(IDS, pa.binary())])
_FASTEST = 1  # level of zlib


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What every task of one table needs to know; the table is stored on all sides."""

    location: StorageLocation
    table: TableMerge
    decisions: Decisions
    home: DatasetVersion
    """The dataset of the table in the target branch, which owns it."""


@dataclass(slots=True)
class MergeReport:
    """What a task reports to the driver about its ids, in their order."""

    checked: pa.Table
    """The columns of the written rows that graph rules look at."""
    is_new: Mask
    deleted: pa.Array
    fragments: tuple[str, ...] = ()
    """All written rows; empty if the task found something wrong, because the merge fails then."""
    conflicts: list[Conflict] = field(default_factory=list)
    conflict_count: int = 0
    violations: list[Violation] = field(default_factory=list)
    tally: Tally = field(default_factory=Counter)
    used: frozenset[int] = frozenset()
    """Resolutions that decided a conflict in this task."""
    error: OmnigraphError | None = None


def checked_schema(entity: EntityType) -> pa.Schema:
    schema = table_schema(entity)
    return pa.schema([schema.field(name) for name in checked_columns(entity)])


def task_row(number: int, ids: pa.Array) -> pa.RecordBatch:
    """A task as a row of a DataFrame, so that an executor receives only its own ids."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({IDS: ids})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return pa.record_batch([[number], [sink.getvalue().to_pybytes()]], schema=TASK_SCHEMA)


def merge_tasks(
    plan: MergePlan,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over rows that `task_row` made."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, ids in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                with pa.ipc.open_stream(ids) as reader:
                    report = _MergeAttempt(plan).run(reader.read_all().column(IDS).combine_chunks())
                result = zlib.compress(pickle.dumps(report), _FASTEST)
                yield pa.record_batch({TASK: pa.array([number], pa.int32()), RESULT: [result]})

    return run


def read_report(result: bytes) -> MergeReport:
    report: MergeReport = pickle.loads(zlib.decompress(result))
    return report


class _MergeAttempt:
    """One attempt to merge the rows of some ids."""

    def __init__(self, plan: MergePlan) -> None:
        self._plan = plan
        self._store = Store(plan.location)
        self._findings = MergeFindings()
        self._checked = [checked_schema(plan.table.entity).empty_table()]
        self._is_new: list[Mask] = [np.zeros(0, bool)]
        self._deleted = [pa.array([], pa.string())]

    def run(self, ids: pa.Array) -> MergeReport:
        fragments: list[str] = []
        failed: OmnigraphError | None = None
        home = self._store.open(self._plan.home)
        try:
            for rows in fragment_sized(self._merged(ids)):
                if self._is_right:
                    fragments += write_to(home, rows)
        except StorageFailure:
            raise  # Spark repeats the task, and storage may work then
        except OmnigraphError as error:
            failed = error  # a repeated task would fail the same way
        failpoints.hit("spark.task_written")
        return self._report(fragments if self._is_right else [], failed)

    def _merged(self, ids: pa.Array) -> Iterator[pa.Table]:
        plan, entity = self._plan, self._plan.table.entity
        with Scratch() as scratch:
            runs = IdRuns(scratch)
            runs.add(ids)
            for chunk in plan.table.chunks(self._store, runs, plan.decisions):
                self._findings.add(chunk.conflicts)
                check_rows(entity, chunk.written, self._findings.report)
                self._checked.append(chunk.written.select(list(checked_columns(entity))))
                self._is_new.append(chunk.is_new)
                self._deleted.append(chunk.deleted)
                yield chunk.written

    @property
    def _is_right(self) -> bool:
        return not (self._findings.conflict_count or self._findings.report.total)

    def _report(self, fragments: list[str], error: OmnigraphError | None) -> MergeReport:
        found = self._findings
        return MergeReport(
            pa.concat_tables(self._checked),
            np.concatenate(self._is_new),
            pa.concat_arrays(self._deleted),
            tuple(fragments),
            found.conflicts,
            found.conflict_count,
            found.report.violations,
            found.report.tally,
            self._plan.decisions.used,
            error,
        )
