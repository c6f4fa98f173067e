"""`recovery list` and `recovery failpoints`: what crashed writers left, and where they may."""

from __future__ import annotations

import typer

from omnigraph import failpoints
from omnigraph.cli.command import command
from omnigraph.cli.options import Store, Uri
from omnigraph.cli.output import print_json, print_result
from omnigraph.cli.session import Session, address, open_to_read
from omnigraph.cli.tables import moment_text, print_table

group = typer.Typer(no_args_is_help=True, help="What crashed writers left behind.")


@command(group, "list")
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


@command(group, "failpoints")
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
