"""`branch create|list|delete|diff|merge|rename`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.change_lines import change_line, conflict_lines, print_changes, way_out
from omnigraph.cli.command import command
from omnigraph.cli.options import AutoEngine, Cursor, Deciding, Message, Page, Store, Types, Uri
from omnigraph.cli.output import EXIT_CONFLICTS, painter, print_json, print_report, print_result
from omnigraph.cli.scopes import ANY
from omnigraph.cli.session import Session, address, open_to_read, open_to_write
from omnigraph.cli.tables import folded, moment_text, print_table
from omnigraph.errors import MergeConflicts
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.graph.handle import Graph

Name = Annotated[str, typer.Argument(metavar="NAME", help="The branch.")]
From = Annotated[str, typer.Option("--from", metavar="BRANCH", help="The branch to start from.")]
First = Annotated[str, typer.Argument(metavar="A", help="The branch; with B, its base.")]
Second = Annotated[str | None, typer.Argument(metavar="B", help="The branch, if A is its base.")]
Direct = Annotated[
    bool, typer.Option("--direct", help="Compare A with B itself, not with their merge base.")
]
Source = Annotated[str, typer.Argument(metavar="SOURCE", help="The branch to merge from.")]
Into = Annotated[str, typer.Option("--into", metavar="BRANCH", help="The branch to merge into.")]
Preview = Annotated[bool, typer.Option("--preview", help="Show what would happen; write nothing.")]
DeleteBranch = Annotated[bool, typer.Option("--delete-branch", help="Delete SOURCE afterwards.")]
MergeEngine = Annotated[
    AutoEngine,
    typer.Option(
        "--engine",
        help="Where rows are merged; auto takes a running Spark session for very many rows.",
    ),
]
Old = Annotated[str, typer.Argument(metavar="OLD", help="The branch.")]
New = Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")]

group = typer.Typer(help="Branches of the whole graph.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="branch")


@command(group, "create", ANY, writes=True)
def create(session: Session, name: Name, source: From = "main", store: Store = None) -> None:
    """Start a branch; no data is copied.

    For example:

    \b
      omnigraph branch create review/ages --store people.omni
      omnigraph branch create hotfix --from review/ages --store people.omni
    """
    graph = open_to_write(session, address(session, None, store))
    made = graph.branches.create(name, source)
    if session.json:
        print_json(made.to_dict())
    else:
        print_result(f"created branch {made.name} from {source} at {made.head_commit_id}")


@command(group, "list", ANY)
def list_branches(session: Session, uri: Uri = None, store: Store = None) -> None:
    """List the branches and their heads.

    For example:

    \b
      omnigraph branch list people.omni
      omnigraph branch list --store people.omni --json
    """
    graph = open_to_read(session, address(session, uri, store))
    found = [branch.to_dict() for branch in graph.branches.list()]
    if session.json:
        print_json({"branches": [branch["name"] for branch in found], "details": found})
        return
    print_table(
        ("name", "head", "forked_from", "created_at"),
        [
            (b["name"], b["head_commit_id"], b["forked_from"] or "-", moment_text(b["created_at"]))
            for b in found
        ],
    )


@command(group, "delete", ANY, writes=True)
def delete(session: Session, name: Name, store: Store = None) -> None:
    """Delete a branch and its unmerged changes; asks first, unless --yes is given.

    For example:

    \b
      omnigraph branch delete review/ages --yes --store people.omni
    """
    where = address(session, None, store)
    graph = open_to_write(session, where, f"branch {name}")
    graph.branches.show(name)  # a wrong name must fail before the question
    session.confirm(f"Delete branch {name} of {graph.uri}?")
    graph.branches.delete(name)
    if session.json:
        print_json({"name": name, "deleted": True})
    else:
        print_result(f"deleted branch {name}")


@command(group, "diff", ANY)
def diff(
    session: Session,
    first: First,
    second: Second = None,
    direct: Direct = False,
    types: Types = None,
    limit: Page = None,
    cursor: Cursor = None,
    store: Store = None,
) -> None:
    """Show what a branch changed, entity by entity, since it left its base.

    The base is main, or A if two states are given. The branch is compared with the merge base: the
    newest commit that both have in common. So changes that only the base has are not shown.
    --direct compares the two states themselves. A state is a branch, a commit, a tag or a time.

    For example:

    \b
      omnigraph branch diff review/ages --store people.omni
      omnigraph branch diff review/ages hotfix --store people.omni
      omnigraph branch diff v1 main --direct --type Person --json --store people.omni
    """
    before, after = ("main", first) if second is None else (first, second)
    arrow = "->" if direct else "..."
    graph = open_to_read(session, address(session, None, store), f"{before} {arrow} {after}")
    if direct:
        page = graph.diff(before, after, types, limit=limit, cursor=cursor)
    elif cursor is not None:
        page = graph.diff(types=types, limit=limit, cursor=cursor)
    else:
        page = graph.diff(base=before, branch=after, types=types, limit=limit)
    print_changes(session, page, {"from": before, "to": after, "direct": direct})


@command(group, "merge", ANY, writes=True)
def merge(
    session: Session,
    source: Source,
    deciding: Deciding,
    into: Into = "main",
    preview: Preview = False,
    delete_branch: DeleteBranch = False,
    message: Message = None,
    engine: MergeEngine = AutoEngine.AUTO,
    store: Store = None,
) -> None:
    """Merge a branch into another, property by property, as one commit; exit 5 on conflicts.

    For example:

    \b
      omnigraph branch merge review/ages --preview --store people.omni
      omnigraph branch merge review/ages --into main --strategy theirs --store people.omni
      omnigraph branch merge imports/2026 --engine spark --store s3://bucket/people.omni
    """
    where = address(session, None, store)
    if preview:
        graph = open_to_read(session, where, f"{source} -> {into}")
        _show_preview(session, graph, source, into, deciding)
        return
    graph = open_to_write(session, where, f"{source} -> {into}")
    with session.working("merging"):
        result = graph.merge(
            source,
            into,
            deciding.strategy.value,
            deciding.resolutions,
            delete_branch=delete_branch,
            message=message,
            engine=engine.value,
        ).to_dict()
    if session.json:
        print_json(result)
        return
    commit = result["commit"]
    made = f", commit {commit['graph_commit_id']}" if commit else ""
    print_result(f"{source} into {into}: {result['outcome'].replace('_', ' ')}{made}")


def _show_preview(
    session: Session, graph: Graph, source: str, into: str, deciding: Deciding
) -> None:
    found = graph.preview_merge(source, into, deciding.strategy.value, deciding.resolutions)
    total = counted(found.conflict_count, "conflict")
    conflicting = f"{source} into {into}: {total}"
    if session.json:
        print_report(found.to_dict(), conflicting if found else None, MergeConflicts.code)
    else:
        paint = painter(sys.stdout)
        for change in found.changes:
            print_result(folded(change_line(change, paint), 4))
        if found:
            print_result(conflicting)
            for line in conflict_lines(found, source, into, paint):
                print_result(line)
        outcome = "not mergeable yet" if found else found.outcome.replace("_", " ")
        more = "the first " if found.more_changes else ""
        session.note(f"{outcome}: {more}{counted(len(found.changes), 'change')}, {total}")
        for line in way_out(found.conflict_count, len(found)) if found else ():
            session.note(line)
    if found:
        raise typer.Exit(EXIT_CONFLICTS)


@command(group, "rename", ANY, writes=True)
def rename(session: Session, old: Old, new: New, store: Store = None) -> None:
    """Give a branch another name; its history stays.

    For example:

    \b
      omnigraph branch rename review/ages review/birthdays --store people.omni
    """
    graph = open_to_write(session, address(session, None, store), f"branch {old}")
    renamed = graph.branches.rename(old, new)
    if session.json:
        print_json(renamed.to_dict())
    else:
        print_result(f"branch {old} is now {renamed.name}")
