"""A pipeline that can be checked, planned and run: what `pipelines.load` returns."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import omnigraph
from omnigraph.catalog.model import Catalog
from omnigraph.errors import InvalidArgument, NotFound, PipelineFailed
from omnigraph.manifest.records import PIPELINE
from omnigraph.schema.build import catalog_from_text
from omnigraph.settings.credentials import TOKEN_VARIABLES
from omnigraph.spark.pipelines.estimates import known_columns, planned_sources, planned_targets
from omnigraph.spark.pipelines.files import find_files
from omnigraph.spark.pipelines.flow import Problems, flow_of
from omnigraph.spark.pipelines.model import Incremental, Pipeline
from omnigraph.spark.pipelines.parse import parse_pipeline
from omnigraph.spark.pipelines.positions import (
    LastRun,
    ReadRange,
    branch_exists,
    increments,
    is_served,
    last_run,
    stream_of,
)
from omnigraph.spark.pipelines.publishing import branch_prefix, review_branch
from omnigraph.spark.pipelines.results import (
    ListedPipeline,
    PipelinePlan,
    PipelineRun,
    PipelineStatus,
    PlannedStage,
    QuarantinedRow,
    RunStatus,
    SourceResult,
)
from omnigraph.spark.pipelines.run import (
    RunRequest,
    check_pipeline,
    lease_name,
    open_target,
    run_pipeline,
    schema_file,
)
from omnigraph.spark.pipelines.run_folders import (
    quarantine_folders,
    quarantined_rows,
    reported_runs,
)
from omnigraph.spark.pipelines.sources import wrongly_encoded
from omnigraph.spark.pipelines.steps import find_function


@dataclass(frozen=True, slots=True)
class LoadedPipeline:
    """A pipeline and what can be done with it."""

    pipeline: Pipeline

    def validate(self) -> tuple[str, ...]:
        """Check the pipeline against its graph and its sources, without Spark.

        Raises `PipelineInvalid` with everything that is wrong; returns warnings.
        """
        pipeline = self.pipeline
        flow = check_pipeline(pipeline, self._catalog(), known_columns(pipeline))
        for step in pipeline.steps.values():
            if step.python is not None:
                find_function(pipeline, step)
        names = {*flow.order, *flow.needed_sources}
        unused = [n for n in (*pipeline.sources, *pipeline.steps) if n not in names]
        warnings = [f"{name} is read by no target" for name in unused]
        return tuple(warnings + self._checked_files())

    def _checked_files(self) -> list[str]:
        """Refuses paths that do not exist and other encodings; warns of patterns without files."""
        warnings, problems = [], Problems(self.pipeline)
        for source in self.pipeline.sources.values():
            try:
                files = find_files(self.pipeline.name, source)
            except PipelineFailed as error:
                problems.add(error.message, source.place)
                continue
            if source.files and not files:
                patterns = ", ".join(source.files)
                warnings.append(f"source {source.name}: no file matches {patterns}")
            for file, problem in wrongly_encoded(source, files):
                problems.add(f"source {source.name}: {file}: {problem}", source.place)
        problems.raise_if_any()
        return warnings

    def _catalog(self) -> Catalog:
        """The schema that a run would load into: of the file with `evolve`, else of the graph."""
        pipeline = self.pipeline
        graph = None if pipeline.evolve and pipeline.schema else self._opened()
        if graph is not None:
            with graph:
                return graph.snapshot(self._branch_of(graph)).catalog
        return omnigraph_catalog(pipeline)

    def _branch_of(self, graph: omnigraph.Graph) -> str:
        branch = self.pipeline.publish.branch
        return branch if branch_exists(graph, branch) else "main"

    def _opened(self) -> omnigraph.Graph | None:
        """The graph to read from; None if a run would make it."""
        return open_target(self.pipeline, create=False)

    def plan(self, *, full: bool = False, since: str | None = None) -> PipelinePlan:
        """What the next run would do; starts no Spark and changes nothing."""
        pipeline = self.pipeline
        graph = self._opened()
        flow = flow_of(pipeline)
        last, steps = LastRun(), []
        try:
            if graph is not None:
                branch = self._branch_of(graph)
                last = last_run(graph, branch, pipeline.name)
                if pipeline.evolve and pipeline.schema is not None:
                    plan = graph.schema.plan(schema_file(pipeline), branch=branch)
                    steps = [str(step) for step in plan.steps]
            found = increments(pipeline, graph, last, ReadRange(full=full, since=since))
            sources = planned_sources(found, last)
            return PipelinePlan(
                pipeline=pipeline.name,
                graph=pipeline.graph,
                graph_exists=graph is not None,
                branch=pipeline.publish.branch,
                via="review" if pipeline.publish.review else pipeline.publish.via.value,
                sources=sources,
                steps=tuple(
                    PlannedStage(
                        name=name,
                        kind=_kind(pipeline, name),
                        inputs=flow.inputs[name],
                        expectations=len(pipeline.steps[name].expect),
                    )
                    for name in flow.order
                ),
                targets=planned_targets(pipeline, flow, sources, last, graph),
                schema_steps=tuple(steps),
            )
        finally:
            if graph is not None:
                graph.close()

    def run(
        self,
        spark: Any = None,
        *,
        full: bool = False,
        since: str | None = None,
        until: str | None = None,
        dry_run: bool = False,
        wait_seconds: float | None = None,
    ) -> PipelineRun:
        """Run once: at most one commit. A failed run is returned, too, with its `error`.

        `full` reads all sources from their beginning. `since` and `until` (both are moments or
        commits) read a range again, which is a backfill. `wait_seconds` is how long to wait for
        another run of the same pipeline before `PipelineBusy`; by default a little longer than a
        lease.
        """
        if full and (since is not None or until is not None):
            raise InvalidArgument("full reads everything; give it, or since and until")
        wanted = ReadRange(full=full, since=since, until=until)
        return run_pipeline(self.pipeline, spark, RunRequest(wanted, dry_run, wait_seconds))

    def watch(
        self,
        seconds: float,
        spark: Any = None,
        *,
        stop: threading.Event | None = None,
        told: Callable[[PipelineRun], object] | None = None,
    ) -> Iterator[PipelineRun]:
        """Run again and again, `seconds` apart, until `stop` is set; yields every run.

        It ends after a failed run, which is the last one that it yields.
        """
        ended = stop or threading.Event()
        while not ended.is_set():
            made = self.run(spark)
            if told is not None:
                told(made)
            yield made
            if made.status is RunStatus.FAILED or ended.wait(seconds):
                return

    def status(self) -> PipelineStatus:
        """Where the pipeline stands in its graph."""
        pipeline = self.pipeline
        graph = self._opened()
        if graph is None:
            return PipelineStatus(
                pipeline=pipeline.name, graph=pipeline.graph, branch=pipeline.publish.branch
            )
        with graph:
            branch = self._branch_of(graph)
            last = last_run(graph, branch, pipeline.name)
            found = increments(pipeline, graph, last, ReadRange())
            pending = {
                name: len(each.files)
                for name, each in found.items()
                if each.source.incremental is Incremental.FILES
            }
            prefix = branch_prefix(pipeline.name)
            open_branches = [b.name for b in graph.branches.list() if b.name.startswith(prefix)]
            holder = None
            if not is_served(graph):
                holder = graph.engine.leases.holder(lease_name(pipeline.name))
            return PipelineStatus(
                pipeline=pipeline.name,
                graph=pipeline.graph,
                branch=pipeline.publish.branch,
                runs=last.number + 1,
                last_commit=last.mark.commit_id if last.mark else None,
                last_run_id=last.details.get("run_id"),
                last_run_at=_time_of(graph, branch, last),
                sources=_recorded(last),
                pending_files=pending,
                review_branches=tuple(
                    name
                    for name in open_branches
                    if name == review_branch(pipeline.name) or "/conflict-" in name
                ),
                running={"actor": holder.actor_id, "intent": holder.intent_id} if holder else None,
            )

    def runs(self, limit: int = 20) -> list[PipelineRun]:
        """The newest runs first: those with a commit, and those that this folder has reports of."""
        reported = {run.run_id: run for run in reported_runs(self.pipeline, limit)}
        graph = self._opened()
        if graph is not None:
            with graph:
                branch = self._branch_of(graph)
                for commit in graph.commits.list(branch, limit, pipeline=self.pipeline.name):
                    details = commit.details[PIPELINE]
                    if details["run_id"] not in reported:
                        reported[details["run_id"]] = PipelineRun(
                            pipeline=self.pipeline.name,
                            run_id=details["run_id"],
                            status=RunStatus.SUCCEEDED,
                            branch=commit.graph_branch,
                            commit=commit.graph_commit_id,
                            sources=_recorded(LastRun(None, details)),
                            started_at=commit.created_at_rfc3339,
                        )
        return [reported[run_id] for run_id in sorted(reported, reverse=True)][:limit]

    def quarantine(self, run_id: str | None = None, limit: int = 1000) -> list[QuarantinedRow]:
        """The quarantined rows of a run; by default of the last run that has some."""
        folders = quarantine_folders(self.pipeline)
        if run_id is not None:
            folders = [each for each in folders if run_id in (each.name, each.parent.name)]
            if not folders and not (Path(self.pipeline.runs_folder) / run_id).is_dir():
                raise NotFound(f"there is no run {run_id} of {self.pipeline.name} here", id=run_id)
        return quarantined_rows(folders[0], limit) if folders else []


def _kind(pipeline: Pipeline, name: str) -> str:
    step = pipeline.steps[name]
    return "sql" if step.sql is not None else "python" if step.python is not None else "resolve"


def _recorded(last: LastRun) -> tuple[SourceResult, ...]:
    found = []
    for name, source in last.details.get("sources", {}).items():
        position = {k: v for k, v in source.items() if k not in ("columns", "processed")}
        if "processed" in source:
            position["processed"] = source["processed"]["count"]
        found.append(
            SourceResult(
                name=name, rows=source.get("rows"), files=source.get("files"), position=position
            )
        )
    return tuple(found)


def _time_of(graph: omnigraph.Graph, branch: str, last: LastRun) -> str | None:
    if last.mark is None:
        return None
    try:
        return graph.commits.show(last.mark.commit_id, branch).created_at_rfc3339
    except NotFound:
        return None


def omnigraph_catalog(pipeline: Pipeline) -> Catalog:
    """The catalog of the schema file."""
    path = schema_file(pipeline)
    return catalog_from_text(path.read_text(encoding="utf-8"), str(path))


def load(
    path: str | os.PathLike[str],
    variables: Mapping[str, str] | None = None,
    *,
    store: str | None = None,
    server: str | None = None,
    token: str | None = None,
    master: str | None = None,
) -> LoadedPipeline:
    """Read a pipeline file; raises `PipelineInvalid` with the places of all mistakes.

    `variables` come before the environment in `${NAME}`. `store` or `server` is used instead of
    `graph`, and `master` (also `sc://…`) instead of `spark.master`. `token` is for a graph on a
    server; by default it is OMNIGRAPH_BEARER_TOKEN of the environment.
    """
    pipeline = parse_pipeline(path, variables or {})
    address = store or server
    if address is not None:
        pipeline = replace(pipeline, graph=address)
    if pipeline.graph.startswith(("http://", "https://")):
        given = (os.environ.get(name) for name in TOKEN_VARIABLES)
        pipeline = replace(pipeline, token=token or next(filter(None, given), None))
    if master is not None:
        pipeline = replace(pipeline, spark=replace(pipeline.spark, master=master))
    return LoadedPipeline(pipeline)


def list_pipelines(
    graph: str | os.PathLike[str], branch: str = "main", *, token: str | None = None
) -> list[ListedPipeline]:
    """All pipelines that have committed to a branch of a graph."""
    found = []
    with omnigraph.open(graph, read_only=True, token=token) as opened:
        for name in _names(opened, branch):
            last = last_run(opened, branch, name)
            assert last.mark is not None
            found.append(
                ListedPipeline(
                    pipeline=name,
                    branch=branch,
                    runs=last.number + 1,
                    last_commit=last.mark.commit_id,
                    last_run_id=last.details.get("run_id"),
                    last_run_at=_time_of(opened, branch, last),
                )
            )
    return found


def _names(graph: omnigraph.Graph, branch: str) -> list[str]:
    """The pipelines of a branch: those that have a mark, or a commit in the list of a server."""
    if is_served(graph):
        every = (commit.details.get(PIPELINE) for commit in graph.commits.list(branch, None))
        return sorted({details["name"] for details in every if details is not None})
    prefix = stream_of("")
    _, state = graph.engine.reader.branch(branch)
    return sorted(s.removeprefix(prefix) for s in state.streams if s.startswith(prefix))
