"""`g.diff` and `g.commits.changes`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from omnigraph.diff.change import ChangeFilter, ChangePage
from omnigraph.diff.pages import commits_of, diff_page
from omnigraph.errors import InvalidName, NotFound
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


def diff(engine: Engine, a: str, b: str, options: PageOptions) -> ChangePage:
    """`before` is a's state, `after` is b's."""
    if options.cursor is not None:
        a, b = commits_of(options.cursor)
    sides = (resolve(engine, a), resolve(engine, b))
    return _page(engine, lineage(engine, *sides), sides, options)


def commit_changes(engine: Engine, commit_id: str, options: PageOptions) -> ChangePage:
    """What a commit changed against its first parent."""
    graph = lineage(engine, resolve(engine, commit_id))
    after = graph.snapshot(commit_id)
    parent = graph.commit(commit_id).parent_commit_id
    before = graph.snapshot(parent) if parent else replace(after, tables={})
    return _page(engine, graph, (before, after), options)


def _page(
    engine: Engine, graph: Lineage, sides: tuple[Snapshot, Snapshot], options: PageOptions
) -> ChangePage:
    return diff_page(engine.store, graph, sides, options.wanted, options.limit, options.cursor)
