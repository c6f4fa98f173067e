"""The commits of a graph: list them, find one, and read the graph as a commit left it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, replace

from omnigraph.errors import InvalidArgument, InvalidName, NotFound
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import BranchRef, Commit, HistorySegment, StoredCommit
from omnigraph.manifest.refs import Tag
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.clock import ulid_micros
from omnigraph.values.identifiers import MAIN
from omnigraph.values.known_names import did_you_mean

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class _LocatedCommit:
    """A commit, and the branch whose history has it."""

    ref: BranchRef
    state: BranchState
    commit: Commit


class CommitGraph:
    """Commits of live branches, newest first, and the snapshots they made visible."""

    def __init__(self, reader: ManifestReader) -> None:
        self._reader = reader

    def walk(self, state: BranchState) -> Iterator[StoredCommit]:
        """Every commit of a branch along first parents, newest first."""
        yield from reversed(state.commits)
        for page in self._reader.history.pages(state.history):
            yield from reversed(page.commits)

    def find(self, commit_id: str, prefer: str = MAIN) -> Commit:
        """A commit by id: on branch `prefer`, on another branch, or brought in by a merge."""
        located = self._locate(commit_id, prefer)
        if located is not None:
            return located.commit
        merged = Lineage(self._reader, ()).find(commit_id)
        if merged is None:
            raise NotFound(f"no commit {commit_id!r} on any branch", commit=commit_id)
        return merged.commit

    def find_in(self, state: BranchState, commit_id: str) -> Commit | None:
        for stored in self.walk(state):
            if stored.commit_id == commit_id:
                return stored.commit
        return None

    def find_by_key(self, state: BranchState, key: str, not_before: int) -> Commit | None:
        """The commit that carries an idempotency key, if it is not older than `not_before`."""
        for stored in reversed(state.commits):
            if stored.commit.idempotency_key == key:
                return stored.commit if stored.commit.created_at >= not_before else None

        history = self._reader.history

        def may_hold(segment: HistorySegment) -> bool:
            if not segment.keyed or segment.last_created_at < not_before:
                return False
            return segment.level > 0 or key in history.keys(segment.segment_id)

        for page in history.pages(state.history, may_hold):
            for stored in page.commits:
                if stored.commit.idempotency_key == key and stored.commit.created_at >= not_before:
                    return stored.commit
        return None

    def snapshot_at(self, target: str, branch: str = MAIN) -> Snapshot:
        """The graph at a tag, a commit id, a branch's head or an RFC 3339 moment of `branch`."""
        if not isinstance(target, str):
            raise InvalidArgument(
                f"`at` is a commit id, a tag, a branch or a moment as text, got {target!r}"
            )
        tag = self._reader.tag_refs.find(target)
        if tag is not None:
            return self._tag_snapshot(tag)
        # Only a text with the form of an id is searched for in the whole history.
        may_be_commit = ulid_micros(target) is not None
        found = self._snapshot_at_commit(target, branch) if may_be_commit else None
        found = found or self._snapshot_of_head(target)
        if found is not None:
            return found
        moment = _parse_moment(target)
        if moment is not None:
            return self._snapshot_at_moment(moment, target, branch)
        names = [*self._reader.tag_refs.names(), *self._reader.branch_refs.names()]
        hint = did_you_mean(target, names)
        raise NotFound(f"no commit, tag or branch {target!r}; {hint}", at=target)

    def _snapshot_at_commit(self, commit_id: str, prefer: str) -> Snapshot | None:
        located = self._locate(commit_id, prefer)
        if located is not None:
            return self._snapshot_of(located)
        lineage = Lineage(self._reader, ())
        return lineage.snapshot(commit_id) if lineage.find(commit_id) is not None else None

    def _snapshot_of_head(self, name: str) -> Snapshot | None:
        try:
            return self._reader.snapshot(*self._reader.branch(name))
        except (NotFound, InvalidName):
            return None

    def _locate(self, commit_id: str, prefer: str) -> _LocatedCommit | None:
        names = self._reader.branch_refs.names()
        for name in [prefer, *(n for n in names if n != prefer)]:
            try:
                ref, state = self._reader.branch(name)
            except NotFound:
                continue
            commit = self.find_in(state, commit_id)
            if commit is not None:
                return _LocatedCommit(ref, state, commit)
        return None

    def _snapshot_at_moment(self, moment: int, text: str, branch: str) -> Snapshot:
        ref, state = self._reader.branch(branch)
        for stored in self.walk(state):
            if stored.commit.created_at <= moment:
                return self._snapshot_of(_LocatedCommit(ref, state, stored.commit))
        raise NotFound(f"branch {branch!r} has no commit as old as {text}", branch=branch, at=text)

    def _snapshot_of(self, located: _LocatedCommit) -> Snapshot:
        """The snapshot under the name of the branch where the commit was found."""
        lineage = Lineage(self._reader, (located.state,))
        found = lineage.snapshot(located.commit.graph_commit_id)
        return replace(found, graph_branch=located.ref.name)

    def _tag_snapshot(self, tag: Tag) -> Snapshot:
        return Snapshot(
            graph_branch=tag.graph_branch,
            graph_commit_id=tag.graph_commit_id,
            graph_manifest_version=tag.graph_manifest_version,
            schema_id=tag.schema_id,
            catalog=self._reader.schemas.read(tag.schema_id).catalog,
            tables={pin.key: pin for pin in tag.tables},
            internal_schema_version=self._reader.format_version,
        )


def _parse_moment(text: str) -> int | None:
    """Microseconds of an RFC 3339 text; None when it is something else."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        example = f"{moment.isoformat()}Z"
        raise InvalidArgument(f"{text!r} needs an offset, like {example}", at=text)
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)
