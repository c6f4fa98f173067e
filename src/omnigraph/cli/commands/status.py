"""`omnigraph status`: how a graph stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import Store, Uri
from omnigraph.cli.output import counted, print_json, print_note, print_result, readable_bytes
from omnigraph.cli.session import Session, address, open_to_read

if TYPE_CHECKING:
    from omnigraph.maintain.status import BranchStatus, GraphStatus


def status(session: Session, uri: Uri = None, store: Store = None) -> None:
    """Show fragments, index coverage, history, pending writers and bytes per branch and type.

    For example:

    \b
      omnigraph status people.omni
    """
    found = open_to_read(session, address(session, uri, store)).status()
    if session.json:
        print_json(found.to_dict())
        return
    for branch in found.branches:
        _print_branch(branch)
    _print_rest(found)


def _print_branch(branch: BranchStatus) -> None:
    print_result(
        f"branch {branch.name}: {counted(branch.commits, 'commit')}, head {branch.head_commit_id}, "
        f"manifest {readable_bytes(branch.manifest_bytes)}"
    )
    for table in branch.tables:
        size = readable_bytes(table.bytes) if table.owned else "shared"
        print_result(
            f"  {table.kind} {table.type_name}: {counted(table.rows, 'row')}, "
            f"{counted(table.fragments, 'fragment')}, {table.deleted_rows:,} deleted, "
            f"{table.unindexed_rows:,} unindexed, {counted(table.versions, 'version')}, {size}"
        )


def _print_rest(found: GraphStatus) -> None:
    print_result(
        f"{counted(found.tags, 'tag')}, {counted(found.history_objects, 'history object')} "
        f"({readable_bytes(found.history_bytes)}), {counted(found.schemas, 'schema')}, "
        f"{readable_bytes(found.bytes)} in all"
    )
    for intent in found.pending_intents:
        print_note(
            f"pending: {intent.kind} {intent.intent_id} on {intent.branch or '-'} "
            f"by {intent.actor_id or '-'}"
        )
