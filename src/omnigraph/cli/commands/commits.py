"""`commit list|show|changes|revert|cherry-pick|graph`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.change_lines import print_changes
from omnigraph.cli.command import command
from omnigraph.cli.options import (
    Branch,
    BranchPlace,
    Cursor,
    Deciding,
    Message,
    Page,
    Store,
    Types,
    Uri,
)
from omnigraph.cli.output import print_json, print_result
from omnigraph.cli.scopes import ANY
from omnigraph.cli.session import (
    Session,
    address,
    on_branch,
    open_to_read,
    open_to_write,
    read_branch,
)
from omnigraph.cli.tables import moment_text, print_table
from omnigraph.errors import InvalidArgument
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.commit.request import WriteReceipt
    from omnigraph.graph.handle import Graph
    from omnigraph.manifest.records import Commit

Id = Annotated[
    str,
    typer.Argument(
        metavar="COMMIT",
        help="The commit: an id or its first 8 characters, a tag, a branch, a time, or HEAD~1.",
    ),
]
FirstParent = Annotated[
    bool, typer.Option("--first-parent", help="Without the commits that merges brought.")
]
Limit = Annotated[
    int, typer.Option("--limit", "-n", min=1, metavar="N", help="At most this many, newest first.")
]
Filter = Annotated[
    str | None,
    typer.Option("--filter", metavar="actor=NAME", help="Only the commits of one actor."),
]
CountedFrom = Annotated[
    str, typer.Option("--branch", "-b", metavar="BRANCH", help="The branch of HEAD and of times.")
]
Onto = Annotated[
    str, typer.Option("--onto", metavar="BRANCH", help="The branch that gets the changes.")
]

RECOVERY_ACTOR = "omnigraph:recovery"

group = typer.Typer(help="The history of the graph.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="commit")


@command(group, "list", ANY)
def list_commits(
    session: Session,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    limit: Limit = 50,
    first_parent: FirstParent = False,
    filter: Filter = None,
) -> None:
    """List the commits of a branch, newest first, including those from before its fork.

    The commits that a merge brought are in the list, too; --first-parent leaves them out.
    `--filter actor=omnigraph:recovery` shows what recovery did: its own commits and those it
    finished for a writer that died.

    For example:

    \b
      omnigraph commit list people.omni
      omnigraph commit list people.omni --branch review/ages --limit 5 --json
      omnigraph commit list people.omni --first-parent
      omnigraph commit list people.omni --filter actor=alice
    """
    graph = open_to_read(session, address(session, uri, store), on_branch(branch))
    found = _filtered(graph, branch, limit, filter, first_parent=first_parent)
    if session.json:
        print_json({"commits": [commit.to_dict() for commit in found]})
        return
    print_table(
        ("commit", "created_at", "operation", "actor", "message"),
        [
            (
                commit.graph_commit_id,
                moment_text(commit.created_at),
                commit.operation,
                commit.actor_id or "-",
                commit.message or "-",
            )
            for commit in found
        ],
    )


def _filtered(
    graph: Graph, branch: str, limit: int, condition: str | None, *, first_parent: bool
) -> list[Commit]:
    if condition is None:
        return graph.commits.list(branch, limit, first_parent=first_parent)
    field, equals, actor = condition.partition("=")
    if field.strip() != "actor" or not equals:
        raise InvalidArgument(f"--filter {condition!r}: write it as actor=NAME")
    wanted = actor.strip()
    finished = {
        audit.graph_commit_id for audit in graph.recoveries() if wanted == RECOVERY_ACTOR
    } - {None}
    every = graph.commits.list(branch, None, first_parent=first_parent)
    found = [c for c in every if c.actor_id == wanted or c.graph_commit_id in finished]
    return found[:limit]


@command(group, "show", ANY)
def show(
    session: Session,
    commit_id: Id,
    uri: Uri = None,
    branch: CountedFrom = "main",
    store: Store = None,
) -> None:
    """Show one commit; of one that changed the schema also its steps.

    For example:

    \b
      omnigraph commit show 01M7H8QRSTGJB9M89XSVK2F5M5 people.omni
      omnigraph commit show HEAD~1 --branch review/ages --store people.omni
    """
    graph = open_to_read(session, address(session, uri, store))
    commit = graph.commits.show(commit_id, branch)
    steps = graph.commits.schema_steps(commit.graph_commit_id, branch)
    if session.json:
        print_json(commit.to_dict() | ({"schema_steps": steps} if steps else {}))
        return
    for name, value in commit.to_dict().items():
        if name not in ("created_at", "details"):  # the text of the same moment follows it
            shown = name.removesuffix("_rfc3339")
            print_result(f"{shown:24} {'-' if value is None else value}")
    for change in commit.changes:
        print_result(f"{change.key!s:24} +{change.inserted} ~{change.updated} -{change.deleted}")
    for step in steps:
        print_result(f"{'schema_step':24} {step['text']}")
    for label, text in _lineage(commit):
        print_result(f"{label:24} {text}")


def _lineage(commit: Commit) -> Iterator[tuple[str, str]]:
    """The sources of the pipeline runs that the commit brought."""
    for run in commit.pipeline_runs:
        yield "pipeline", f"{run['name']}, run {run['run_id']}"
        for name, source in run.get("sources", {}).items():
            told = [counted(source[key], key[:-1]) for key in ("files", "rows") if source.get(key)]
            if source.get("commit"):
                told.append(f"up to commit {source['commit']}")
            yield f"source {name}", ", ".join(told) or "read"


@command(group, "changes", ANY)
def changes(
    session: Session,
    commit_id: Id,
    uri: Uri = None,
    branch: CountedFrom = "main",
    types: Types = None,
    limit: Page = None,
    cursor: Cursor = None,
    store: Store = None,
) -> None:
    """Show what a commit changed, entity by entity, against its first parent.

    For example:

    \b
      omnigraph commit changes 01M7H8QRSTGJB9M89XSVK2F5M5 --store people.omni
      omnigraph commit changes HEAD --store people.omni
    """
    graph = open_to_read(session, address(session, uri, store))
    commit = graph.commits.show(commit_id, branch)
    page = graph.commits.changes(commit.graph_commit_id, types, limit=limit, cursor=cursor)
    print_changes(session, page, {"graph_commit_id": commit.graph_commit_id})


@command(group, "revert", ANY, writes=True)
def revert(
    session: Session,
    commit_id: Id,
    deciding: Deciding,
    branch: Branch = "main",
    message: Message = None,
    store: Store = None,
) -> None:
    """Undo what a commit changed, as a new commit; exit 5 if later changes conflict.

    For example:

    \b
      omnigraph commit revert 01M7H8QRSTGJB9M89XSVK2F5M5 --store people.omni
      omnigraph commit revert HEAD --store people.omni
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


@command(group, "cherry-pick", ANY, writes=True)
def cherry_pick(
    session: Session,
    commit_id: Id,
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
        print_result("nothing to do: the branch has these values already")
    else:
        print_result(f"{done}: commit {receipt.commit.graph_commit_id}")


@command(group, "graph", ANY)
def graph_of_commits(session: Session, place: BranchPlace, limit: Limit = 50) -> None:
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
