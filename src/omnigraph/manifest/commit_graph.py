"""The commits of a graph: list them, resolve their names, read the graph as a commit left it.

A commit is named by its id, a unique prefix of its id, a tag, a branch (its head), `HEAD`, a
moment, or `NAME~N`: N first parents above another name. `CommitGraph.place` is the only reader of
names.
"""

from __future__ import annotations

import datetime as dt
import heapq
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from omnigraph.errors import InvalidArgument, InvalidName, NotFound
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import BranchRef, Commit, HistorySegment, StoredCommit
from omnigraph.manifest.refs import Tag
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.clock import ulid_micros
from omnigraph.values.identifiers import HEAD, MAIN
from omnigraph.values.known_names import did_you_mean
from omnigraph.values.temporal import micros_of, write_micros

CommitName = str | dt.datetime
"""How a caller names a commit; a datetime is a moment, in UTC if it has no zone."""

SHORTEST_PREFIX = 8
_PREFIX = re.compile(r"[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{7,24}")
_ULID_LENGTH, _ULID_TIME_LENGTH = 26, 10
_SHOWN_CANDIDATES = 8
# An id is made before its commit is published. The clocks of two machines differ by less than this.
_CLOCK_SLACK_MICROS = 86_400_000_000
# Most writes take less time from their first step to their publish.
_LONGEST_WRITE_MICROS = 7 * 86_400_000_000


@dataclass(frozen=True, slots=True)
class CommitPlace:
    """What a name leads to: a commit, and the branch or the tag through which it was found."""

    commit_id: str
    ref: BranchRef | None = None
    state: BranchState | None = None
    """The branch whose history has the commit; None when only a merge or a tag has it."""
    tag: Tag | None = None

    @property
    def is_head(self) -> bool:
        return self.state is not None and self.state.head_commit_id == self.commit_id


def is_commit_id(name: str) -> bool:
    """Whether a text has the form of a whole commit id."""
    return ulid_micros(name) is not None


def name_text(name: CommitName | None) -> str | None:
    """The name as text, which `--at` takes too."""
    return write_micros(micros_of(name)) if isinstance(name, dt.datetime) else name


class CommitGraph:
    """Commits of live branches, newest first, and the snapshots they made visible."""

    def __init__(
        self, reader: ManifestReader, is_visible: Callable[[str], bool] | None = None
    ) -> None:
        """`is_visible` says of a branch whether commits that were made on it may be found."""
        self._reader = reader
        self._is_visible = is_visible

    def walk(self, state: BranchState) -> Iterator[StoredCommit]:
        """Every commit of a branch along first parents, newest first."""
        yield from reversed(state.commits)
        for page in self._reader.history.pages(state.history):
            yield from reversed(page.commits)

    def find(self, commit_id: str, prefer: str = MAIN) -> Commit:
        """A commit by its whole id: on branch `prefer`, on another, or brought in by a merge."""
        names = self._reader.branch_refs.names()
        for name in [prefer, *(n for n in names if n != prefer)]:
            try:
                found = self.find_in(self._reader.branch(name)[1], commit_id)
            except NotFound:
                continue
            if found is not None:
                return found
        merged = self._merged(commit_id)
        if merged is None:
            raise NotFound(f"no commit {commit_id!r} on any branch", commit=commit_id)
        return merged.commit

    def _merged(self, commit_id: str) -> StoredCommit | None:
        """A commit that only a merge brought in."""
        found = Lineage(self._reader, ()).find(commit_id)
        return found if found is not None and self.is_visible(found.commit) else None

    def is_visible(self, commit: Commit) -> bool:
        """Whether a commit that only a merge brought in may be found."""
        return self._is_visible is None or self._is_visible(commit.graph_branch)

    def find_in(self, state: BranchState, commit_id: str) -> Commit | None:
        """A commit of a branch along first parents.

        An id begins with the time at which its write began. So only pages of about that time are
        read, however long the history is; all pages are read if it is not in one of those.
        """
        for stored in reversed(state.commits):
            if stored.commit_id == commit_id:
                return stored.commit
        began = ulid_micros(commit_id)
        if began is None:
            return None
        earliest, latest = began - _CLOCK_SLACK_MICROS, began + _LONGEST_WRITE_MICROS

        def is_near(segment: HistorySegment) -> bool:
            return segment.last_created_at >= earliest and segment.first_created_at <= latest

        def is_younger(segment: HistorySegment) -> bool:
            return segment.last_created_at >= earliest

        for wanted in (is_near, is_younger):
            for page in self._reader.history.pages(state.history, wanted):
                for stored in page.commits:
                    if stored.commit_id == commit_id:
                        return stored.commit
        return None

    def find_by_key(
        self,
        state: BranchState,
        key: str,
        not_before: int,
        actor: str | None,
        operation: str | None = None,
    ) -> Commit | None:
        """The commit of an actor with this idempotency key, not older than `not_before`.

        A key belongs to an actor and an operation; None looks for any operation.
        """
        quoted = json.dumps(key, ensure_ascii=False)

        def fits(commit: Commit) -> bool:
            return (
                commit.idempotency_key == key
                and commit.actor_id == actor
                and operation in (None, commit.operation)
                and commit.created_at >= not_before
            )

        for stored in reversed(state.commits):
            if quoted in stored.text and fits(stored.commit):
                return stored.commit

        history = self._reader.history

        def may_hold(segment: HistorySegment) -> bool:
            if not segment.keyed or segment.last_created_at < not_before:
                return False
            return segment.level > 0 or key in history.keys(segment.segment_id)

        for page in history.pages(state.history, may_hold):
            for stored in page.commits:
                if fits(stored.commit):
                    return stored.commit
        return None

    def newest(self, state: BranchState) -> Iterator[StoredCommit]:
        """Commits of a branch and of everything merged into it: newest first, children first.

        History is read as far back as the caller goes on.
        """
        lineage = Lineage(self._reader, (state,))
        head = lineage.commit(state.head_commit_id)
        waiting = [(-head.created_at, head.graph_commit_id)]
        seen = {head.graph_commit_id}
        while waiting:
            _, commit_id = heapq.heappop(waiting)
            stored = lineage.find(commit_id)
            if stored is None:
                continue  # the log is broken; `verify` reports it
            yield stored
            for parent in stored.parents:
                above = lineage.find(parent) if parent not in seen else None
                if above is not None:
                    seen.add(parent)
                    heapq.heappush(waiting, (-above.commit.created_at, parent))

    def without_hidden(
        self, state: BranchState, commits: Iterable[StoredCommit]
    ) -> Iterator[StoredCommit]:
        """Of the commits of a branch, those of its own history and those of visible branches."""
        if self._is_visible is None:
            yield from commits
            return
        own: set[str] | None = None
        for stored in commits:
            if not self.is_visible(stored.commit):
                if own is None:
                    own = {each.commit_id for each in self.walk(state)}
                if stored.commit_id not in own:
                    continue
            yield stored

    def resolve(self, name: CommitName, branch: str = MAIN) -> str:
        """The id of the commit with this name; moments and `HEAD` are those of `branch`."""
        return self.place(name, branch).commit_id

    def snapshot_at(self, name: CommitName, branch: str = MAIN) -> Snapshot:
        """The graph as the commit with this name left it."""
        return self.snapshot_of(self.place(name, branch))

    def snapshot_of(self, place: CommitPlace) -> Snapshot:
        if place.tag is not None:
            return self._tag_snapshot(place.tag)
        if place.ref is None or place.state is None:
            return Lineage(self._reader, ()).snapshot(place.commit_id)
        if place.is_head:
            return self._reader.snapshot(place.ref, place.state)
        # Under the name of the branch where the commit was found.
        found = Lineage(self._reader, (place.state,)).snapshot(place.commit_id)
        return replace(found, graph_branch=place.ref.name)

    def place(self, name: CommitName, branch: str = MAIN) -> CommitPlace:
        """Find the commit with this name. Exact names win over prefixes, and tags over branches."""
        if isinstance(name, dt.datetime):
            return self._at_moment(micros_of(name), write_micros(micros_of(name)), branch)
        if not isinstance(name, str):
            raise InvalidArgument(
                "a commit is named by an id, a tag, a branch or a moment (text or datetime), "
                f"got {name!r}"
            )
        start, *steps = name.split("~")
        found = self._named(start, name, branch)
        for step in steps:
            if step and not (step.isdecimal() and step.isascii() and len(step) <= 9):
                raise InvalidArgument(
                    f"{name!r}: a number of commits follows `~`, like {start}~1", at=name
                )
            found = self._above(found, int(step or 1), name)
        return found

    def _named(self, text: str, whole: str, branch: str) -> CommitPlace:
        if text == HEAD:
            return self._head_of(branch)
        tag = self._reader.tag_refs.find(text)
        if tag is not None:
            return CommitPlace(tag.graph_commit_id, tag=tag)
        # Only a text with the form of an id is searched for in the whole history.
        found = self._with_id(text, branch) if ulid_micros(text) is not None else None
        if found is not None:
            return found
        try:
            return self._head_of(text)
        except (NotFound, InvalidName):
            pass
        if _PREFIX.fullmatch(text):
            found = self._with_prefix(text.upper(), branch)
            if found is not None:
                return found
        moment = _parse_moment(text)
        if moment is not None:
            return self._at_moment(moment, text, branch)
        names = [*self._reader.tag_refs.names(), *self._reader.branch_refs.names()]
        hint = did_you_mean(text, names)
        told = f"no commit, tag or branch {text!r}" + (f"; {hint}" if hint else "")
        raise NotFound(told, at=whole)

    def _head_of(self, branch: str) -> CommitPlace:
        ref, state = self._reader.branch(branch)
        return CommitPlace(state.head_commit_id, ref, state)

    def _with_id(self, commit_id: str, prefer: str) -> CommitPlace | None:
        located = self._locate(commit_id, prefer)
        if located is not None:
            return located
        return CommitPlace(commit_id) if self._merged(commit_id) is not None else None

    def _locate(self, commit_id: str, prefer: str) -> CommitPlace | None:
        names = self._reader.branch_refs.names()
        for name in [prefer, *(n for n in names if n != prefer)]:
            try:
                ref, state = self._reader.branch(name)
            except NotFound:
                continue
            if any(stored.commit_id == commit_id for stored in self.walk(state)):
                return CommitPlace(commit_id, ref, state)
        return None

    def _with_prefix(self, prefix: str, branch: str) -> CommitPlace | None:
        """The only commit whose id begins like this; None when there is none."""
        earliest = prefix[:_ULID_TIME_LENGTH].ljust(_ULID_LENGTH, "0")
        not_before = (ulid_micros(earliest) or 0) - _CLOCK_SLACK_MICROS
        found = self._ids_with_prefix(prefix, not_before)
        if len(found) > 1:
            shown = sorted(found)[:_SHOWN_CANDIDATES]
            more = f" and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
            raise InvalidArgument(
                f"{prefix!r} begins {len(found)} commits: {', '.join(shown)}{more}; "
                "give more characters",
                at=prefix,
                candidates=shown,
            )
        return self._with_id(found.pop(), branch) if found else None

    def _ids_with_prefix(self, prefix: str, not_before: int) -> set[str]:
        """Of all commits that were made after `not_before`, on branches or brought in by merges."""
        found: set[str] = set()
        looked_at: set[str] = set()
        merged: list[str] = []

        def look_in(commits: Sequence[StoredCommit]) -> None:
            found.update(s.commit_id for s in commits if s.commit_id.startswith(prefix))
            for stored in commits:
                if len(stored.parents) > 1 and stored.commit_id not in looked_at:
                    looked_at.add(stored.commit_id)
                    if stored.commit.merged_history is not None:
                        merged.append(stored.commit.merged_history)

        history = self._reader.history
        for _, state in self._reader.live_branches():
            look_in(state.commits)
            for page in history.pages(state.history, lambda s: s.last_created_at >= not_before):
                look_in(page.commits)
        while merged:
            brought = history.page(merged.pop()).commits
            look_in([stored for stored in brought if self.is_visible(stored.commit)])
        return found

    def _above(self, place: CommitPlace, steps: int, name: str) -> CommitPlace:
        """The commit that many first parents above another."""
        state = place.state or self._state_of(place.tag)
        lineage = Lineage(self._reader, () if state is None else (state,))
        above = islice(lineage.first_parents(place.commit_id), steps, steps + 1)
        stored = next(above, None)
        if stored is None:
            raise NotFound(f"{name!r} is above the first commit", at=name)
        return CommitPlace(stored.commit_id, place.ref, place.state)

    def _state_of(self, tag: Tag | None) -> BranchState | None:
        try:
            return self._reader.branch(tag.graph_branch)[1] if tag is not None else None
        except NotFound:
            return None

    def _at_moment(self, moment: int, text: str, branch: str) -> CommitPlace:
        ref, state = self._reader.branch(branch)
        for stored in self.walk(state):
            if stored.commit.created_at <= moment:
                return CommitPlace(stored.commit_id, ref, state)
        raise NotFound(f"branch {branch!r} has no commit as old as {text}", branch=branch, at=text)

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
    return micros_of(moment)
