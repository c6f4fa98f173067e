"""`g.branches`, `g.tags`, `g.commits`, `g.schema`: the named things of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from omnigraph.errors import NotFound
from omnigraph.graph import reads
from omnigraph.graph.engine import Engine
from omnigraph.manifest.records import Commit
from omnigraph.manifest.refs import Tag
from omnigraph.manifest.schemas import AcceptedSchema
from omnigraph.values.identifiers import MAIN

if TYPE_CHECKING:
    from omnigraph.diff.change import ChangePage


class _Door(Protocol):
    actor: str | None

    def writable(self) -> Engine: ...

    @property
    def engine(self) -> Engine: ...


@dataclass(frozen=True, slots=True)
class Branch:
    """A live branch and where it stands."""

    name: str
    head_commit_id: str
    forked_from: str | None
    created_at: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "head_commit_id": self.head_commit_id,
            "forked_from": self.forked_from,
            "created_at": self.created_at,
        }


class Branches:
    """Create, list and delete branches."""

    def __init__(self, door: _Door) -> None:
        self._door = door

    def create(self, name: str, source: str = MAIN) -> Branch:
        self._door.writable().lifecycle.create(name, source, self._door.actor)
        return self.show(name)

    def list(self) -> list[Branch]:
        found = []
        for name in self._door.engine.reader.branch_refs.names():
            try:
                found.append(self.show(name))
            except NotFound:
                continue  # deleted while we listed
        return found

    def show(self, name: str) -> Branch:
        ref, state = self._door.engine.reader.branch(name)
        return Branch(ref.name, state.head_commit_id, ref.forked_from, ref.created_at)

    def rename(self, name: str, new_name: str) -> Branch:
        """Give a branch another name; its history stays. Commits keep the name of their time."""
        self._door.writable().lifecycle.rename(name, new_name, self._door.actor)
        return self.show(new_name)

    def delete(self, name: str) -> None:
        self._door.writable().lifecycle.delete(name, self._door.actor)


class Tags:
    """Create, list and delete tags."""

    def __init__(self, door: _Door) -> None:
        self._door = door

    def create(self, name: str, target: str = MAIN) -> Tag:
        return self._door.writable().lifecycle.create_tag(name, target, self._door.actor)

    def list(self) -> list[Tag]:
        refs = self._door.engine.reader.tag_refs
        return [tag for name in refs.names() if (tag := refs.find(name)) is not None]

    def delete(self, name: str) -> None:
        self._door.writable().reader.tag_refs.remove(name)


class Commits:
    """Look at history."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def list(self, branch: str = MAIN, limit: int | None = 50) -> list[Commit]:
        """Newest first, including what the branch inherited from before its fork."""
        _, state = self._engine.reader.branch(branch)
        walk = self._engine.commits.walk(state)
        return [stored.commit for stored in islice(walk, limit)]

    def show(self, commit_id: str) -> Commit:
        return self._engine.commits.find(commit_id)

    def graph(self, branch: str = MAIN, limit: int = 50) -> Sequence[str]:
        """The history of a branch with everything merged into it, drawn as lines of text."""
        from omnigraph.graph import history
        from omnigraph.graph.commit_drawing import draw

        return draw(history.newest_commits(self._engine, branch, limit))

    def changes(
        self,
        commit_id: str,
        types: Sequence[str] | None = None,
        *,
        kinds: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ChangePage:
        """What a commit changed against its first parent; pages like `Graph.diff`."""
        from omnigraph.diff.change import ChangeFilter
        from omnigraph.graph import history

        wanted = ChangeFilter.of(types, kinds, ops)
        options = history.PageOptions(wanted, limit, cursor)
        return history.commit_changes(self._engine, commit_id, options)


class Schema:
    """Look at the schema in force."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def show(self, branch: str = MAIN, *, at: str | None = None) -> AcceptedSchema:
        """The schema of a branch, now or `at` a commit, tag, moment or branch."""
        found = reads.snapshot(self._engine, branch, at)
        accepted = self._engine.reader.schemas.read(found.schema_id)
        if accepted.source:
            return accepted
        # Earlier releases kept no text of a schema that nobody wrote.
        from omnigraph.schema.catalog_text import catalog_text

        return replace(accepted, source=catalog_text(accepted.catalog))
