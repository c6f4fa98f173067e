"""`branch merge|rename`, `commit revert|cherry-pick|graph`, `changes poll|baseline`."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.change_lines import change_line
from omnigraph.cli.colours import painter
from omnigraph.cli.command import command
from omnigraph.cli.commands import branches, commits
from omnigraph.cli.conflict_lines import conflict_lines, way_out
from omnigraph.cli.options import Branch, Cursor, Message, Page, Store, Types, Uri
from omnigraph.cli.output import EXIT_CONFLICTS, counted, print_json, print_result
from omnigraph.cli.session import Session
from omnigraph.cli.target import address, on_branch, open_to_read, open_to_write

if TYPE_CHECKING:
    from omnigraph.commit.request import WriteReceipt
    from omnigraph.feed.records import FeedPage
    from omnigraph.graph.handle import Graph


class MergeStrategy(StrEnum):
    """What happens to conflicts."""

    FAIL = "fail"
    OURS = "ours"
    THEIRS = "theirs"


Source = Annotated[str, typer.Argument(metavar="SOURCE", help="The branch to merge from.")]
Into = Annotated[str, typer.Option("--into", metavar="BRANCH", help="The branch to merge into.")]
Strategy = Annotated[
    MergeStrategy, typer.Option("--strategy", help="Who wins every conflict: nobody, or a side.")
]
Resolutions = Annotated[
    str | None,
    typer.Option("--resolutions", metavar="FILE", help="YAML or JSON: who wins single conflicts."),
]
Preview = Annotated[bool, typer.Option("--preview", help="Show what would happen; write nothing.")]
DeleteBranch = Annotated[bool, typer.Option("--delete-branch", help="Delete SOURCE afterwards.")]
Old = Annotated[str, typer.Argument(metavar="OLD", help="The branch.")]
New = Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")]
Onto = Annotated[str, typer.Option("--onto", metavar="BRANCH", help="The branch that gets it.")]
Start = Annotated[
    str, typer.Option("--start", metavar="now|beginning|after:ID", help="Without a cursor: where.")
]

_PAGE = 1000

feed = typer.Typer(help="The change feed of a branch.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(feed, name="changes")


@command(branches.group, "merge")
def merge(
    session: Session,
    source: Source,
    into: Into = "main",
    strategy: Strategy = MergeStrategy.FAIL,
    resolutions: Resolutions = None,
    preview: Preview = False,
    delete_branch: DeleteBranch = False,
    message: Message = None,
    store: Store = None,
) -> None:
    """Bring a branch into another, property by property, as one commit; exit 5 on conflicts.

    For example:

    \b
      omnigraph branch merge review/ages --preview --store people.omni
      omnigraph branch merge review/ages --into main --strategy theirs --store people.omni
    """
    where = address(session, None, store)
    if preview:
        graph = open_to_read(session, where, f"{source} -> {into}")
        _show_preview(session, graph, (source, into), strategy.value, resolutions)
        return
    graph = open_to_write(session, where, f"{source} -> {into}")
    result = graph.merge(
        source, into, strategy.value, resolutions, delete_branch=delete_branch, message=message
    ).to_dict()
    if session.json:
        print_json(result)
        return
    commit = result["commit"]
    made = f", commit {commit['graph_commit_id']}" if commit else ""
    print_result(f"{source} into {into}: {result['outcome'].replace('_', ' ')}{made}")


def _show_preview(
    session: Session,
    graph: Graph,
    names: tuple[str, str],
    strategy: str,
    resolutions: str | None,
) -> None:
    found = graph.preview_merge(*names, strategy=strategy, resolutions=resolutions)
    if session.json:
        print_json(found.to_dict())
    else:
        paint = painter(sys.stdout)
        for change in found.changes:
            print_result(change_line(change, paint))
        total = counted(found.conflict_count, "conflict")
        if found:
            print_result(f"{names[0]} into {names[1]}: {total}")
            for line in conflict_lines(found, names, paint):
                print_result(line)
        outcome = "not mergeable yet" if found else found.outcome.replace("_", " ")
        more = "the first " if found.more_changes else ""
        session.note(f"{outcome}: {more}{counted(len(found.changes), 'change')}, {total}")
        for line in way_out(found.conflict_count, len(found)) if found else ():
            session.note(line)
    if found:
        raise typer.Exit(EXIT_CONFLICTS)


@command(branches.group, "rename")
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


@command(commits.group, "revert")
def revert(
    session: Session,
    commit_id: commits.Id,
    branch: Branch = "main",
    strategy: Strategy = MergeStrategy.FAIL,
    resolutions: Resolutions = None,
    message: Message = None,
    store: Store = None,
) -> None:
    """Undo what a commit changed, as a new commit; exit 5 where later changes are in the way.

    For example:

    \b
      omnigraph commit revert 01JD2YF8Q6Z3 --store people.omni
    """
    graph = open_to_write(session, address(session, None, store), on_branch(branch))
    receipt = graph.revert(
        commit_id, branch, strategy=strategy.value, resolutions=resolutions, message=message
    )
    _show_receipt(session, receipt, f"reverted {commit_id}")


@command(commits.group, "cherry-pick")
def cherry_pick(
    session: Session,
    commit_id: commits.Id,
    onto: Onto = "main",
    strategy: Strategy = MergeStrategy.FAIL,
    resolutions: Resolutions = None,
    message: Message = None,
    store: Store = None,
) -> None:
    """Make the changes of one commit again on another branch.

    For example:

    \b
      omnigraph commit cherry-pick 01JD2YF8Q6Z3 --onto main --store people.omni
    """
    graph = open_to_write(session, address(session, None, store), on_branch(onto))
    receipt = graph.cherry_pick(
        commit_id, onto, strategy=strategy.value, resolutions=resolutions, message=message
    )
    _show_receipt(session, receipt, f"picked {commit_id}")


def _show_receipt(session: Session, receipt: WriteReceipt, done: str) -> None:
    if session.json:
        print_json(receipt.to_dict())
    elif receipt.commit is None:
        print_result("nothing to do: the branch has it so already")
    else:
        print_result(f"{done}: commit {receipt.commit.graph_commit_id}")


@command(commits.group, "graph")
def graph_of_commits(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    limit: commits.Limit = 50,
) -> None:
    """Draw the history of a branch with everything merged into it, newest first.

    For example:

    \b
      omnigraph commit graph people.omni
    """
    graph = open_to_read(session, address(session, uri, store), on_branch(branch))
    lines = graph.commits.graph(branch, limit)
    if session.json:
        print_json({"lines": lines})
    else:
        print_result("\n".join(lines))


@command(feed, "poll")
def poll(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    cursor: Cursor = None,
    start: Start = "now",
    types: Types = None,
    limit: Page = None,
) -> None:
    """Show what happened on a branch since a cursor, commit by commit.

    For example:

    \b
      omnigraph changes poll people.omni --start beginning
      omnigraph changes poll people.omni --cursor eyJraW5kI… --json
    """
    graph = open_to_read(session, address(session, uri, store), on_branch(branch))
    _show_page(session, graph.changes(branch, cursor, start, types=types, limit=limit or _PAGE))


@command(feed, "baseline")
def baseline(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    types: Types = None,
    limit: Page = None,
) -> None:
    """Show everything there is, with a cursor for `changes poll` behind it.

    For example:

    \b
      omnigraph changes baseline people.omni --type Person --json
    """
    graph = open_to_read(session, address(session, uri, store), on_branch(branch))
    _show_page(session, graph.baseline(branch, types=types, limit=limit or _PAGE))


def _show_page(session: Session, page: FeedPage) -> None:
    if session.json:
        print_json(page.to_dict())
        return
    paint = painter(sys.stdout)
    for block in page.blocks:
        what = "baseline at" if block.baseline else block.commit.operation
        print_result(
            f"{what} {block.commit.graph_commit_id}  {block.commit.message or ''}".rstrip()
        )
        for change in block.changes:
            print_result(f"  {change_line(change, paint)}")
    more = "there is more" if page.has_more else "to go on later"
    session.note(f"{more}: --cursor {page.cursor}")
