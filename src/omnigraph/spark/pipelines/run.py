"""One run of a pipeline: read, compute, check, write all targets, commit once.

Everything is lazy until the load: Spark computes a target while workers write its rows, and counts
rows and failed checks in the same pass. The commit carries the positions of all sources, so rows
and positions become visible together or not at all.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow.parquet as pq

import omnigraph
from omnigraph import failpoints
from omnigraph.catalog.model import Catalog
from omnigraph.errors import (
    AlreadyExists,
    Contention,
    ExpectationFailed,
    MergeConflicts,
    NotFound,
    OmnigraphError,
    PipelineBusy,
    PipelineFailed,
    PipelineInvalid,
    SparkUnavailable,
    ValidationFailed,
)
from omnigraph.load.options import LoadReceipt
from omnigraph.maintain.table_upkeep import look_after
from omnigraph.manifest.records import PIPELINE, StreamBatch
from omnigraph.progress import Listener, ProgressStep, heard_by, listener, tell
from omnigraph.settings.models import PipelineSettings
from omnigraph.spark.pipelines.expectations import (
    MeasuredFrame,
    counted_elsewhere,
    measured,
    refuse_failed,
)
from omnigraph.spark.pipelines.flow import Flow, Problems, flow_of
from omnigraph.spark.pipelines.model import Expectation, Incremental, Pipeline, TargetMode
from omnigraph.spark.pipelines.positions import (
    LastRun,
    ReadRange,
    SourceIncrement,
    increments,
    is_served,
    last_run,
    lists_of,
    position_after,
    stream_of,
)
from omnigraph.spark.pipelines.publishing import RunBranch
from omnigraph.spark.pipelines.report import write_report
from omnigraph.spark.pipelines.results import (
    ExpectationResult,
    PipelineRun,
    RunStatus,
    SourceResult,
    StepResult,
    TargetResult,
)
from omnigraph.spark.pipelines.run_folders import REJECTS, quarantined_rows, rejected_by_type
from omnigraph.spark.pipelines.sources import SourceReader, counted_by_footers
from omnigraph.spark.pipelines.steps import (
    StepMaker,
    cause_of,
    job_failed,
    reason_of,
    step_failed,
)
from omnigraph.spark.pipelines.streams import run_batch
from omnigraph.spark.pipelines.targets import check_targets, target_frames
from omnigraph.spark.session import Session, spark_session
from omnigraph.spark.upkeep import SparkUpkeep
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.temporal import write_micros

_SAMPLE_ROWS = 5
# Large batches, because the checks of a load take a fixed time for each of them.
_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # All encodings of Java, such as windows-1252, and not only the seven that Spark 4 allows.
    "spark.sql.legacy.javaCharsets": "true",
}


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The arguments of one run."""

    wanted: ReadRange = field(default_factory=ReadRange)
    dry_run: bool = False
    wait_seconds: float | None = None


def lease_name(pipeline: str) -> str:
    return stream_of(pipeline)


def open_target(pipeline: Pipeline, *, create: bool) -> omnigraph.Graph | None:
    """The graph of a pipeline. A missing one is made from `schema`, or is None.

    A server makes no graphs, and it knows the actor by the token.
    """
    actor, allowed = pipeline.publish.actor, pipeline.external_blobs
    if pipeline.graph.startswith(("http://", "https://")):
        return omnigraph.open(pipeline.graph, token=pipeline.token)
    try:
        return omnigraph.open(pipeline.graph, actor=actor, external_blobs=allowed)
    except NotFound:
        if pipeline.schema is None:
            raise
        if not create:
            return None
    try:
        settings = omnigraph.Settings().allowing(allowed)
        schema = schema_file(pipeline)
        return omnigraph.init(pipeline.graph, schema, actor=actor, settings=settings)
    except AlreadyExists:  # another first run made it at the same moment
        return omnigraph.open(pipeline.graph, actor=actor, external_blobs=allowed)


def schema_file(pipeline: Pipeline) -> Path:
    assert pipeline.schema is not None
    path = Path(pipeline.schema)
    if not path.is_file():
        raise PipelineInvalid(
            f"schema: there is no file {path}",
            problems=[{"problem": f"there is no file {path}"}],
            pipeline=pipeline.name,
        )
    return path


def check_pipeline(pipeline: Pipeline, catalog: Catalog, columns: Mapping[str, Any]) -> Flow:
    """The flow of a pipeline that fits a schema; raises `PipelineInvalid` with all mistakes."""
    flow = flow_of(pipeline)
    problems = Problems(pipeline)
    check_targets(pipeline, catalog, columns, problems)
    for target in pipeline.targets:
        if target.mode is not TargetMode.MIRROR:
            continue
        for name in sorted(flow.upstream(target.origin) & pipeline.sources.keys()):
            if pipeline.sources[name].incremental is not None:
                problems.add(
                    f"target {target.type}: mode mirror needs all rows, and source {name} is "
                    "incremental",
                    target.place,
                )
    problems.raise_if_any()
    return flow


def run_pipeline(pipeline: Pipeline, spark: Session | None, request: RunRequest) -> PipelineRun:
    """Run once. A failure is part of the result; a pipeline that cannot run is raised."""
    run = _Run(pipeline, spark, request)
    try:
        return run.finish(run.execute())
    except (PipelineInvalid, PipelineBusy):
        raise
    except OmnigraphError as error:
        return run.finish(run.failed(error))


@dataclass
class _Run:
    """The state of one run."""

    pipeline: Pipeline
    spark: Session | None
    request: RunRequest
    run_id: str = field(default_factory=SYSTEM_CLOCK.new_ulid)
    began: float = field(default_factory=monotonic)
    started_at: str = field(default_factory=lambda: write_micros(SYSTEM_CLOCK.now_micros()))
    measures: dict[str, MeasuredFrame] = field(default_factory=dict)
    reads: dict[str, SourceIncrement] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    branch: RunBranch | None = None
    flow: Flow | None = None
    quarantined: bool = False
    receipt: LoadReceipt | None = None
    planned: LoadReceipt | None = None
    """What the load will commit."""
    step_seconds: dict[str, float] = field(default_factory=dict)
    """How long it took to make the frame of a step."""
    type_seconds: dict[str, float] = field(default_factory=dict)
    """How long Spark computed and wrote the rows of a type."""
    samples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    is_counted: bool = True
    """Whether a run that failed has counted the rows of its sources and steps."""
    written: dict[str, int] = field(default_factory=dict)
    """For a graph on a server: the rows of each type that were written to files."""

    @property
    def folder(self) -> Path:
        return Path(self.pipeline.runs_folder) / self.run_id

    @property
    def quarantine_folder(self) -> Path:
        root = self.pipeline.quarantine
        return Path(root) / self.run_id if root else self.folder / "quarantine"

    def execute(self) -> PipelineRun:
        with ExitStack() as stack:
            graph = self._open(stack)
            if not self.request.dry_run and not is_served(graph):
                stack.enter_context(self._lease(graph))
            self.branch = RunBranch(graph, self.pipeline, self.run_id)
            if self.request.dry_run:
                self.branch.base = self.pipeline.publish.branch
            else:
                self.branch.choose_base()
            return self._increment(graph, self.branch)

    def _open(self, stack: ExitStack) -> omnigraph.Graph:
        pipeline, create = self.pipeline, not self.request.dry_run
        graph = open_target(pipeline, create=create)
        if graph is None:  # a dry run of a graph that does not exist yet
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="omnigraph-dry-"))
            graph = omnigraph.init(Path(folder) / "graph.omni", schema_file(pipeline))
        if is_served(graph):
            if pipeline.publish.actor is not None:
                self.messages.append("the actor is that of the token, not `publish.actor`")
        else:
            # Upkeep is a step of the run, on executors, and not a thread of the driver.
            graph.engine.reconciler.stop()
        return stack.enter_context(graph)

    @contextmanager
    def _lease(self, graph: omnigraph.Graph) -> Iterator[None]:
        """One run at a time; the process that waits too long gets `PipelineBusy`."""
        leases = graph.engine.leases
        name = lease_name(self.pipeline.name)
        actor = f"{self.pipeline.publish.actor or 'pipeline'}, run {self.run_id}"
        with ExitStack() as stack:
            try:
                hold = stack.enter_context(leases.hold(name, actor, self.request.wait_seconds))
            except Contention as error:
                raise PipelineBusy(
                    f"another run of pipeline {self.pipeline.name} is under way on this graph; "
                    "try again when it has ended",
                    pipeline=self.pipeline.name,
                ) from error
            yield
            hold.check()

    def _increment(self, graph: omnigraph.Graph, branch: RunBranch) -> PipelineRun:
        pipeline = self.pipeline
        catalog = graph.snapshot(branch.base).catalog
        steps = self._schema_steps(graph, branch.base)
        if steps is None:
            self.flow = check_pipeline(pipeline, catalog, {})
        else:
            self.flow = flow_of(pipeline)
        tell("looking for new rows", stage="read")
        last = last_run(graph, branch.base, pipeline.name)
        found = increments(pipeline, graph, last, self.request.wanted)
        self.reads = {name: found[name] for name in self.flow.needed_sources}
        streams = [n for n, s in pipeline.sources.items() if s.incremental is Incremental.STREAM]
        if not streams and all(each.is_empty for each in self.reads.values()):
            self.messages += [f"schema: {step}, with the next rows" for step in steps or ()]
            return self.result(RunStatus.EMPTY)
        try:
            if not self.request.dry_run:
                branch.begin(apart=bool(steps))
            if steps:
                catalog = self._evolve(graph, branch.written, steps)
            if streams:
                return self._stream(graph, branch, last, catalog, streams)
            with _beside(self._session(graph)) as session:
                return self._compute(graph, branch, last, catalog, session, {})
        except BaseException:
            if not self.request.dry_run:
                branch.abandon()
            raise

    def _schema_steps(self, graph: omnigraph.Graph, branch: str) -> list[str] | None:
        """With `evolve`: the steps from the schema of the graph to that of the file, if any."""
        if not self.pipeline.evolve or self.pipeline.schema is None:
            return None
        plan = graph.schema.plan(schema_file(self.pipeline), branch=branch)
        return [str(step) for step in plan.steps] or None

    def _evolve(self, graph: omnigraph.Graph, branch: str, steps: list[str]) -> Catalog:
        self.messages += [f"schema: {step}" for step in steps]
        if not self.request.dry_run:
            graph.schema.apply(
                schema_file(self.pipeline),
                branch=branch,
                message=f"schema of pipeline {self.pipeline.name}",
            )
        catalog = graph.snapshot(branch).catalog
        check_pipeline(self.pipeline, catalog, {})
        return catalog

    def _session(self, graph: omnigraph.Graph) -> Session:
        tell("starting Spark")
        if self.spark is not None:
            return self.spark
        if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit chose the master
            return import_module("pyspark.sql").SparkSession.builder.getOrCreate()
        terms = self.pipeline.spark
        settings = PipelineSettings() if is_served(graph) else graph.engine.settings.pipeline
        conf = {**dict(settings.conf), **terms.conf}
        if terms.packages:
            conf["spark.jars.packages"] = ",".join(terms.packages)
        return spark_session(
            replace(settings, master=terms.master or settings.master, conf=tuple(conf.items()))
        )

    def _stream(
        self,
        graph: omnigraph.Graph,
        branch: RunBranch,
        last: LastRun,
        catalog: Catalog,
        streams: list[str],
    ) -> PipelineRun:
        """One batch of a Structured Streaming source; its offsets are in Spark's checkpoint."""
        session = self._session(graph)

        def commit(spark: Session, name: str, frame: Any, position: dict[str, Any]) -> PipelineRun:
            self.details = {"sources": {name: position}}
            return self._compute(graph, branch, last, catalog, spark, {name: frame})

        made = run_batch(self.pipeline, session, streams, last, commit)
        if made is None:
            branch.abandon()
            return self.result(RunStatus.EMPTY)
        return made

    def _compute(
        self,
        graph: omnigraph.Graph,
        branch: RunBranch,
        last: LastRun,
        catalog: Catalog,
        spark: Session,
        given: Mapping[str, Any],
    ) -> PipelineRun:
        for name, value in _SESSION.items():
            spark.conf.set(name, value)
        frames = self._frames(spark, given)
        targets = target_frames(self.pipeline, catalog, frames)
        self._prepare_details(graph, last)
        self.receipt = self._load(graph, branch, targets, last)
        if self.request.dry_run:
            self._judge()
            # After the load, because a sample computes a frame in part and counts that.
            self.samples = {name: _sample(frame) for name, frame in targets.items()}
            return self.result(RunStatus.SUCCEEDED)
        failpoints.hit("pipeline.after_load")
        if self.receipt.commit is None or self._is_behind(branch):
            branch.abandon()
            return self.result(RunStatus.EMPTY)
        commit = branch.publish(self.receipt.commit.graph_commit_id)
        failpoints.hit("pipeline.after_publish")
        self._look_after(graph, branch)
        return self.result(RunStatus.SUCCEEDED, commit)

    def _is_behind(self, branch: RunBranch) -> bool:
        """Another run through the server has committed this increment straight to the branch."""
        assert self.receipt is not None
        if not self.receipt.repeated or branch.own is not None:
            return False
        self.messages.append("another run has committed this increment")
        return True

    def _look_after(self, graph: omnigraph.Graph, branch: RunBranch) -> None:
        """Index and compact on executors, because the driver has no memory for large tables."""
        if is_served(graph):
            return  # the server looks after its tables
        engine = graph.engine
        work = SparkUpkeep(engine.settings.pipeline, rows_per_part=sys.maxsize)
        every = engine.settings.maintenance.look_every_commits
        where = branch.kept or self.pipeline.publish.branch
        catalog = graph.snapshot(where).catalog
        tell("upkeep", stage="upkeep")
        for name in sorted({target.type for target in self.pipeline.targets}):
            try:
                look_after(
                    engine.transaction,
                    engine.reader,
                    engine.settings.maintenance,
                    (where, catalog.resolve(name).table_key),
                    whole=(self.details["number"] + 1) % every == 0,
                    work=work,
                )
            except Exception as error:  # noqa: BLE001 - the rows are published; upkeep can wait
                self.messages.append(f"upkeep of {name} is put off: {reason_of(error)}")

    def _frames(self, spark: Session, given: Mapping[str, Any]) -> dict[str, Any]:
        """The frames of all needed sources and steps; Spark computes nothing yet."""
        assert self.flow is not None
        pipeline = self.pipeline
        reader = SourceReader(spark, pipeline.name, evolve=pipeline.evolve)
        maker = StepMaker(spark, pipeline, self.messages.append)
        frames: dict[str, Any] = {}
        for name, each in self.reads.items():
            tell(f"reading {name}", stage="read")
            try:
                frame = given[name] if name in given else reader.frame(each)
            except PipelineFailed:
                raise
            except Exception as error:
                raise self._source_failed(name, error) from error
            frames[name] = self._measured(name, frame, ())
        self.messages += reader.messages
        for name in self.flow.order:
            tell(f"step {name}", stage="steps")
            step = pipeline.steps[name]
            inputs = {each: frames[each] for each in self.flow.inputs[name]}
            began = monotonic()
            frame = maker.frame(step, inputs)
            self.step_seconds[name] = monotonic() - began
            try:
                frames[name] = self._measured(name, frame, step.expect)
            except Exception as error:
                raise step_failed(pipeline, name, error) from error
            if self.flow.uses[name] > 1 and step.sql is None:
                frames[name] = frames[name].persist()  # its cost is not known, and it is used twice
        return frames

    def _measured(self, name: str, frame: Any, expect: Sequence[Expectation]) -> Any:
        known = None if expect else self._other_count(name)
        if known is not None:
            self.measures[name], passed = counted_elsewhere(name, frame, known)
        else:
            self.measures[name], passed = measured(name, frame, expect, self.run_id)
        return passed

    def _other_count(self, name: str) -> Callable[[], int | None] | None:
        """What counts the rows of a source or step, if Spark need not."""
        assert self.flow is not None
        pipeline = self.pipeline
        targets = [t for t in pipeline.targets if t.origin == name]
        if targets and self.flow.uses[name] == 1 and pipeline.publish.on_error != "skip":
            of_type = [t for t in pipeline.targets if t.type == targets[0].type]
            if len(of_type) == 1 and of_type[0].mode is not TargetMode.PATCH:
                return partial(self._loaded_rows, targets[0].type)
        each = self.reads.get(name)
        return None if each is None else counted_by_footers(each)

    def _loaded_rows(self, type_name: str) -> int | None:
        if type_name in self.written:
            return self.written[type_name]
        receipt = self.receipt or self.planned
        if receipt is None:
            return None
        found = (c for c in (*receipt.nodes, *receipt.edges) if c.name == type_name)
        return sum(counts.entities_loaded for counts in found)

    def _source_failed(self, name: str, error: Exception) -> PipelineFailed:
        failed = job_failed(self.pipeline, error)
        fields = {**failed.fields, "source": name}
        reason = failed.message.removeprefix(f"source {name}: ")
        return PipelineFailed(f"source {name}: {reason}", **fields)

    def _prepare_details(self, graph: omnigraph.Graph, last: LastRun) -> None:
        """What the commit will record. Counts are added when they are known."""
        streamed: Mapping[str, Any] = self.details.get("sources", {})
        sources: dict[str, Any] = {}
        for name, each in self.reads.items():
            sources[name] = {}
            dry = self.request.dry_run
            if not dry:
                wanted = self.request.wanted
                sources[name] = position_after(self.pipeline, each, graph, wanted)
            sources[name].update(streamed.get(name, {}))
            if each.source.files and each.source.schema is None and each.files:
                sources[name]["columns"] = self.measures[name].frame.schema.jsonValue()
            elif each.columns is not None:
                sources[name]["columns"] = each.columns
        self.details.clear()
        self.details.update(
            name=self.pipeline.name,
            stream=stream_of(self.pipeline.name),
            run_id=self.run_id,
            number=last.number + 1,
            sources=sources,
            lists=lists_of(sources),
        )

    def _load(
        self, graph: omnigraph.Graph, branch: RunBranch, targets: Mapping[str, Any], last: LastRun
    ) -> LoadReceipt:
        pipeline, terms = self.pipeline, self.pipeline.publish
        modes = {target.type: target.mode.value for target in pipeline.targets}
        scopes = {t.type: t.scope for t in pipeline.targets if t.scope is not None}
        rejects = None
        if not self.request.dry_run:
            self.folder.mkdir(parents=True, exist_ok=True)
            rejects = self.folder / REJECTS
        try:
            with heard_by(self._timed(listener())), ExitStack() as scratch:
                served = is_served(graph)
                return graph.load(
                    self._as_files(targets, scratch) if served else dict(targets),
                    modes,
                    branch.base if self.request.dry_run else branch.written,
                    scope=scopes or None,
                    engine="auto" if served else "spark",
                    progress=False,
                    on_error=terms.on_error,
                    max_errors=terms.max_errors if terms.on_error == "skip" else None,
                    rejects=rejects,
                    message=terms.message or f"pipeline {pipeline.name}, run {self.run_id}",
                    stream_batch=StreamBatch(stream_of(pipeline.name), last.number + 1),
                    details={PIPELINE: self.details},
                    dry_run=self.request.dry_run,
                    before_commit=None if self.request.dry_run or served else self._before_commit,
                )
        except PipelineFailed:
            raise
        except ValidationFailed as error:
            raise self._refused(error) from error
        except OmnigraphError as error:
            raise job_failed(pipeline, error) from error

    def _as_files(self, targets: Mapping[str, Any], scratch: ExitStack) -> dict[str, list[Path]]:
        """The rows of each type as Parquet files, judged before they are sent to the server."""
        temporary = tempfile.TemporaryDirectory(
            prefix="rows-", dir=None if self.request.dry_run else self.folder
        )
        root = Path(scratch.enter_context(temporary))
        found: dict[str, list[Path]] = {}
        for name, frame in targets.items():
            tell(f"computing {name}", unit="rows", stage=name)
            try:
                frame.write.parquet((root / name).as_uri())
            except Exception as error:
                raise job_failed(self.pipeline, error) from error
            found[name] = sorted((root / name).glob("*.parquet"))
            rows = sum(pq.read_metadata(file).num_rows for file in found[name])
            self.written[name] = rows
            tell(f"computed {name}", rows, rows, "rows", name)
        if not self.request.dry_run:
            self._judge()
            self._complete_details({name: n for name, n in self.written.items() if n})
        return found

    def _timed(self, pass_on: Listener) -> Listener:
        """Hears the progress of the load: how long each type takes, and from which step it is."""
        origins: dict[str, list[str]] = {}
        for target in self.pipeline.targets:
            origins.setdefault(target.type, []).append(target.origin)
        began: dict[str, float] = {}

        def hear(step: ProgressStep) -> None:
            names = origins.get(step.stage)
            if names is None:
                pass_on(step)
                return
            now = monotonic()
            self.type_seconds[step.stage] = now - began.setdefault(step.stage, now)
            pass_on(replace(step, what=f"{step.what} from {', '.join(names)}"))

        return hear

    def _refused(self, error: ValidationFailed) -> PipelineFailed:
        """Rows that break rules of the graph; the place of a row is its target and step."""
        first = next(iter(error.violations), {})
        found = first.get("type") or first.get("type_name") or error.fields.get("type")
        origin = next((t.origin for t in self.pipeline.targets if t.type == found), None)
        where = f"target {found}, from {origin}: " if origin else ""
        return PipelineFailed(
            f"{where}{error.message}",
            pipeline=self.pipeline.name,
            **({"target": found} if found else {}),
            **({"step": origin} if origin else {}),
            cause=error.to_dict(),
        )

    def _before_commit(self, receipt: LoadReceipt) -> None:
        """Judge the expectations, keep bad rows, and complete what the commit records."""
        self.planned = receipt
        self._judge()
        failpoints.hit("pipeline.before_commit")
        counts = (*receipt.nodes, *receipt.edges)
        self._complete_details({c.name: c.entities_loaded for c in counts})

    def _complete_details(self, targets: Mapping[str, int]) -> None:
        for name in self.reads:
            counts = self.measures[name].counts()
            self.details["sources"][name]["rows"] = counts["rows"] if counts else None
        self.details["targets"] = dict(targets)

    def _judge(self) -> None:
        assert self.flow is not None
        tell("checking expectations", stage="check")
        for name in self.flow.order:
            step = self.measures[name]
            if not step.expect:
                continue
            counts = step.counts()
            assert counts is not None
            refuse_failed(self.pipeline.name, step, counts)
            if counts["rows"] != step.passed(counts):
                self._keep_bad_rows(step)

    def _keep_bad_rows(self, step: MeasuredFrame) -> None:
        """Write the rows of the quarantine, once, before the others are committed."""
        self.quarantined = True
        folder = self.quarantine_folder / step.name
        if self.request.dry_run or folder.exists():
            return
        assert self.flow is not None
        upstream = self.flow.upstream(step.name) & self.pipeline.sources.keys()
        tell(f"quarantine of {step.name}", stage="check")
        writer = step.bad_rows(", ".join(sorted(upstream))).write.mode("error")
        try:
            writer.option("ignoreNullFields", "false").json(folder.as_uri())
        except Exception as error:
            raise PipelineFailed(
                f"step {step.name}: the quarantine {folder} cannot be written: {reason_of(error)}",
                pipeline=self.pipeline.name,
                step=step.name,
                file=str(folder),
                cause=cause_of(error),
            ) from error

    # Results

    def failed(self, error: OmnigraphError) -> PipelineRun:
        """The result of a run that published nothing."""
        # A job that failed has counted a part of its rows only.
        self.is_counted = isinstance(error, ExpectationFailed) or (
            error.fields.get("cause", {}).get("code") == ValidationFailed.code
        )
        found = self.result(RunStatus.FAILED)
        told = error.to_dict() if isinstance(error, MergeConflicts) else cause_of(error)
        return replace(found, error=told, failure=error)

    def result(self, status: RunStatus, commit: str | None = None) -> PipelineRun:
        branch = self.branch
        terms = self.pipeline.publish
        rejects = self.folder / REJECTS
        return PipelineRun(
            pipeline=self.pipeline.name,
            run_id=self.run_id,
            status=status,
            branch=terms.branch,
            commit=commit,
            sources=tuple(self._source_results(status)),
            steps=tuple(self._step_results(status)),
            expectations=tuple(self._expectation_results(status)),
            targets=tuple(self._target_results()),
            seconds=round(monotonic() - self.began, 3),
            review_branch=branch.kept if branch is not None else None,
            quarantine=str(self.quarantine_folder) if self._has_quarantine() else None,
            rejects=str(rejects) if rejects.is_file() else None,
            started_at=self.started_at,
            dry_run=self.request.dry_run,
            samples=self.samples,
            messages=tuple(self.messages),
        )

    def _has_quarantine(self) -> bool:
        return self.quarantined and self.quarantine_folder.is_dir()

    def finish(self, found: PipelineRun) -> PipelineRun:
        """Write the report of a run that did something."""
        if found.dry_run or (found.status is RunStatus.EMPTY and self.receipt is None):
            return found
        rows = quarantined_rows(Path(found.quarantine), 100) if found.quarantine else []
        with suppress(OSError):
            path = write_report(found, self.pipeline, self.folder, rows)
            return replace(found, report=path)
        return found

    def _counts(self, name: str, status: RunStatus) -> dict[str, int] | None:
        step = self.measures.get(name)
        if step is None:
            return None
        if status is RunStatus.FAILED and self.receipt is None:
            return step.counts(wait=False) if self.is_counted else None
        return step.counts()

    def _source_results(self, status: RunStatus) -> Iterator[SourceResult]:
        for name, each in self.reads.items():
            counts = self._counts(name, status)
            position = dict(self.details.get("sources", {}).get(name, {}))
            if "processed" in position:
                position["processed"] = position["processed"]["count"]
            position.pop("columns", None)
            if status is RunStatus.FAILED:
                position.clear()  # it was not recorded
            yield SourceResult(
                name=name,
                rows=counts["rows"] if counts else None,
                files=len(each.files) if each.source.files else None,
                position=position or None,
            )

    def _step_results(self, status: RunStatus) -> Iterator[StepResult]:
        if self.flow is None:
            return
        out: dict[str, int | None] = {}
        for name in (*self.reads, *self.flow.order):
            counts = self._counts(name, status)
            step = self.measures.get(name)
            out[name] = step.passed(counts) if counts and step else None
        for name in self.flow.order:
            into = [out.get(each) for each in self.flow.inputs[name]]
            yield StepResult(
                name=name,
                rows_in=None if None in into else sum(n for n in into if n is not None),
                rows_out=out[name],
                seconds=round(self._seconds_of(name), 3),
            )

    def _seconds_of(self, step: str) -> float:
        """The time to make its frame, and that of the jobs that computed it for targets."""
        assert self.flow is not None
        types = {t.type for t in self.pipeline.targets if step in self.flow.upstream(t.origin)}
        jobs = sum(self.type_seconds.get(name, 0.0) for name in types)
        return self.step_seconds.get(step, 0.0) + jobs

    def _expectation_results(self, status: RunStatus) -> Iterator[ExpectationResult]:
        for name in self.flow.order if self.flow is not None else ():
            counts = self._counts(name, status)
            if counts is not None:
                yield from self.measures[name].results(counts)

    def _target_results(self) -> Iterator[TargetResult]:
        if self.receipt is None:
            return
        modes = {target.type: target.mode.value for target in self.pipeline.targets}
        rejected = rejected_by_type(self.folder / REJECTS)
        for counts in (*self.receipt.nodes, *self.receipt.edges):
            yield TargetResult(
                type=counts.name,
                mode=modes.get(counts.name, "cascade"),
                inserted=counts.inserted,
                updated=counts.updated,
                unchanged=counts.unchanged,
                removed=counts.removed,
                cascaded=counts.cascaded,
                rejected=rejected[counts.name],
            )


@contextmanager
def _beside(session: Session) -> Iterator[Session]:
    """A session beside the caller's: names of views and settings are those of the run."""
    try:
        own = session.newSession()
    except Exception as error:
        raise SparkUnavailable(f"the Spark session cannot be used: {reason_of(error)}") from error
    try:
        yield own
    finally:
        with suppress(Exception):  # the Spark of a failed run may be gone
            session.createDataFrame([], "none INT")  # makes the caller's session active again
        if getattr(own, "_sc", None) is None:
            # A session of Spark Connect has its own channel. Python would wait for it at its exit.
            own.client.close()


def _sample(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.limit(_SAMPLE_ROWS).collect()]
