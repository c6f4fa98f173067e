"""`graph.branches`, `graph.tags`, `graph.commits` and `graph.schema`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from omnigraph.errors import NotFound
from omnigraph.graph import reads
from omnigraph.graph.engine import Access
from omnigraph.manifest.records import Commit
from omnigraph.manifest.refs import Tag
from omnigraph.manifest.schemas import AcceptedSchema
from omnigraph.values.identifiers import MAIN

if TYPE_CHECKING:
    from omnigraph.diff.change import ChangePage


@dataclass(frozen=True, slots=True)
class Branch:
    """A live branch and its head."""

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
    """Create, list, rename and delete branches."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def create(self, name: str, source: str = MAIN) -> Branch:
        self._access.writable().lifecycle.create(name, source, self._access.actor)
        return self._find(name)

    def list(self) -> list[Branch]:
        found = []
        for name in self._access.engine.reader.branch_refs.names():
            try:
                found.append(self._find(name))
            except NotFound:
                continue  # deleted after its name was listed
        return found

    def show(self, name: str) -> Branch:
        return self._find(name)

    def rename(self, name: str, new_name: str) -> Branch:
        """Give a branch another name. Its commits keep the name that it had at their time."""
        self._access.writable().lifecycle.rename(name, new_name, self._access.actor)
        return self._find(new_name)

    def delete(self, name: str) -> None:
        self._access.writable().lifecycle.delete(name, self._access.actor)

    def _find(self, name: str) -> Branch:
        ref, state = self._access.engine.reader.branch(name)
        return Branch(ref.name, state.head_commit_id, ref.forked_from, ref.created_at)


class Tags:
    """Create, list and delete tags."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def create(self, name: str, target: str = MAIN) -> Tag:
        return self._access.writable().lifecycle.create_tag(name, target, self._access.actor)

    def list(self) -> list[Tag]:
        refs = self._access.engine.reader.tag_refs
        return [tag for name in refs.names() if (tag := refs.find(name)) is not None]

    def delete(self, name: str) -> None:
        self._access.writable().reader.tag_refs.remove(name)


class Commits:
    """Read the history."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def list(self, branch: str = MAIN, limit: int | None = 50) -> list[Commit]:
        """Newest first, including the commits from before the branch was forked."""
        _, state = self._access.engine.reader.branch(branch)
        walk = self._access.engine.commits.walk(state)
        return [stored.commit for stored in islice(walk, limit)]

    def show(self, commit_id: str) -> Commit:
        return self._access.engine.commits.find(commit_id)

    def graph(self, branch: str = MAIN, limit: int = 50) -> Sequence[str]:
        """The history of a branch with everything merged into it, drawn as lines of text."""
        from omnigraph.graph import commit_history

        return commit_history.draw(
            commit_history.newest_commits(self._access.engine, branch, limit)
        )

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
        from omnigraph.graph import commit_history

        wanted = ChangeFilter.of(types, kinds, ops)
        return commit_history.commit_changes(self._access.engine, commit_id, wanted, limit, cursor)


class Schema:
    """Read the schema in force."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def show(self, branch: str = MAIN, *, at: str | None = None) -> AcceptedSchema:
        """The schema of a branch, now or `at` a commit, tag, moment or branch."""
        snapshot = reads.snapshot(self._access.engine, branch, at)
        accepted = self._access.engine.reader.schemas.read(snapshot.schema_id)
        if accepted.source:
            return accepted
        # A catalog made in Python may have been accepted without a text.
        from omnigraph.schema.catalog_text import catalog_text

        return replace(accepted, source=catalog_text(accepted.catalog))
