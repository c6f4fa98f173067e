"""`branch merge|rename`, `commit revert|cherry-pick|graph`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.change_lines import change_line, conflict_lines, way_out
from omnigraph.cli.command import command
from omnigraph.cli.commands import branches, commits
from omnigraph.cli.options import AutoEngine, Branch, BranchPlace, Message, Store
from omnigraph.cli.output import (
    EXIT_CONFLICTS,
    counted,
    painter,
    print_json,
    print_report,
    print_result,
)
from omnigraph.cli.session import (
    Session,
    address,
    on_branch,
    open_to_read,
    open_to_write,
    read_branch,
)
from omnigraph.cli.tables import folded
from omnigraph.errors import MergeConflicts

if TYPE_CHECKING:
    from omnigraph.commit.request import WriteReceipt
    from omnigraph.graph.handle import Graph


class MergeStrategy(StrEnum):
    """What happens to conflicts."""

    FAIL = "fail"
    OURS = "ours"
    THEIRS = "theirs"


@dataclass(frozen=True)
class Deciding:
    """Who decides conflicts: options of everything that merges."""

    strategy: Annotated[
        MergeStrategy,
        typer.Option(
            "--strategy", help="Every conflict: fail, ours (the target wins), theirs (the source)."
        ),
    ] = MergeStrategy.FAIL
    resolutions: Annotated[
        str | None,
        typer.Option(
            "--resolutions", metavar="FILE", help="YAML or JSON: who wins single conflicts."
        ),
    ] = None


Source = Annotated[str, typer.Argument(metavar="SOURCE", help="The branch to merge from.")]
Into = Annotated[str, typer.Option("--into", metavar="BRANCH", help="The branch to merge into.")]
Preview = Annotated[bool, typer.Option("--preview", help="Show what would happen; write nothing.")]
DeleteBranch = Annotated[bool, typer.Option("--delete-branch", help="Delete SOURCE afterwards.")]
MergeEngine = Annotated[
    AutoEngine,
    typer.Option(
        "--engine",
        help="Where rows are merged; auto: here; on Spark, if up, for very many.",
    ),
]
Old = Annotated[str, typer.Argument(metavar="OLD", help="The branch.")]
New = Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")]
Onto = Annotated[str, typer.Option("--onto", metavar="BRANCH", help="The branch that gets it.")]


def register(app: typer.Typer) -> None:
    """These belong to the groups of branches and commits, which are there already."""
    command(branches.group, "merge")(merge)
    command(branches.group, "rename")(rename)
    command(commits.group, "revert")(revert)
    command(commits.group, "cherry-pick")(cherry_pick)
    command(commits.group, "graph")(graph_of_commits)


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
    """Bring a branch into another, property by property, as one commit; exit 5 on conflicts.

    For example:

    \b
      omnigraph branch merge review/ages --preview --store people.omni
      omnigraph branch merge review/ages --into main --strategy theirs --store people.omni
      omnigraph branch merge imports/2026 --engine spark --store s3://bucket/people.omni
    """
    where = address(session, None, store)
    if preview:
        graph = open_to_read(session, where, f"{source} -> {into}")
        _show_preview(session, graph, (source, into), deciding)
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
    session: Session,
    graph: Graph,
    names: tuple[str, str],
    deciding: Deciding,
) -> None:
    found = graph.preview_merge(
        *names, strategy=deciding.strategy.value, resolutions=deciding.resolutions
    )
    total = counted(found.conflict_count, "conflict")
    conflicting = f"{names[0]} into {names[1]}: {total}"
    if session.json:
        print_report(found.to_dict(), (conflicting, MergeConflicts.code) if found else None)
    else:
        paint = painter(sys.stdout)
        for change in found.changes:
            print_result(folded(change_line(change, paint), 4))
        if found:
            print_result(conflicting)
            for line in conflict_lines(found, names, paint):
                print_result(line)
        outcome = "not mergeable yet" if found else found.outcome.replace("_", " ")
        more = "the first " if found.more_changes else ""
        session.note(f"{outcome}: {more}{counted(len(found.changes), 'change')}, {total}")
        for line in way_out(found.conflict_count, len(found)) if found else ():
            session.note(line)
    if found:
        raise typer.Exit(EXIT_CONFLICTS)


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


def revert(
    session: Session,
    commit_id: commits.Id,
    deciding: Deciding,
    branch: Branch = "main",
    message: Message = None,
    store: Store = None,
) -> None:
    """Undo what a commit changed, as a new commit; exit 5 where later changes are in the way.

    For example:

    \b
      omnigraph commit revert 01M7H8QRSTGJB9M89XSVK2F5M5 --store people.omni
    """
    graph = open_to_write(session, address(session, None, store), on_branch(branch))
    with session.working("reverting"):
        receipt = graph.revert(
            commit_id,
            branch,
            strategy=deciding.strategy.value,
            resolutions=deciding.resolutions,
            message=message,
        )
    _show_receipt(session, receipt, f"reverted {commit_id}")


def cherry_pick(
    session: Session,
    commit_id: commits.Id,
    deciding: Deciding,
    onto: Onto = "main",
    message: Message = None,
    store: Store = None,
) -> None:
    """Make the changes of one commit again on another branch.

    For example:

    \b
      omnigraph commit cherry-pick 01M7H8QRSTGJB9M89XSVK2F5M5 --onto main --store people.omni
    """
    graph = open_to_write(session, address(session, None, store), on_branch(onto))
    with session.working("picking"):
        receipt = graph.cherry_pick(
            commit_id,
            onto,
            strategy=deciding.strategy.value,
            resolutions=deciding.resolutions,
            message=message,
        )
    _show_receipt(session, receipt, f"picked {commit_id}")


def _show_receipt(session: Session, receipt: WriteReceipt, done: str) -> None:
    if session.json:
        print_json(receipt.to_dict())
    elif receipt.commit is None:
        print_result("nothing to do: the branch has it so already")
    else:
        print_result(f"{done}: commit {receipt.commit.graph_commit_id}")


def graph_of_commits(session: Session, place: BranchPlace, limit: commits.Limit = 50) -> None:
    """Draw the history of a branch with everything merged into it, newest first.

    For example:

    \b
      omnigraph commit graph people.omni
    """
    lines = read_branch(session, place).commits.graph(place.branch, limit)
    if session.json:
        print_json({"lines": lines})
    else:
        print_result("\n".join(lines))
