"""`pipeline validate|plan|run|status|list|runs|quarantine|infer`: declared pipelines on Spark."""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import Branch, Page, Store
from omnigraph.cli.output import WrongUsage, print_json, print_result
from omnigraph.cli.pipeline_lines import (
    infer_lines,
    plan_lines,
    print_run,
    quarantine_lines,
    status_lines,
)
from omnigraph.cli.scopes import ANY, LOCAL
from omnigraph.cli.session import Session, address
from omnigraph.cli.tables import print_table
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.spark.pipelines import LoadedPipeline, PipelineRun

EXIT_WARNINGS = 7

File = Annotated[str, typer.Argument(metavar="FILE", help="The pipeline: a YAML or JSON file.")]
Variables = Annotated[
    list[str] | None,
    typer.Option(
        "--var", metavar="K=V", help="The value of ${K} in the file, before the environment's."
    ),
]
OtherStore = Annotated[
    str | None,
    typer.Option("--store", "--uri", metavar="URI", help="Use this graph, not that of the file."),
]


@dataclass(frozen=True)
class PipelinePlace:
    """The file of a pipeline, and what is used instead of what the file says."""

    file: File
    var: Variables = None
    store: OtherStore = None


Master = Annotated[
    str | None,
    typer.Option(
        "--master", metavar="M", help="Where Spark runs: local[*], spark://host:7077, yarn …"
    ),
]
Remote = Annotated[
    str | None,
    typer.Option("--remote", metavar="URL", help="A Spark Connect server: sc://host:15002."),
]
Full = Annotated[bool, typer.Option("--full", help="Read all sources from their beginning again.")]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME|COMMIT", help="Read again what came at this moment or later."
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME|COMMIT", help="With --since: read nothing newer."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show counts and samples, without a commit.")
]
Watch = Annotated[
    float | None,
    typer.Option(
        "--watch",
        metavar="SECONDS",
        min=0.1,
        help="Run again and again, this far apart, until Ctrl-C or SIGTERM.",
    ),
]
Wait = Annotated[
    float | None,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        min=0,
        help="How long to wait for another run to end; by default until its lease would end.",
    ),
]
StrictWarnings = Annotated[
    bool,
    typer.Option(
        "--strict-warnings",
        help="End with exit code 7 if rows failed an expectation (warn or quarantine).",
    ),
]
RunId = Annotated[
    str | None,
    typer.Option("--run", metavar="ID", help="A run; by default the last one with such rows."),
]
Samples = Annotated[
    list[str],
    typer.Argument(metavar="FILES...", help="CSV, NDJSON, JSON or Parquet: files, folders, globs."),
]
Out = Annotated[
    str, typer.Option("--out", "-o", metavar="DIR", help="The folder of the two new files.")
]
Name = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Of the pipeline; by default that of the folder."),
]
SampleRows = Annotated[
    int, typer.Option("--rows", metavar="N", min=1, help="How many rows of a table are looked at.")
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace files that exist.")]

group = typer.Typer(help="Pipelines that a file declares and Spark runs.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="pipeline")


@command(group, "validate", ANY, frames=True)
def validate(session: Session, place: PipelinePlace) -> None:
    """Check a pipeline file against its graph and its sources, without Spark.

    Everything that is wrong is named with its line. Exit code 1 if the file cannot run.

    For example:

    \b
      omnigraph pipeline validate packages.yaml
      omnigraph pipeline validate packages.yaml --var DAY=2026-11-17 --json
    """
    loaded = _load(session, place)
    with session.working("checking"):
        warnings = loaded.validate()
    found = loaded.pipeline
    if session.json:
        print_json({"pipeline": found.name, "valid": True, "warnings": list(warnings)})
        return
    for warning in warnings:
        session.note(f"warning: {warning}")
    parts = [
        counted(len(found.sources), "source"),
        counted(len(found.steps), "step"),
        counted(len(found.targets), "target"),
    ]
    print_result(f"{found.name} is valid: {', '.join(parts)}")


@command(group, "plan", ANY, frames=True)
def plan(session: Session, place: PipelinePlace, full: Full = False, since: Since = None) -> None:
    """Show what the next run would read, compute and write, without Spark.

    For example:

    \b
      omnigraph pipeline plan packages.yaml
      omnigraph pipeline plan packages.yaml --full --json
    """
    with session.working("planning"):
        found = _load(session, place).plan(full=full, since=since)
    if session.json:
        print_json(found.to_dict())
    else:
        plan_lines(found)


@command(group, "run", ANY, writes=True, frames=True)
def run(
    session: Session,
    place: PipelinePlace,
    full: Full = False,
    since: Since = None,
    until: Until = None,
    dry_run: DryRun = False,
    watch: Watch = None,
    wait: Wait = None,
    master: Master = None,
    remote: Remote = None,
    strict_warnings: StrictWarnings = False,
) -> None:
    """Run a pipeline once: one commit over all targets, or no change at all.

    A run that is repeated changes nothing, and a run that was killed can be started again. With
    `publish: {review: true}` the result stays on its own branch, which `branch diff` shows and
    `branch merge` takes over.

    With --watch, SIGTERM lets the run that is under way end, and then ends the command with exit
    code 0. Ctrl-C cancels the run.

    Exit codes: 0 succeeded or nothing to do, 1 failed, 2 wrong usage, 5 merge conflicts (the
    branch is kept), 7 rows failed an expectation and --strict-warnings was given.

    For example:

    \b
      omnigraph pipeline run packages.yaml
      omnigraph pipeline run packages.yaml --dry-run
      omnigraph pipeline run packages.yaml --var DAY=2026-11-17 --strict-warnings --json
      omnigraph pipeline run packages.yaml --full --master spark://head:7077
      omnigraph pipeline run packages.yaml --watch 60
      omnigraph pipeline run packages.yaml --remote sc://spark.example.com
    """
    if master is not None and remote is not None:
        raise WrongUsage("--master and --remote name two places for Spark: give one of them")
    if watch is not None and (full or since or until or dry_run):
        raise WrongUsage(
            "--watch goes on with what is new: leave out --full, --since and --dry-run"
        )
    loaded = _load(session, place, master or remote)
    if watch is not None:
        _watch(session, loaded, watch, strict_warnings)
        return
    with session.working(f"running {loaded.pipeline.name}"):
        found = loaded.run(full=full, since=since, until=until, dry_run=dry_run, wait_seconds=wait)
    print_run(session, found, loaded.pipeline.graph)
    _leave(found, strict_warnings)


def _watch(session: Session, loaded: LoadedPipeline, seconds: float, strict: bool) -> None:
    """Print every run; the first failure ends the command, because the next would fail, too."""
    stop = threading.Event()
    every = f"every {seconds:g} seconds"
    session.note(f"running {loaded.pipeline.name} {every}; Ctrl-C or SIGTERM ends it")
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        for found in loaded.watch(seconds, stop=stop):
            print_run(session, found, loaded.pipeline.graph, brief=True)
            _leave(found, strict)
    except KeyboardInterrupt:
        stop.set()
    finally:
        signal.signal(signal.SIGTERM, before)
    session.note("stopped")


def _leave(found: PipelineRun, strict_warnings: bool) -> None:
    if found.exit_code:
        raise typer.Exit(found.exit_code)
    if strict_warnings and found.has_warnings:
        raise typer.Exit(EXIT_WARNINGS)


@command(group, "status", ANY, frames=True)
def status(session: Session, place: PipelinePlace) -> None:
    """Show where a pipeline stands: its last commit, positions, and what waits.

    For example:

    \b
      omnigraph pipeline status packages.yaml
      omnigraph pipeline status packages.yaml --json
    """
    found = _load(session, place).status()
    if session.json:
        print_json(found.to_dict())
    else:
        status_lines(found)


@command(group, "list", ANY, frames=True)
def list_of_pipelines(session: Session, store: Store = None, branch: Branch = "main") -> None:
    """List the pipelines that have committed to a branch of a graph.

    For example:

    \b
      omnigraph pipeline list --store packages.omni
    """
    from omnigraph.spark.pipelines import list_pipelines

    _refuse_policy(session)
    place = address(session, None, store)
    found = list_pipelines(place, branch, token=_token(session, place))
    if session.json:
        print_json({"pipelines": [each.to_dict() for each in found]})
        return
    rows = [(each.pipeline, each.runs, each.last_run_at, each.last_commit) for each in found]
    if rows:
        print_table(("pipeline", "runs", "last run", "last commit"), rows)
    session.note(counted(len(rows), "pipeline"))


@command(group, "runs", ANY, frames=True)
def runs(session: Session, place: PipelinePlace, limit: Page = None) -> None:
    """List the runs of a pipeline, the newest first.

    For example:

    \b
      omnigraph pipeline runs packages.yaml
      omnigraph pipeline runs packages.yaml --limit 5 --json
    """
    found = _load(session, place).runs(limit or 20)
    if session.json:
        print_json({"runs": [each.to_dict() for each in found]})
        return
    rows = [_run_row(each) for each in found]
    if rows:
        print_table(("run", "status", "started", "seconds", "changed", "commit"), rows)
    session.note(counted(len(rows), "run"))


def _run_row(run: PipelineRun) -> tuple[Any, ...]:
    changed = sum(t.inserted + t.updated + t.removed + t.cascaded for t in run.targets)
    return run.run_id, run.status.value, run.started_at, round(run.seconds, 1), changed, run.commit


@command(group, "quarantine", ANY, frames=True)
def quarantine(
    session: Session, place: PipelinePlace, run_id: RunId = None, limit: Page = None
) -> None:
    """Show the rows of a run that failed an expectation, with rule and origin.

    For example:

    \b
      omnigraph pipeline quarantine packages.yaml
      omnigraph pipeline quarantine packages.yaml --run 01M7H8QRSTGJB9M89XSVK2F5M5 --json
    """
    found = _load(session, place).quarantine(run_id, limit or 1000)
    if session.json:
        print_json({"rows": [each.to_dict() for each in found]})
    else:
        quarantine_lines(found)
        session.note(counted(len(found), "row"))


@command(group, "infer", LOCAL)
def infer(
    session: Session,
    files: Samples,
    out: Out,
    name: Name = None,
    rows: SampleRows = 100_000,
    again: Replace = False,
) -> None:
    """Write a first pipeline and schema from sample data, ready to edit.

    Types, keys and references between files are guessed. Comments in both files have the evidence.

    For example:

    \b
      omnigraph pipeline infer customers.csv orders.csv --out shop/
      omnigraph pipeline infer in/ --out shop/ --name shop
    """
    from omnigraph.spark.pipelines import infer as infer_pipeline

    with session.working("looking at the files"):
        found = infer_pipeline(files, out, name=name, rows=rows, replace=again)
    if session.json:
        print_json(found.to_dict())
    else:
        infer_lines(found)


def _load(session: Session, place: PipelinePlace, master: str | None = None) -> LoadedPipeline:
    """The pipeline of a file, with the graph and the actor of the command line."""
    from omnigraph.spark.pipelines import load

    _refuse_policy(session)
    named = place.store is not None or session.flags.names_a_scope
    store = address(session, None, place.store) if named else None
    loaded = load(place.file, _pairs(place.var), store=store, master=master)
    if loaded.pipeline.graph.startswith(("http://", "https://")):
        token = _token(session, loaded.pipeline.graph)
        loaded = replace(loaded, pipeline=replace(loaded.pipeline, token=token))
    if session.as_actor is None:
        return loaded
    publish = replace(loaded.pipeline.publish, actor=session.as_actor)
    return replace(loaded, pipeline=replace(loaded.pipeline, publish=publish))


def _refuse_policy(session: Session) -> None:
    if session.policy() is not None:
        raise WrongUsage("a pipeline works on storage itself, where no policy holds: leave it out")


def _token(session: Session, place: str) -> str | None:
    return session.server_token(place) if place.startswith(("http://", "https://")) else None


def _pairs(given: list[str] | None) -> dict[str, str]:
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise WrongUsage(f"--var {text!r}: write it as NAME=VALUE")
        found[name] = value
    return found
