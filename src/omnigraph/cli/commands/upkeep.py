"""`status`, `optimize` and `cleanup`: the state of a graph, and its regular upkeep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import Engine, Store, Types, Uri, WorkEngine
from omnigraph.cli.output import print_json, print_note, print_result, readable_bytes
from omnigraph.cli.scopes import UPKEEP
from omnigraph.cli.session import Session, address, on_branch, open_to_read, open_to_write
from omnigraph.cli.tables import print_table
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.maintain.cleanup import CleanupReport
    from omnigraph.maintain.status import BranchStatus, GraphStatus


OneBranch = Annotated[
    str | None,
    typer.Option("--branch", "-b", metavar="BRANCH", help="Only this branch; default: all."),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="One line for every index.")]
Keep = Annotated[
    int | None,
    typer.Option("--keep", metavar="N", help="Keep this many newest commits per branch readable."),
]
OlderThan = Annotated[
    str | None,
    typer.Option(
        "--older-than",
        metavar="AGE",
        help="Keep commits that were a head less long ago than this: 12h, 7d, 4w.",
    ),
]
Confirm = Annotated[bool, typer.Option("--confirm", help="Remove; without it, only report.")]


def register(app: typer.Typer) -> None:
    command(app, "status", UPKEEP)(status)
    command(app, "optimize", UPKEEP, writes=True)(optimize)
    command(app, "cleanup", UPKEEP, writes=True)(cleanup)


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
            f"  {table.entity_kind} {table.type_name}: {counted(table.entity_count, 'row')}, "
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
            f"pending: {intent.kind} {intent.intent_id} on {intent.graph_branch or '-'} "
            f"by {intent.actor_id or '-'}"
        )


def optimize(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    branch: OneBranch = None,
    types: Types = None,
    engine: Engine = WorkEngine.LOCAL,
    verbose: Verbose = False,
) -> None:
    """Compact small files and build the indexes the schema declares, on all branches or on one.

    Answers stay the same and come faster. Types that other writers kept busy are listed at the end;
    run it again for those.

    For example:

    \b
      omnigraph optimize people.omni
      omnigraph optimize people.omni --branch review --type Person
      omnigraph optimize s3://bucket/people.omni --engine spark
    """
    note = on_branch(branch) if branch else "all branches"
    graph = open_to_write(session, address(session, uri, store), note)
    with session.working("optimizing"):
        behind = graph.optimize(branch, types, engine=engine.value)
    names = [branch] if branch else [found.name for found in graph.branches.list()]
    status = [
        {"graph_branch": name, **row.to_dict()}
        for name in names
        for row in graph.index_status(name)
        if not types or row.type_name in types
    ]
    if session.json:
        print_json({"graph_branch": branch, "skipped": behind, "indexes": status})
        return
    if verbose:
        columns = ("graph_branch", "type_name", "property", "kind", "covered_rows", "pending_rows")
        print_table(columns, [[row[name] for name in columns] for row in status])
    else:
        print_result(_index_summary(status, len(names)))
    for name in behind:
        session.note(f"{name} was busy and is not compacted yet; run it again")


def _index_summary(status: list[dict[str, Any]], branches: int) -> str:
    whole = sum(row["pending_rows"] == 0 for row in status)
    all_of_them = counted(len(status), "index")
    indexes = all_of_them if whole == len(status) else f"{whole} of {all_of_them}"
    more = "" if whole == len(status) else "; --verbose shows the others"
    return f"optimized {counted(branches, 'branch')}: {indexes} up to date{more}"


def cleanup(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    keep: Keep = None,
    older_than: OlderThan = None,
    confirm: Confirm = False,
) -> None:
    """Remove old versions, deleted branches and files of dead writers; by default only report.

    Without --keep and --older-than the retention of the settings holds, or of the cluster that
    declares one; by default every commit stays readable.

    For example:

    \b
      omnigraph cleanup people.omni --keep 100 --older-than 7d --confirm
    """
    where = address(session, uri, store)
    if confirm:
        session.confirm_remote(where, "Remove old versions and unneeded files of")
    graph = open_to_write(session, where) if confirm else open_to_read(session, where)
    with session.working("looking for unneeded files"):
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
