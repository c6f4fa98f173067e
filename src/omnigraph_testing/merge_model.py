"""A model of merges, in dicts: it computes all ancestors and merges entity by entity."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Entity = tuple[str, str]
"""Type name and id."""
Content = dict[Entity, Row]
Found = tuple[str, str | None, str]
"""(entity id, property, kind of conflict)."""


class Disputed:
    """A value about which ancestors disagree. It is equal to no other value."""


@dataclass(frozen=True)
class ModelCommit:
    """A commit with a full copy of its content."""

    parents: tuple[str, ...]
    content: Content


@dataclass
class ModelHistory:
    """Commits by name, and the heads of branches."""

    commits: dict[str, ModelCommit] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)

    def commit(self, branch: str, name: str, content: Content, *merged: str) -> None:
        parents = (*([self.heads[branch]] if branch in self.heads else []), *merged)
        self.commits[name] = ModelCommit(parents, content)
        self.heads[branch] = name

    def content(self, branch: str) -> Content:
        return self.commits[self.heads[branch]].content

    def ancestors(self, name: str) -> set[str]:
        """All ancestors of a commit, and the commit itself."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            current = waiting.pop()
            if current not in found:
                found.add(current)
                waiting += self.commits[current].parents
        return found

    def bases(self, ours: tuple[str, ...], theirs: str) -> list[str]:
        """The best ancestors that a merge of all of `ours` would share with `theirs`."""
        shared = {name for one in ours for name in self.ancestors(one)}
        common = shared & self.ancestors(theirs)
        below = {c for name in common for c in self.ancestors(name) - {name}}
        return sorted(common - below)

    def base_content(self, ours: tuple[str, ...], theirs: str) -> Content:
        first, *others = self.bases(ours, theirs)
        content = self.commits[first].content
        for position, other in enumerate(others):
            base = self.base_content((first, *others[:position]), other)
            content = merge_open(base, content, self.commits[other].content)
        return content

    def merge(self, ours: str, theirs: str, strategy: str) -> tuple[Content, list[Found]]:
        """The content after a merge of branch `theirs` into `ours`, and its conflicts."""
        a, b = self.heads[ours], self.heads[theirs]
        base = self.base_content((a,), b)
        return merge_contents(base, self.content(ours), self.content(theirs), strategy)


def merge_contents(
    base: Content, ours: Content, theirs: Content, strategy: str
) -> tuple[Content, list[Found]]:
    """`strategy` decides conflicts: ours, theirs, or fail, which keeps ours."""
    merged: Content = {}
    conflicts: list[Found] = []
    for entity in _entities(base, ours, theirs):
        row, found = _merge_entity(base.get(entity), ours.get(entity), theirs.get(entity), strategy)
        conflicts += [(entity[1], name, kind) for name, kind in found]
        if row is not None:
            merged[entity] = row
    return merged, conflicts


def merge_open(base: Content, ours: Content, theirs: Content) -> Content:
    """Merge two ancestors. A value about which they disagree becomes `Disputed`."""
    merged: Content = {}
    for entity in _entities(base, ours, theirs):
        mine, yours = ours.get(entity), theirs.get(entity)
        row, found = _merge_entity(base.get(entity), mine, yours, "ours")
        for name, _ in found:
            if name is None:
                row = {n: Disputed() for n in (mine or yours or {})}
            elif row is not None:
                row = {**row, name: Disputed()}
        if row is not None:
            merged[entity] = row
    return merged


def orphans(content: Content, edge_types: Iterable[str], node_type: str) -> list[Found]:
    """Edges whose end nodes are not in the content."""
    return [
        (entity_id, None, "OrphanEdge")
        for (type_name, entity_id), row in content.items()
        if type_name in edge_types
        and any((node_type, row[end]) not in content for end in ("src", "dst"))
    ]


def _merge_entity(
    base: Row | None, ours: Row | None, theirs: Row | None, strategy: str
) -> tuple[Row | None, list[tuple[str | None, str]]]:
    winner = theirs if strategy == "theirs" else ours
    if base == theirs or ours == theirs:
        return ours, []
    if base == ours:
        return theirs, []
    if base is None:
        return winner, [(None, "DivergentInsert")]
    if ours is None or theirs is None:
        return winner, [(None, "DeleteVsUpdate")]
    row = dict(ours)
    found: list[tuple[str | None, str]] = []
    for name in ours:
        if ours[name] == theirs[name] or theirs[name] == base[name]:
            continue
        if ours[name] == base[name]:
            row[name] = theirs[name]
        else:
            found.append((name, "DivergentUpdate"))
            row[name] = theirs[name] if strategy == "theirs" else ours[name]
    return row, found


def _entities(*contents: Content) -> list[Entity]:
    return sorted({entity for content in contents for entity in content})
