"""A merge on Spark: workers merge, check and write rows; the driver finds ids, checks and commits.

The driver itself merges types that the merge creates or gives other columns, types whose table the
target does not own, types with few changes, and types whose ancestor exists only in this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from omnigraph.catalog.model import EntityType
from omnigraph.diff.id_runs import IdRuns, Scratch
from omnigraph.integrity.stored_image import TableDelta
from omnigraph.lance_store.store import Store
from omnigraph.manifest.records import TablePin
from omnigraph.merge.decisions import Decisions
from omnigraph.merge.output import (
    ChangedRows,
    LocalRowMerger,
    MergeEngine,
    MergeFindings,
    TableOutput,
)
from omnigraph.merge.tables import TableMerge
from omnigraph.progress import tell
from omnigraph.settings.models import PipelineSettings
from omnigraph.spark.jobs import run_job
from omnigraph.spark.merge.merge_tasks import (
    RESULT,
    RESULT_COLUMNS,
    TASK,
    MergePlan,
    MergeReport,
    checked_schema,
    merge_tasks,
    read_report,
    task_row,
)
from omnigraph.spark.session import Session, parallelism, spark_session
from omnigraph.values.known_names import SPARK
from omnigraph.writes.changeset import AdoptRows

_IDS_PER_TASK = 512 * 1024
"""Enough rows for a file of a good size."""
_TASKS_PER_WORKER = 2
_TASKS_PER_WAVE = 16
"""Ids and reports of one wave are in memory at once, in the driver and in its JVM."""
_FEW_IDS = 20_000
"""A Spark job costs more than merging so many ids in the driver."""


@dataclass(frozen=True, slots=True)
class SparkMerger:
    """Merges rows on the executors of the process's Spark session."""

    settings: PipelineSettings
    ids_per_task: int = _IDS_PER_TASK
    few_ids: int = _FEW_IDS

    def engine(self, reason: str) -> MergeEngine:
        return MergeEngine(SPARK, reason, self._start, writes_ahead=True)

    def _start(self, store: Store, scratch: Scratch, owner: str) -> _SparkRowMerger:
        return _SparkRowMerger(self, store, scratch, owner)


@dataclass(frozen=True, slots=True)
class _SparkRowMerger:
    """The `RowMerger` of one merge."""

    merger: SparkMerger
    store: Store
    scratch: Scratch
    owner: str

    def merge_table(
        self, table: TableMerge, ids: IdRuns, decisions: Decisions, findings: MergeFindings
    ) -> TableOutput:
        home = self._home(table)
        if home is None or ids.most < self.merger.few_ids:
            here = LocalRowMerger(self.store, self.scratch)
            return here.merge_table(table, ids, decisions, findings)
        output = _WrittenOutput(table.entity, home, self.scratch)
        plan = MergePlan(self.store.location, table, decisions, home.at)
        for report in self._reports(plan, ids):
            if report.error is not None:
                raise report.error
            decisions.note_used(report.used)
            findings.add(report.conflicts, report.conflict_count)
            findings.report.merge(report.violations, report.tally)
            output.add(report)
        return output

    def _home(self, table: TableMerge) -> TablePin | None:
        """The table for which workers write; None if they cannot merge it."""
        ours = table.ours.table
        if ours is None or table.whole or not table.is_stored:
            return None
        return ours.pin if ours.pin.owner == self.owner else None

    def _reports(self, plan: MergePlan, ids: IdRuns) -> Iterator[MergeReport]:
        tell("starting Spark")
        session = spark_session(self.merger.settings)
        tasks_at_once = _TASKS_PER_WORKER * parallelism(session)
        size = min(self.merger.ids_per_task, -(-ids.most // tasks_at_once))
        chunks, done = ids.chunks(size=lambda: max(1, size)), 0
        while wave := list(islice(chunks, max(_TASKS_PER_WAVE, tasks_at_once))):
            tell(f"merging {plan.table.entity.name}", done, ids.most, "rows")
            yield from _run_wave(session, plan, wave)
            done += sum(map(len, wave))


def _run_wave(session: Session, plan: MergePlan, chunks: list[pa.Array]) -> Iterator[MergeReport]:
    """The reports of some tasks, in the order of their ids."""
    rows = pa.Table.from_batches([task_row(n, ids) for n, ids in enumerate(chunks)])
    tasks = session.createDataFrame(rows).repartitionById(len(chunks), TASK)
    merged = tasks.mapInArrow(merge_tasks(plan), RESULT_COLUMNS)
    done = run_job(session, "merge", merged.collect)
    for row in sorted(done, key=lambda row: row[TASK]):
        yield read_report(row[RESULT])


class _WrittenOutput:
    """A `TableOutput` whose rows stay with the workers: it holds reports of tasks, in id order."""

    def __init__(self, entity: EntityType, home: TablePin, scratch: Scratch) -> None:
        self.entity = entity
        self._home = home
        self._rows = ChangedRows(checked_schema(entity), scratch)
        self._fragments: list[str] = []

    def add(self, report: MergeReport) -> None:
        self._rows.add(report.checked, report.is_new, report.deleted)
        self._fragments += report.fragments

    @property
    def is_empty(self) -> bool:
        return self._rows.is_empty

    def delta(self, *, creates: bool) -> TableDelta:
        return self._rows.delta(self.entity, creates=creates)

    def effect(self, store: Store, pin: TablePin | None, merged_at: TablePin | None) -> AdoptRows:
        """Adopt the fragments; staging refuses them if the table has moved."""
        del store, merged_at
        assert pin is not None, "tables that do not exist yet are merged by the driver"
        home = self._home
        fragments = tuple(self._fragments)
        return AdoptRows(pin.key, home.location, home.branch, fragments, self._rows.listed())

    def discard(self) -> None:
        self._rows.discard()
