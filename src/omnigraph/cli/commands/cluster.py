"""`cluster validate|plan|apply|approve|status|refresh|observe|import|force-unlock`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.command import command
from omnigraph.cli.output import EXIT_FAILED, Paint, painter, print_json, print_note, print_result
from omnigraph.cli.scopes import CONTROL
from omnigraph.cli.session import Session
from omnigraph.errors import InvalidArgument

if TYPE_CHECKING:
    from omnigraph.cluster.commands import ClusterReport
    from omnigraph.cluster.session import ClusterCall

EXIT_CHANGES = 6

Config = Annotated[
    str,
    typer.Option(
        "--config", metavar="DIR", help="The directory of cluster.yaml; here if left out."
    ),
]
ConfigOrRoot = Annotated[
    str,
    typer.Option("--config", metavar="DIR|URI", help="The directory of cluster.yaml, or a root."),
]
LockTimeout = Annotated[
    float,
    typer.Option("--lock-timeout", metavar="S", min=0, help="Wait so long for another command."),
]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", metavar="ADDRESS", help="Only this resource; repeatable."),
]
MinApprovals = Annotated[
    int,
    typer.Option("--min-approvals", metavar="N", min=1, help="Approvals that a change needs."),
]

group = typer.Typer(
    help="Declare graphs, queries and policies in one directory, and apply it.",
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="cluster")


def _call(session: Session, config: str, lock_timeout: float = 0.0) -> ClusterCall:
    from omnigraph.cluster.session import ClusterCall

    return ClusterCall(
        config, actor=session.actor(), settings=session.settings(), lock_timeout=lock_timeout
    )


def _print(
    session: Session,
    report: ClusterReport,
    lines: Callable[[ClusterReport, Paint], Iterator[str]] | None = None,
) -> None:
    """Print a report. Findings go to stderr, and an error among them is the exit code 1."""
    from omnigraph.cli.cluster_lines import finding_lines

    if session.json:
        print_json(report.to_dict())
    else:
        for line in finding_lines(report, painter(sys.stderr)):
            print_note(line)
        if lines is not None:
            for line in lines(report, painter(sys.stdout)):
                print_result(line)
    if not report.ok:
        raise typer.Exit(EXIT_FAILED)


@command(group, "validate", CONTROL)
def validate(session: Session, config: Config = ".") -> None:
    """Parse and type-check everything that a directory declares.

    Reads no ledger, no graph and no secret.

    For example:

    \b
      omnigraph cluster validate
      omnigraph cluster validate --config deploy --json
    """
    from omnigraph.cluster.commands import validate as run

    def lines(report: ClusterReport, paint: Paint) -> Iterator[str]:
        if report.ok:
            yield f"valid: {len(report.body['resources'])} resources"

    _print(session, run(_call(session, config)), lines)


@command(group, "plan", CONTROL)
def plan(
    session: Session,
    config: Config = ".",
    target: Targets = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Save the plan for `apply --plan`.")
    ] = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit 0 without changes, 6 with changes.")
    ] = False,
    no_refresh: Annotated[
        bool, typer.Option("--no-refresh", help="Do not look at live graphs.")
    ] = False,
    observe: Annotated[
        bool, typer.Option("--observe", help="Look at live graphs, which is the default.")
    ] = False,
    min_approvals: MinApprovals = 1,
) -> None:
    """Show what `apply` would change: `+` create, `~` update, `-` delete.

    Takes no lock and writes nothing. A change of a schema is shown with the steps that the engine
    would take now.

    For example:

    \b
      omnigraph cluster plan
      omnigraph cluster plan --config deploy --out plan.json --detailed-exitcode
      omnigraph cluster plan --target graph.people
    """
    from omnigraph.cli.cluster_lines import plan_lines
    from omnigraph.cluster.commands import plan as run
    from omnigraph.cluster.commands import saved_plan
    from omnigraph.cluster.session import ApplyTerms

    terms = ApplyTerms(tuple(target or ()), min_approvals, observe=observe or not no_refresh)
    with session.working("planning"):
        report = run(_call(session, config), terms)
    if out is not None and report.ok:
        _save(saved_plan(report), out)
    _print(session, report, plan_lines)
    if detailed_exitcode and report.changes:
        raise typer.Exit(EXIT_CHANGES)


def _save(body: dict[str, Any], file: str) -> None:
    try:
        Path(file).write_text(f"{json.dumps(body, indent=2)}\n", encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"cannot write {file}: {error.strerror}", file=file) from error


@command(group, "apply", CONTROL, writes=True)
def apply(
    session: Session,
    config: Config = ".",
    target: Targets = None,
    saved: Annotated[
        str | None, typer.Option("--plan", metavar="FILE", help="Apply only what this plan says.")
    ] = None,
    lock_timeout: LockTimeout = 0.0,
    min_approvals: MinApprovals = 1,
) -> None:
    """Make the declarations true: create graphs, change schemas, publish queries and policies.

    The plan is made again under the lock. What needs an approval waits for it, and the rest is
    applied: `converged` in the JSON says whether everything is as declared. On a terminal the plan
    is shown first, and you are asked, unless --yes or --plan is given. A killed apply is finished
    by the next one.

    For example:

    \b
      omnigraph cluster apply
      omnigraph cluster apply --plan plan.json --as ci --json
      omnigraph cluster apply --target graph.people --lock-timeout 60
    """
    from omnigraph.cli.cluster_lines import apply_lines, plan_lines
    from omnigraph.cluster.commands import apply as run
    from omnigraph.cluster.commands import plan as run_plan
    from omnigraph.cluster.session import ApplyTerms

    terms = ApplyTerms(tuple(target or ()), min_approvals)
    call = _call(session, config, lock_timeout)
    if saved is None and not session.yes and not session.json and sys.stdin.isatty():
        preview = run_plan(call, terms)
        if not preview.ok:
            _print(session, preview, plan_lines)
        if preview.changes:
            for line in plan_lines(preview, painter(sys.stdout)):
                print_result(line)
            session.confirm("Apply these changes?")
    with session.working("applying"):
        report = run(call, terms, None if saved is None else _saved(saved))
    _print(session, report, apply_lines)


def _saved(file: str) -> dict[str, Any]:
    try:
        found = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"cannot read the plan {file}: {error}", file=file) from None
    if not isinstance(found, dict):
        raise InvalidArgument(f"{file} is no plan of `cluster plan --out`", file=file)
    return found


@command(group, "approve", CONTROL, writes=True)
def approve(
    session: Session,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="For example graph.people.")],
    config: Config = ".",
    lock_timeout: LockTimeout = 0.0,
) -> None:
    """Approve one change that deletes a graph, loses data, or creates a lost graph again.

    The approval is bound to the config, the ledger and the graph as they are now: any movement
    ends it. It is used once.

    For example:

    \b
      omnigraph cluster approve graph.old --as ada
    """
    from omnigraph.cluster.commands import approve as run

    def lines(report: ClusterReport, paint: Paint) -> Iterator[str]:
        body = report.body
        if report.ok:
            yield (
                f"{body['approved_by']} approved {body['operation']} of {body['resource']} "
                f"({body['reason']}): {body['approval_id']}"
            )

    _print(session, run(_call(session, config, lock_timeout), address), lines)


@command(group, "status", CONTROL)
def status(session: Session, config: ConfigOrRoot = ".") -> None:
    """Show the ledger, the lock and the catalog. Opens no graph.

    For example:

    \b
      omnigraph cluster status
      omnigraph cluster status --config s3://bucket/cluster --json
    """
    from omnigraph.cli.cluster_lines import status_lines
    from omnigraph.cluster.commands import status as run

    _print(session, run(_call(session, config)), status_lines)


@command(group, "observe", CONTROL)
def observe(
    session: Session,
    config: ConfigOrRoot = ".",
    write: Annotated[
        bool, typer.Option("--write", help="Record what was seen, as `refresh` does.")
    ] = False,
    lock_timeout: LockTimeout = 0.0,
) -> None:
    """Look at the live graphs and the catalog, without the lock and without writing.

    For example:

    \b
      omnigraph cluster observe
      omnigraph cluster observe --config s3://bucket/cluster --json
    """
    from omnigraph.cli.cluster_lines import status_lines
    from omnigraph.cluster import commands

    run = commands.refresh if write else commands.observe
    _print(session, run(_call(session, config, lock_timeout)), status_lines)


@command(group, "refresh", CONTROL)
def refresh(session: Session, config: Config = ".", lock_timeout: LockTimeout = 0.0) -> None:
    """Settle interrupted changes, look at the live graphs, and record what is there.

    For example:

    \b
      omnigraph cluster refresh
      omnigraph cluster refresh --json
    """
    from omnigraph.cli.cluster_lines import status_lines
    from omnigraph.cluster.commands import refresh as run

    _print(session, run(_call(session, config, lock_timeout)), status_lines)


@command(group, "import", CONTROL)
def import_(session: Session, config: Config = ".", lock_timeout: LockTimeout = 0.0) -> None:
    """Create the first ledger from the declared graphs that exist already.

    `apply` does this too; `import` records them without changing any.

    For example:

    \b
      omnigraph cluster import
    """
    from omnigraph.cli.cluster_lines import status_lines
    from omnigraph.cluster.commands import import_cluster

    _print(session, import_cluster(_call(session, config, lock_timeout)), status_lines)


@command(group, "force-unlock", CONTROL)
def force_unlock(
    session: Session,
    lock_id: Annotated[str, typer.Argument(metavar="LOCK_ID", help="As `status` shows it.")],
    config: ConfigOrRoot = ".",
) -> None:
    """Remove the lock of a command that died. An expired lock needs no such help.

    For example:

    \b
      omnigraph cluster force-unlock 01M7N10AYDZ3BAPX99H7BG72H0
    """
    from omnigraph.cluster.commands import force_unlock as run

    def lines(report: ClusterReport, paint: Paint) -> Iterator[str]:
        if report.ok:
            yield f"removed the lock {lock_id}"

    _print(session, run(_call(session, config), lock_id), lines)
