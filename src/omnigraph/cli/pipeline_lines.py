"""Print plans, runs and guesses of pipelines for people."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from omnigraph.cli.change_lines import short_text
from omnigraph.cli.output import (
    GREEN,
    RED,
    YELLOW,
    painter,
    print_note,
    print_result,
    readable_bytes,
)
from omnigraph.cli.session import Session
from omnigraph.cli.tables import folded, print_table
from omnigraph.values.json_values import json_text
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.spark.pipelines import (
        ExpectationResult,
        InferredPipeline,
        PipelinePlan,
        PipelineRun,
        PipelineStatus,
        PlannedSource,
        QuarantinedRow,
        TargetResult,
    )

_SAMPLE_ROWS = 5
_STATUS_COLOURS = {"succeeded": GREEN, "failed": RED, "empty": YELLOW}
_CHANGES = {
    "inserted": "inserted",
    "updated": "updated",
    "unchanged": "unchanged",
    "removed": "removed",
    "cascaded": "removed with their nodes",
    "rejected": "rejected",
}


def print_run(session: Session, run: PipelineRun, graph: str, brief: bool = False) -> None:
    """A run on `graph` as JSON, or as lines; `brief` is one line for a run that did nothing."""
    if session.json:
        print_result(json_text(run.to_dict()) if brief else json_text(run.to_dict(), indent=2))
        sys.stdout.flush()
        return
    paint = painter(sys.stdout)
    status = paint(_STATUS_COLOURS[run.status.value], run.status.value)
    what = "dry run" if run.dry_run else "run"
    from omnigraph.spark.pipelines.report import duration

    print_result(f"{run.pipeline}  {what} {run.run_id}  {status} in {duration(run.seconds)}")
    if brief and run.status.value == "empty":
        sys.stdout.flush()
        return
    for line in _step_lines(run):
        print_result(line)
    for line in _expectation_lines(run.expectations, run.quarantine):
        print_result(paint(YELLOW, folded(line, 10)))
    width = max((len(each.type) for each in run.targets), default=0)
    for target in run.targets:
        print_result(f"  {target.mode:<7} {target.type:<{width}}  {_change(target)}")
    for message in run.messages:
        print_result(folded(f"  {message}", 4))
    for name, rows in run.samples.items():
        print_sample(name, rows)
    for line in _end_lines(run, graph):
        print_result(folded(line, 2))
    if run.error is not None:
        print_note(paint(RED, str(run.error.get("error", "the run failed"))))
    sys.stdout.flush()


def _step_lines(run: PipelineRun) -> Iterator[str]:
    """Sources and steps with their rows."""
    from omnigraph.spark.pipelines.report import duration

    names = [*(each.name for each in run.sources), *(each.name for each in run.steps)]
    width = max((len(name) for name in names), default=0)
    for source in run.sources:
        parts = [] if source.rows is None else [counted(source.rows, "row")]
        if source.files is not None:
            parts.append(f"{'from ' if parts else ''}{counted(source.files, 'file')}")
        yield f"  read    {source.name:<{width}}  {' '.join(parts)}".rstrip()
    for step in run.steps if run.targets or run.status.value != "empty" else ():
        rows = [f"{count:,}" for count in (step.rows_in, step.rows_out) if count is not None]
        told = f"{' -> '.join(rows)} rows, " if rows else ""
        yield f"  compute {step.name:<{width}}  {told}{duration(step.seconds)}"


def _expectation_lines(
    expectations: Sequence[ExpectationResult], folder: str | None
) -> Iterator[str]:
    for each in expectations:
        if not each.failed:
            continue
        share = f" of {each.rows:,} ({each.failed / each.rows:.2%})" if each.rows else ""
        rows = f"{each.failed:,}{share} rows"
        done = {
            "quarantine": "in quarantine",
            "warn": "kept",
            "fail": "so the run failed",
        }.get(each.action, "tolerated")
        yield f"  check   {each.step}: {rows} fail `{each.check}`, {done}"
    if folder is not None:
        yield f"  kept    {folder}"


def _change(target: TargetResult) -> str:
    counts = {words: getattr(target, name) for name, words in _CHANGES.items()}
    return ", ".join(f"{count:,} {words}" for words, count in counts.items() if count) or "no rows"


def _end_lines(run: PipelineRun, graph: str) -> Iterator[str]:
    if run.commit is not None:
        yield f"commit {run.commit} on {run.review_branch or run.branch}"
    elif run.dry_run:
        yield "nothing was changed, because this was a dry run"
    elif run.status.value == "empty":
        yield f"nothing new, {run.branch} is unchanged"
    if run.review_branch is not None:
        branch, scope = run.review_branch, _scope_options(graph)
        yield "for review:"
        yield f"  omnigraph branch diff {branch} {scope}"
        yield f"  omnigraph branch merge {branch} {scope}"
    if run.rejects is not None:
        yield f"rows that the graph refused: {run.rejects}"
    if run.report is not None:
        yield f"report {run.report}"


def _scope_options(graph: str) -> str:
    """The options by which other commands find the graph."""
    if graph.startswith(("http://", "https://")):
        server, _, name = graph.rpartition("/graphs/")
        return f"--server {server} --graph {name}"
    here = Path.cwd()
    near = Path(graph).is_relative_to(here)
    return f"--store {shlex.quote(str(Path(graph).relative_to(here)) if near else graph)}"


def print_sample(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """The first rows of a target, as a table."""
    print_result(f"{name}, the first {counted(min(len(rows), _SAMPLE_ROWS), 'row')}:")
    columns = list(dict.fromkeys(key for row in rows for key in row))
    shown = [[row.get(column) for column in columns] for row in rows[:_SAMPLE_ROWS]]
    if columns:
        print_table(columns, shown)


def plan_lines(plan: PipelinePlan) -> None:
    """What the next run would do."""
    state = "" if plan.graph_exists else ", which the run makes"
    print_result(f"{plan.pipeline} -> {plan.graph}{state}, branch {plan.branch}, by {plan.via}")
    for source in plan.sources:
        print_result(folded(f"  read    {source.name}: {_source(source)}", 10))
    for step in plan.steps:
        checks = f", {counted(step.expectations, 'expectation')}" if step.expectations else ""
        inputs = ", ".join(step.inputs)
        print_result(folded(f"  compute {step.name}: {step.kind} of {inputs}{checks}", 10))
    for target in plan.targets:
        known = target.rows_estimated
        rows = "" if known is None else f", about {counted(known, 'row')}"
        stored = "" if target.stored is None else f", {target.stored:,} stored now"
        print_result(f"  {target.mode:<7} {target.type} from {target.origin}{rows}{stored}")
    for change in plan.schema_steps:
        print_result(f"  schema  {change}")


def _source(source: PlannedSource) -> str:
    parts = [source.kind]
    if source.new_files is not None:
        parts.append(counted(source.new_files, "new file"))
    if source.known_files:
        parts.append(f"{source.known_files:,} known")
    if source.bytes:
        parts.append(readable_bytes(source.bytes))
    if source.rows_estimated is not None:
        parts.append(f"about {counted(source.rows_estimated, 'row')}")
    shown = ", ".join(PurePath(each).name for each in source.first_files[:3])
    more = len(source.first_files) > 3 or (source.new_files or 0) > len(source.first_files)
    return ", ".join(parts) + (f" ({shown}{' …' if more else ''})" if shown else "")


def status_lines(status: PipelineStatus) -> None:
    """Where a pipeline stands."""
    runs = counted(status.runs, "run")
    print_result(f"{status.pipeline} -> {status.graph}, branch {status.branch}: {runs} committed")
    if status.last_commit is not None:
        print_result(f"  last    {status.last_run_at or ''} commit {status.last_commit}")
    if status.running is not None:
        told = ", ".join(f"{name} {value}" for name, value in status.running.items())
        print_result(f"  running {told}")
    for source in status.sources:
        print_result(f"  at      {source.name}: {short_text(_position(source.position))}")
    for name, files in status.pending_files.items():
        print_result(f"  waiting {name}: {counted(files, 'new file')}")
    for branch in status.review_branches:
        print_result(f"  review  {branch}")


def _position(position: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{name} {value}" for name, value in (position or {}).items()) or "-"


def quarantine_lines(rows: Sequence[QuarantinedRow]) -> None:
    """One line for each row: step, rule, origin, values."""
    for row in rows:
        values = ", ".join(f"{name}: {short_text(value)}" for name, value in row.row.items())
        origin = f" ({row.origin.removeprefix('file://')})" if row.origin else ""
        print_result(folded(f"{row.step}: {row.rule}{origin}  {values}", 4))


def infer_lines(found: InferredPipeline) -> None:
    """What was guessed, and the files to edit."""
    for table in found.tables:
        files = counted(len(table["files"]), "file")
        rows = f"{table['rows']:,}{'' if table['complete'] else ' first'} rows"
        key = f", key {table['key']}" if table["key"] else ""
        print_result(f"{table['kind']} {table['type']}: {rows} of {files}{key}")
        for each in table["references"]:
            share = f"{each['matched']:,} of {each['values']:,} values match"
            print_result(f"  {each['column']} -> {each['to']}: {share}")
        for note in table["notes"]:
            print_result(f"  {note}")
    for file in found.left_out:
        print_result(f"left out, because it has no rows: {file}")
    print_result(f"wrote {found.pipeline} and {found.schema}")
    print_note(f"edit both, then: omnigraph pipeline validate {found.pipeline}")
