"""`g.diff` and `g.commits.changes`."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from omnigraph.diff.change import ChangeFilter, ChangePage
from omnigraph.diff.snapshot_diff import commits_of, diff_page
from omnigraph.errors import InvalidName, NotFound
from omnigraph.graph.commit_drawing import DrawnCommit
from omnigraph.graph.engine import Engine
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Which changes, and how many at a time."""

    wanted: ChangeFilter
    limit: int | None = None
    cursor: str | None = None


def resolve(engine: Engine, target: str) -> Snapshot:
    """A branch (its head), commit id, tag or moment of main."""
    try:
        return engine.reader.snapshot(*engine.reader.branch(target))
    except (NotFound, InvalidName):
        return engine.commits.snapshot_at(target)


def lineage(engine: Engine, *snapshots: Snapshot) -> Lineage:
    """The commit graph as seen from these snapshots' branches."""
    states = []
    for name in dict.fromkeys(s.graph_branch for s in snapshots):
        try:
            states.append(engine.reader.branch(name)[1])
        except NotFound:
            continue  # deleted; its commits are found through merges or branches made from it
    return Lineage(engine.reader, states)


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


def diff(engine: Engine, a: str, b: str, options: PageOptions) -> ChangePage:
    """`before` is a's state, `after` is b's."""
    if options.cursor is not None:
        a, b = commits_of(options.cursor)
    sides = (resolve(engine, a), resolve(engine, b))
    return _page(engine, lineage(engine, *sides), sides, options)


def commit_changes(engine: Engine, commit_id: str, options: PageOptions) -> ChangePage:
    """What a commit changed against its first parent."""
    graph = lineage(engine, resolve(engine, commit_id))
    return _page(engine, graph, graph.step(commit_id), options)


def _page(
    engine: Engine, graph: Lineage, sides: tuple[Snapshot, Snapshot], options: PageOptions
) -> ChangePage:
    return diff_page(engine.store, graph, sides, options.wanted, options.limit, options.cursor)
