"""`omnigraph verify`: check every invariant of a graph."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import Store, Uri
from omnigraph.cli.output import EXIT_FAILED, counted, print_report, print_result, readable_bytes
from omnigraph.cli.session import Session, address, open_to_read

Commits = Annotated[
    int,
    typer.Option(
        "--commits", min=0, metavar="N", help="Newest commits compared with their snapshots."
    ),
]


Full = Annotated[bool, typer.Option("--full", help="Compare every value of every sorted index.")]


def register(app: typer.Typer) -> None:
    command(app, "verify")(verify)


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
        failure = None if report.ok else (counted(total, "finding"), "verify_findings")
        print_report(report.to_dict(), failure)
    else:
        for finding in report.findings:
            branch = f"branch {finding.branch} " if finding.branch else ""
            print_result(f"{finding.check}: {branch}{finding.place}: {finding.message}")
        done = ", ".join(_number_of(what, n) for what, n in report.checked.items() if n)
        found = counted(total, "finding") if total else "no findings"
        print_result(f"{found}; checked {done}")
        if report.orphan_files:
            files = f"{counted(report.orphan_files, 'file')}, {readable_bytes(report.orphan_bytes)}"
            print_result(f"{files}: nobody needs them, `omnigraph cleanup` removes them")
    if not report.ok:
        raise typer.Exit(EXIT_FAILED)


_ONE = {"branches": "branch", "indexes": "index"}


def _number_of(what: str, number: int) -> str:
    """`checked` counts things by their plural."""
    one = _ONE.get(what, what.removesuffix("s"))
    return f"{number:,} {(one if number == 1 else what).replace('_', ' ')}"
