"""`Graph.diff`, `graph.commits.changes` and `graph.commits.graph`: several commits at once."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from omnigraph.diff.change import ChangeFilter, ChangePage
from omnigraph.diff.snapshot_diff import commits_of, diff_page
from omnigraph.errors import InvalidName, NotFound
from omnigraph.graph.engine import Engine
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.snapshot import Snapshot


def diff(
    engine: Engine, a: str, b: str, wanted: ChangeFilter, limit: int | None, cursor: str | None
) -> ChangePage:
    """`before` images are of `a`, `after` images of `b`."""
    if cursor is not None:
        a, b = commits_of(cursor)
    before, after = _resolve(engine, a), _resolve(engine, b)
    graph = lineage(engine, before, after)
    return diff_page(engine.store, graph, before, after, wanted, limit, cursor)


def commit_changes(
    engine: Engine, commit_id: str, wanted: ChangeFilter, limit: int | None, cursor: str | None
) -> ChangePage:
    """What a commit changed against its first parent."""
    graph = lineage(engine, _resolve(engine, commit_id))
    before, after = graph.step(commit_id)
    return diff_page(engine.store, graph, before, after, wanted, limit, cursor)


def _resolve(engine: Engine, target: str) -> Snapshot:
    """A branch (its head), commit id, tag or moment of main."""
    try:
        return engine.reader.snapshot(*engine.reader.branch(target))
    except (NotFound, InvalidName):
        return engine.commits.snapshot_at(target)


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


def newest_commits(engine: Engine, branch: str, limit: int) -> list[DrawnCommit]:
    """Commits of a branch and of what was merged into it, children before parents."""
    _, state = engine.reader.branch(branch)
    graph = Lineage(engine.reader, (state,))
    queue = [(-graph.commit(state.head_commit_id).created_at, state.head_commit_id)]
    seen = {state.head_commit_id}
    found: list[DrawnCommit] = []
    while queue and len(found) < limit:
        _, commit_id = heapq.heappop(queue)
        stored = graph.find(commit_id)
        if stored is None:
            continue
        commit = stored.commit
        words = [commit_id, f"({commit.graph_branch})", commit.message or commit.operation]
        found.append(DrawnCommit(commit_id, stored.parents, " ".join(words)))
        for parent in stored.parents:
            above = graph.find(parent)
            if above is not None and parent not in seen:
                seen.add(parent)
                heapq.heappush(queue, (-above.commit.created_at, parent))
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
