"""`omnigraph repair`: what no writer explains, shown first, put right on request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import Store, Uri
from omnigraph.cli.output import print_json, print_note, print_result
from omnigraph.cli.session import Session, address, open_to_read

if TYPE_CHECKING:
    from omnigraph.maintain.repair import RepairReport

Confirm = Annotated[bool, typer.Option("--confirm", help="Put it right; without it only show.")]
Force = Annotated[bool, typer.Option("--force", help="Also move unreadable intents aside.")]


def repair(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    confirm: Confirm = False,
    force: Force = False,
) -> None:
    """Show what no write explains: tables changed from outside, broken intents, a moved graph.

    With --confirm a table gets the rows back that the graph knows; what was written from outside
    stays, tagged `orphan-<id>`, until cleanup. Branches of a graph that was moved or copied name
    the files they share by the old address; --confirm changes it. An intent is what a writer notes
    before it commits; --force moves those that cannot be read to `_quarantine/`.

    For example:

    \b
      omnigraph repair people.omni
      omnigraph repair people.omni --confirm
    """
    graph = open_to_read(session, address(session, uri, store))
    if confirm:
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
            f"branch {table.branch} {table.table}: HEAD is version {table.head_version} "
            f"({table.head_rows} rows), {verb} version {table.pinned_version} "
            f"({table.pinned_rows} rows)"
        )
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
