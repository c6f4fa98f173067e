"""`Graph.diff`, `graph.commits.changes` and `graph.commits.graph`: several commits at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from omnigraph.diff.change import ChangeFilter, ChangePage
from omnigraph.diff.snapshot_diff import commits_of, diff_page
from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.graph.engine import Engine
from omnigraph.manifest.commit_graph import CommitGraph, CommitName
from omnigraph.manifest.lineage import Lineage, best_common_ancestors, require_common
from omnigraph.manifest.records import Commit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import MAIN


@dataclass(frozen=True, slots=True)
class DiffStates:
    """The two states of a diff."""

    before: Snapshot
    after: Snapshot


def diff_states(
    engine: Engine,
    commits: CommitGraph,
    a: CommitName | None,
    b: CommitName | None,
    base: CommitName | None,
    branch: CommitName | None,
    cursor: str | None,
) -> DiffStates:
    """The states that the arguments of `Graph.diff` name; a cursor names two commits itself."""
    direct, against_base = (a, b) != (None, None), (base, branch) != (None, None)
    if direct and against_base:
        raise InvalidArgument("diff compares either `a` with `b`, or `branch` with `base`")
    if cursor is not None:
        a, b = commits_of(cursor)
    elif against_base:
        if branch is None:
            raise InvalidArgument("diff(base=…) needs the branch to compare: branch=…")
        return from_merge_base(engine, commits, MAIN if base is None else base, branch)
    if a is None or b is None:
        raise InvalidArgument("diff needs two states: diff(a, b), or diff(base=…, branch=…)")
    return DiffStates(commits.snapshot_at(a), commits.snapshot_at(b))


def from_merge_base(
    engine: Engine, commits: CommitGraph, base: CommitName, branch: CommitName
) -> DiffStates:
    """From the newest commit that both have in common to `branch`."""
    ours, theirs = commits.snapshot_at(base), commits.snapshot_at(branch)
    graph = lineage(engine, ours, theirs)
    heads = ours.graph_commit_id, theirs.graph_commit_id
    common = require_common(best_common_ancestors(graph, heads[:1], heads[1]), *heads)
    newest = max(common, key=lambda commit_id: graph.commit(commit_id).created_at)
    return DiffStates(graph.snapshot(newest), theirs)


def diff(
    engine: Engine, states: DiffStates, wanted: ChangeFilter, limit: int | None, cursor: str | None
) -> ChangePage:
    """What turns one state into the other."""
    graph = lineage(engine, states.before, states.after)
    return diff_page(engine.store, graph, states.before, states.after, wanted, limit, cursor)


def commit_changes(
    engine: Engine,
    commits: CommitGraph,
    commit: CommitName,
    branch: str,
    wanted: ChangeFilter,
    limit: int | None,
    cursor: str | None,
    most_bytes: int | None = None,
    *,
    seen: Callable[[Snapshot], Snapshot],
) -> ChangePage:
    """What a commit changed against its first parent; a page has about `most_bytes`.

    `seen` gives a snapshot as the caller may see it.
    """
    after = commits.snapshot_at(commit, branch)
    graph = lineage(engine, after)
    before, after = map(seen, graph.step(after.graph_commit_id))
    return diff_page(engine.store, graph, before, after, wanted, limit, cursor, most_bytes)


_DAY_MICROS = 86_400_000_000


def commits_by_key(engine: Engine, actor: str | None, key: str) -> list[Commit]:
    """The commit of an actor with an idempotency key, on any branch: one or none."""
    not_before = engine.clock.now_micros() - engine.settings.history.idempotency_days * _DAY_MICROS
    for _, state in engine.reader.live_branches():
        found = engine.commits.find_by_key(state, key, not_before, actor)
        if found is not None:
            return [found]
    return []


def lineage(engine: Engine, *snapshots: Snapshot) -> Lineage:
    """The commit graph as seen from the branches of these snapshots."""
    states = []
    for name in dict.fromkeys(s.graph_branch for s in snapshots):
        try:
            states.append(engine.reader.branch(name)[1])
        except NotFound:
            continue  # deleted; its commits are found through merges or branches made from it
    return Lineage(engine.reader, states)


@dataclass(frozen=True, slots=True)
class DrawnCommit:
    """A commit, its parents, and the text to print beside it."""

    commit_id: str
    parents: tuple[str, ...]
    label: str


def newest_commits(
    engine: Engine, commits: CommitGraph, branch: str, limit: int
) -> list[DrawnCommit]:
    """Commits of a branch and of what was merged into it, children before parents."""
    _, state = engine.reader.branch(branch)
    found = []
    for stored in islice(commits.without_hidden(state, commits.newest(state)), limit):
        commit = stored.commit
        words = [stored.commit_id, f"({commit.graph_branch})", commit.message or commit.operation]
        found.append(DrawnCommit(stored.commit_id, stored.parents, " ".join(words)))
    return found


def draw(commits: Sequence[DrawnCommit]) -> list[str]:
    """Lanes side by side: one line a commit, and lines between where lanes part or join.

    `commits` come with children before parents. A lane waits for one commit; parents that are not
    among them leave their lane open at the bottom.
    """
    lanes: list[str] = []
    lines: list[str] = []
    for commit in commits:
        if commit.commit_id not in lanes:
            lanes.append(commit.commit_id)
        column = lanes.index(commit.commit_id)
        for joining in [i for i, c in enumerate(lanes) if c == commit.commit_id][:0:-1]:
            lines.append(_joint(len(lanes), joining, "/"))
            del lanes[joining]
        marks = ["*" if i == column else "|" for i in range(len(lanes))]
        lines.append(f"{' '.join(marks)}  {commit.label}".rstrip())
        first, *others = commit.parents or ("",)
        if first:
            lanes[column] = first
        else:
            del lanes[column]
        for parent in others:
            if parent not in lanes:
                lanes.insert(column + 1, parent)
                lines.append(_joint(len(lanes), column + 1, "\\"))
    return lines


def _joint(lanes: int, column: int, mark: str) -> str:
    """A line on which the lane at `column` leaves or meets the one to its left."""
    left = " ".join("|" for _ in range(column))
    right = "".join(" |" for _ in range(lanes - column - 1))
    return f"{left}{mark}{right}"
