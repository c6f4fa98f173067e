"""`verify`, `repair` and `recovery list|failpoints`: find faults of a graph and put them right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph import failpoints
from omnigraph.cli.command import command
from omnigraph.cli.options import Store, Uri
from omnigraph.cli.output import (
    EXIT_FAILED,
    print_json,
    print_note,
    print_report,
    print_result,
    readable_bytes,
)
from omnigraph.cli.scopes import DIRECT, LOCAL, UPKEEP
from omnigraph.cli.session import Session, address, echo_target, open_to_read
from omnigraph.cli.tables import moment_text, print_table
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.maintain.repair import RepairReport


Commits = Annotated[
    int,
    typer.Option(
        "--commits", min=0, metavar="N", help="Compare this many newest commits per branch."
    ),
]
Full = Annotated[bool, typer.Option("--full", help="Compare every value of every sorted index.")]
Confirm = Annotated[bool, typer.Option("--confirm", help="Repair; without it, only report.")]
Force = Annotated[
    bool, typer.Option("--force", help="Also move unreadable intents to _quarantine/.")
]


group = typer.Typer(
    no_args_is_help=True, help="Recoveries of crashed writers, and failpoints for tests."
)


def register(app: typer.Typer) -> None:
    command(app, "verify", UPKEEP)(verify)
    command(app, "repair", DIRECT, writes=True)(repair)
    app.add_typer(group, name="recovery")


def verify(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    commits: Commits = 20,
    full: Full = False,
) -> None:
    """Check manifest, datasets, rules, indexes, history and tags; exit code 1 on findings.

    For example:

    \b
      omnigraph verify people.omni
    """
    graph = open_to_read(session, address(session, uri, store))
    with session.working("verifying"):
        report = graph.verify(commits, full=full)
    total = sum(report.counts.values())
    if session.json:
        error = None if report.ok else counted(total, "finding")
        print_report(report.to_dict(), error, "verify_findings")
    else:
        for finding in report.findings:
            branch = f"branch {finding.graph_branch} " if finding.graph_branch else ""
            print_result(f"{finding.check}: {branch}{finding.place}: {finding.message}")
        done = ", ".join(_number_of(what, n) for what, n in report.checked.items() if n)
        found = counted(total, "finding") if total else "no findings"
        print_result(f"{found}; checked {done}")
        if report.orphan_files:
            files = f"{counted(report.orphan_files, 'file')}, {readable_bytes(report.orphan_bytes)}"
            print_result(f"{files}: not needed, `omnigraph cleanup` removes them")
    if not report.ok:
        raise typer.Exit(EXIT_FAILED)


_ONE = {"branches": "branch", "indexes": "index"}


def _number_of(what: str, number: int) -> str:
    """A count with its noun; the keys of `checked` are plural nouns."""
    one = _ONE.get(what, what.removesuffix("s"))
    return f"{number:,} {(one if number == 1 else what).replace('_', ' ')}"


def repair(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    confirm: Confirm = False,
    force: Force = False,
) -> None:
    """Repair tables that other programs changed, unreadable intents, and a moved graph.

    Columns that have other names than in the schema are named again.

    Without --confirm the command only reports. With it, a table gets the rows of its last commit;
    what the other program wrote stays under the tag `orphan-<id>` until cleanup. Branches of a
    graph that was moved or copied name shared files by the old address; --confirm changes it. An
    intent is a file that a writer leaves before it commits; --force moves unreadable ones to
    `_quarantine/`.

    For example:

    \b
      omnigraph repair people.omni
      omnigraph repair people.omni --confirm
    """
    where = address(session, uri, store)
    graph = open_to_read(session, where)
    if confirm:
        echo_target(session, where)
        graph = graph.for_repair()
    report = graph.repair(confirm=confirm, force=force)
    if session.json:
        print_json(report.to_dict())
    else:
        _print_report(report)


def _print_report(report: RepairReport) -> None:
    verb = "put back to" if report.confirmed else "should be"
    for table in report.drift:
        print_result(
            f"branch {table.graph_branch} {table.table}: HEAD is version {table.head_version} "
            f"({table.head_rows} rows), {verb} version {table.pinned_version} "
            f"({table.pinned_rows} rows)"
        )
    for column in report.columns:
        way_out = "named as in the schema" if report.confirmed else "--confirm names it"
        ending = way_out if column.is_safe else "restore the files of this table from a backup"
        print_result(f"branch {column.graph_branch} {column}: {ending}")
    if report.moved_from:
        done = "now name this place" if report.confirmed else "still name that place"
        print_result(f"the graph was moved here from {report.moved_from}; its branches {done}")
    for name in report.unreadable:
        print_result(f"{name}: {'moved to _quarantine/' if report.confirmed else 'unreadable'}")
    for intent in report.pending:
        print_note(f"in flight: {intent.kind} {intent.intent_id} by {intent.actor_id or '-'}")
    if report.clean:
        print_result("nothing to repair")
    elif not report.confirmed:
        print_note("nothing was changed; repeat with --confirm (and --force for intents)")


@command(group, "list", UPKEEP)
def list_recoveries(session: Session, uri: Uri = None, store: Store = None) -> None:
    """Show every recovery, newest first: whose write it was and how it ended.

    For example:

    \b
      omnigraph recovery list people.omni
    """
    graph = open_to_read(session, address(session, uri, store))
    audits = [audit.to_dict() for audit in graph.recoveries()]
    if session.json:
        print_json({"recoveries": audits})
        return
    if not audits:
        session.note("no recovery was ever needed")
        return
    print_table(
        ("created_at", "recovery", "operation", "branch", "for", "tables"),
        [
            (
                moment_text(row["created_at"]),
                row["recovery_kind"],
                row["operation_kind"],
                row["graph_branch"],
                row["recovery_for_actor"] or "-",
                ", ".join(f"{name} {state}" for name, state in row["tables"].items()),
            )
            for row in audits
        ],
    )


@command(group, "failpoints", LOCAL)
def list_failpoints(session: Session) -> None:
    """List the points at which OMNIGRAPH_FAILPOINTS can kill, raise or sleep.

    For example:

    \b
      omnigraph recovery failpoints
      OMNIGRAPH_FAILPOINTS="commit.after_arm=kill" python my_writer.py
    """
    if session.json:
        print_json({"failpoints": list(failpoints.ALL_POINTS)})
    else:
        print_result("\n".join(failpoints.ALL_POINTS))
