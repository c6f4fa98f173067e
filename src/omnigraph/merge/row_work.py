"""Who merges the rows of a type: this process, or others that are told how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from omnigraph.diff.id_runs import IdRuns, Scratch
from omnigraph.integrity.row_checks import check_rows
from omnigraph.integrity.violations import Report
from omnigraph.lance_store.store import Store
from omnigraph.merge.conflicts import Conflict
from omnigraph.merge.decisions import Decisions
from omnigraph.merge.table_merge import TableMerge
from omnigraph.merge.table_output import Output, TableOutput
from omnigraph.values.known_names import LOCAL

MOST_CONFLICTS = 10_000
"""So many conflicts are listed; further ones are only counted."""
MOST_VIOLATIONS = 10_000

OutputT_co = TypeVar("OutputT_co", bound=Output, covariant=True)


@dataclass
class Findings:
    """What stands in the way of a merge, and what is wrong with single rows."""

    conflicts: list[Conflict] = field(default_factory=list)
    conflict_count: int = 0
    report: Report = field(default_factory=lambda: Report(MOST_VIOLATIONS))

    def add(self, conflicts: list[Conflict], count: int | None = None) -> None:
        """In order; `count` says how many there are if not all are listed."""
        self.conflict_count += len(conflicts) if count is None else count
        self.conflicts += conflicts[: MOST_CONFLICTS - len(self.conflicts)]


class RowWork(Protocol[OutputT_co]):
    """Merges the rows of one type after the other."""

    def merge_table(
        self, table: TableMerge, ids: IdRuns, decisions: Decisions, findings: Findings
    ) -> OutputT_co:
        """What happens to our table; what is wrong goes to `findings`, in the order of ids."""


@dataclass(frozen=True, slots=True)
class LocalRows:
    """Row work in this process."""

    store: Store
    scratch: Scratch

    def merge_table(
        self, table: TableMerge, ids: IdRuns, decisions: Decisions, findings: Findings
    ) -> TableOutput:
        output = TableOutput(table.entity, self.scratch)
        for chunk in table.chunks(self.store, ids, decisions):
            findings.add(chunk.conflicts)
            check_rows(table.entity, chunk.written, findings.report)
            output.add(chunk)
        return output


@dataclass(frozen=True, slots=True)
class RowEngine:
    """How the rows of a whole merge are done."""

    name: str
    reason: str
    """Why this one."""
    start: Callable[[Store, Scratch, str], RowWork[Output]]
    """Given the incarnation of the target, which may write only tables that it owns."""
    writes_ahead: bool = False
    """Its rows are files of the target's tables before anything is committed."""


def _here(store: Store, scratch: Scratch, owner: str) -> LocalRows:
    del owner
    return LocalRows(store, scratch)


LOCAL_ENGINE = RowEngine(LOCAL, "asked for", _here)
