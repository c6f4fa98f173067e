"""`omnigraph cleanup`: what nobody needs any more, shown first, removed on request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import Store, Uri
from omnigraph.cli.output import counted, print_json, print_note, print_result, readable_bytes
from omnigraph.cli.session import Session, address, open_to_read, open_to_write

if TYPE_CHECKING:
    from omnigraph.maintain.cleanup import CleanupReport

Keep = Annotated[
    int | None,
    typer.Option("--keep", metavar="N", help="Newest commits per branch that stay readable."),
]
OlderThan = Annotated[
    str | None,
    typer.Option(
        "--older-than",
        metavar="AGE",
        help="Commits that were the head since then stay: 12h, 7d, 4w.",
    ),
]
Confirm = Annotated[bool, typer.Option("--confirm", help="Remove; without it only show.")]


def cleanup(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    keep: Keep = None,
    older_than: OlderThan = None,
    confirm: Confirm = False,
) -> None:
    """Remove old versions, deleted branches and what dead writers left; shows them by default.

    Without --keep and --older-than every commit stays readable.

    For example:

    \b
      omnigraph cleanup people.omni --keep 100 --older-than 7d --confirm
    """
    where = address(session, uri, store)
    graph = open_to_write(session, where) if confirm else open_to_read(session, where)
    with session.working("looking for what nobody needs"):
        report = graph.cleanup(keep, older_than, confirm=confirm)
    if session.json:
        print_json(report.to_dict())
    else:
        _print_report(report)


def _print_report(report: CleanupReport) -> None:
    for removal in report.removals:
        found = counted(len(removal.versions), "version")
        versions = f" ({found})" if removal.versions else ""
        print_result(
            f"{removal.kind:9} {removal.place}{versions}: "
            f"{counted(len(removal.files), 'file')}, {readable_bytes(removal.bytes)}"
        )
    if not report.removals:
        print_result("nothing to remove")
        return
    verb = "removed" if report.confirmed else "would be removed"
    print_result(f"{counted(report.files, 'file')}, {readable_bytes(report.bytes)} {verb}")
    if report.files and not report.confirmed:
        print_note("nothing was changed; repeat with --confirm")
