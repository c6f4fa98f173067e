"""What a run of a pipeline did: the result JSON of `pipeline run` as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from omnigraph.errors import OmnigraphError


class RunStatus(StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EMPTY = "empty"
    """No source had anything new, or nothing changed: there is no commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceResult:
    """What a run read from one source. `rows` is None if no action counted them."""

    name: str
    rows: int | None = None
    files: int | None = None
    position: Mapping[str, Any] | None = None
    """What the commit records: a summary of files, a commit, or a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The rows that went into a step and came out of it.

    `seconds` is the time of the Spark action that computed the step. Steps that one action
    computed together have the same time.
    """

    name: str
    rows_in: int | None = None
    rows_out: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationResult:
    """How many rows failed an expectation, and what was done about it."""

    step: str
    check: str
    failed: int
    action: str
    """`warn`, `quarantine` or `fail`; `none` if no row failed or as few as are tolerated."""
    rows: int | None = None
    """The rows that were checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResult:
    """What the commit changed in one type."""

    type: str
    mode: str = "merge"
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    cascaded: int = 0
    rejected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRun:
    """One run of a pipeline, whatever its end."""

    pipeline: str
    run_id: str
    status: RunStatus
    branch: str
    commit: str | None = None
    sources: tuple[SourceResult, ...] = ()
    steps: tuple[StepResult, ...] = ()
    expectations: tuple[ExpectationResult, ...] = ()
    targets: tuple[TargetResult, ...] = ()
    seconds: float = 0.0
    report: str | None = None
    """The path of the HTML report; the JSON file is beside it."""
    review_branch: str | None = None
    """The branch that waits for a review or holds conflicts."""
    quarantine: str | None = None
    """The folder with the quarantined rows of this run, if there are any."""
    error: Mapping[str, Any] | None = None
    """Of a failed run: the error as `--json` shows it."""
    rejects: str | None = None
    """The file with the rows that break a rule of the graph."""
    started_at: str | None = None
    dry_run: bool = False
    samples: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Of a dry run: the first rows of every target, by type."""
    messages: tuple[str, ...] = ()
    """What a person should know, for example the schema changes that were applied."""
    failure: OmnigraphError | None = field(default=None, compare=False, repr=False)
    """Of a failed run in this process: the error itself."""

    def raise_if_failed(self) -> PipelineRun:
        """This run, or its error."""
        if self.failure is not None:
            raise self.failure
        return self

    @property
    def has_warnings(self) -> bool:
        """Whether rows failed an expectation with `warn` or `quarantine`."""
        return any(each.action in ("warn", "quarantine") for each in self.expectations)

    @property
    def has_conflicts(self) -> bool:
        """Whether the merge of the run's branch found conflicts."""
        return self.error is not None and self.error.get("code") == "conflict"

    @property
    def exit_code(self) -> int:
        """0 succeeded or empty, 5 merge conflicts, 1 every other failure."""
        if self.status is not RunStatus.FAILED:
            return 0
        return 5 if self.has_conflicts else 1

    def to_dict(self) -> dict[str, Any]:
        """The result JSON. Optional keys are left out if they have no value."""
        found: dict[str, Any] = {
            "pipeline": self.pipeline,
            "run_id": self.run_id,
            "status": self.status.value,
            "commit": self.commit,
            "branch": self.branch,
            "sources": [asdict(each) for each in self.sources],
            "steps": [asdict(each) for each in self.steps],
            "expectations": [asdict(each) for each in self.expectations],
            "targets": [asdict(each) for each in self.targets],
            "seconds": self.seconds,
            "report": self.report,
        }
        optional = {
            "review_branch": self.review_branch,
            "quarantine": self.quarantine,
            "rejects": self.rejects,
            "error": self.error,
            "started_at": self.started_at,
            "dry_run": self.dry_run,
            "samples": self.samples,
            "messages": list(self.messages),
        }
        return found | {name: value for name, value in optional.items() if value}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> PipelineRun:
        """The run of a result JSON."""
        parts = {
            "status": RunStatus(data["status"]),
            "sources": tuple(SourceResult(**each) for each in data["sources"]),
            "steps": tuple(StepResult(**each) for each in data["steps"]),
            "expectations": tuple(ExpectationResult(**each) for each in data["expectations"]),
            "targets": tuple(TargetResult(**each) for each in data["targets"]),
            "messages": tuple(data.get("messages", ())),
        }
        return PipelineRun(**{**data, **parts})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSource:
    """What the next run would read from one source."""

    name: str
    kind: str
    """`files`, `graph` or the Spark format."""
    incremental: str | None = None
    new_files: int | None = None
    known_files: int | None = None
    bytes: int | None = None
    rows_estimated: int | None = None
    first_files: tuple[str, ...] = ()
    """The first new files, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStage:
    """One step, in the order in which steps run."""

    name: str
    kind: str
    """`sql`, `python` or `resolve`."""
    inputs: tuple[str, ...]
    expectations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTarget:
    """What the next run would write to one type."""

    type: str
    origin: str
    mode: str
    rows_estimated: int | None = None
    stored: int | None = None
    """Entities of the type in the graph now; None if the graph or the type does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinePlan:
    """What the next run would do. Planning starts no Spark and changes nothing."""

    pipeline: str
    graph: str
    graph_exists: bool
    branch: str
    via: str
    sources: tuple[PlannedSource, ...]
    steps: tuple[PlannedStage, ...]
    targets: tuple[PlannedTarget, ...]
    schema_steps: tuple[str, ...] = ()
    """Changes of the schema that a run with `evolve: true` would apply."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus:
    """Where a pipeline stands in its graph."""

    pipeline: str
    graph: str
    branch: str
    runs: int = 0
    """Runs that made a commit on the branch."""
    last_commit: str | None = None
    last_run_id: str | None = None
    last_run_at: str | None = None
    sources: tuple[SourceResult, ...] = ()
    """The positions that the last commit recorded."""
    pending_files: Mapping[str, int] = field(default_factory=dict)
    """New files by source, of sources with `incremental: files`."""
    review_branches: tuple[str, ...] = ()
    running: Mapping[str, Any] | None = None
    """The run that is under way, if there is one: its id, its actor and since when."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPipeline:
    """A pipeline that has committed to a graph."""

    pipeline: str
    branch: str
    runs: int
    last_commit: str
    last_run_id: str | None = None
    last_run_at: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRow:
    """A row that failed an expectation with `quarantine`."""

    run_id: str
    step: str
    rule: str
    """The checks that the row failed, joined by `; `."""
    origin: str | None
    """The file that the row came from, if its source has files."""
    row: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
