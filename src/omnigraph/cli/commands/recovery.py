"""`recovery list` and `recovery failpoints`: what crashed writers left, and where they may."""

from __future__ import annotations

from typing import Annotated

import typer

import omnigraph
from omnigraph import failpoints
from omnigraph.cli.output import JsonFlag, failures, print_json, print_note, print_result

Uri = Annotated[str | None, typer.Argument(help="The graph: a directory or s3://bucket/prefix.")]
Store = Annotated[str | None, typer.Option("--store", help="The same as the argument.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="What crashed writers left behind.")
    group.command("list")(list_recoveries)
    group.command("failpoints")(list_failpoints)
    app.add_typer(group, name="recovery")


def list_recoveries(uri: Uri = None, store: Store = None, as_json: JsonFlag = False) -> None:
    """Show every recovery, newest first: whose write it was and how it ended.

    Example: omnigraph recovery list people.omni
    """
    address = uri or store
    if address is None:
        raise typer.BadParameter("name the graph: omnigraph recovery list URI")
    with failures(as_json):
        audits = omnigraph.open(address, read_only=True).recoveries()
    if as_json:
        print_json({"recoveries": [audit.to_dict() for audit in audits]})
        return
    for audit in audits:
        row = audit.to_dict()
        tables = ", ".join(f"{name} {state}" for name, state in row["tables"].items())
        print_result(
            f"{row['created_at']}  {row['recovery_kind']:14} {row['operation_kind']:12} "
            f"branch {row['graph_branch']}  for {row['recovery_for_actor'] or '-'}  {tables}"
        )
    if not audits:
        print_note("no recovery was ever needed")


def list_failpoints(as_json: JsonFlag = False) -> None:
    """List the points at which OMNIGRAPH_FAILPOINTS can kill, raise or sleep.

    Example: OMNIGRAPH_FAILPOINTS="commit.after_arm=kill" python my_writer.py
    """
    if as_json:
        print_json({"failpoints": list(failpoints.ALL_POINTS)})
    else:
        print_result("\n".join(failpoints.ALL_POINTS))
