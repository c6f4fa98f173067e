"""What a graph still needs: the roots from which cleanup keeps files.

Branches need their heads, the snapshots the caller's policy keeps, those that merges of two of them
are made against, and their whole commit log; tags need their snapshot; writers in flight need what
their intents name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from omnigraph.commit.intents import Intent
from omnigraph.errors import NotFound, StorageFailure
from omnigraph.lance_store.store import DatasetVersion
from omnigraph.maintain.status import live
from omnigraph.manifest.ancestry import meeting_points
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.history import CommitPage
from omnigraph.manifest.layout import (
    MANIFEST,
    change_list_object,
    history_object,
    schema_object,
)
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.publication import undo_commits
from omnigraph.manifest.reader import ManifestReader, manifest_version
from omnigraph.manifest.records import BranchRef, StoredCommit, TablePin


@dataclass(frozen=True, slots=True)
class Retention:
    """Which snapshots stay readable on every branch; a commit stays when either rule keeps it."""

    keep: int | None
    """The newest so many commits; None: all, unless `older_than_micros` is given."""
    older_than_micros: int | None
    """Those that were the head less long ago than this."""

    def keeps(self, position: int, superseded_at: int | None, now: int) -> bool:
        """`position` counts from 0, the head; `superseded_at` is when the next commit came."""
        if superseded_at is None or (self.keep is None and self.older_than_micros is None):
            return True
        if self.keep is not None and position < self.keep:
            return True
        return self.older_than_micros is not None and superseded_at > now - self.older_than_micros


@dataclass(slots=True)
class Needed:
    """Gathered roots. `busy` are datasets that a writer in flight may have staged files for."""

    versions: set[DatasetVersion] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)
    incarnations: set[str] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)

    def add_pins(self, pins: Iterable[TablePin]) -> None:
        self.versions.update(pin.at for pin in pins)


def needed_now(
    reader: ManifestReader,
    retention: Retention,
    intents: Iterable[Intent],
    deleted_lately: Iterable[str],
    now: int,
) -> Needed:
    """`deleted_lately` are incarnations without a name whose readers may not have finished."""
    needed = Needed()
    seen_segments: set[str] = set()
    heads = live(reader)
    kept = _kept_commits(reader, (state for _, state in heads), retention, now)
    for ref, state in heads:
        _add_head(needed, ref, state)
        _add_log(needed, reader, state, seen_segments)
        for pins in _kept_snapshots(reader, state, kept):
            needed.add_pins(pins)
    _add_meeting_points(needed, reader, [state for _, state in heads])
    for incarnation in deleted_lately:
        ref = BranchRef(incarnation, incarnation, None, 0)
        try:
            state = reader.state(ref)
        except (NotFound, StorageFailure):
            continue  # its creation was cut short: nobody reads it
        _add_head(needed, ref, state)
        _add_log(needed, reader, state, seen_segments)
    for name in reader.tag_refs.names():
        tag = reader.tag_refs.find(name)
        if tag is not None:
            needed.add_pins(tag.tables)
            needed.objects.add(schema_object(tag.schema_id))
    for intent in intents:
        _add_intent(needed, intent)
    return needed


def _add_head(needed: Needed, ref: BranchRef, state: BranchState) -> None:
    needed.incarnations.add(ref.incarnation)
    needed.versions.add(manifest_version(ref, state.version))
    needed.add_pins(state.tables.values())
    needed.objects.add(schema_object(state.schema_id))


def _add_meeting_points(needed: Needed, reader: ManifestReader, states: list[BranchState]) -> None:
    """Branches that live can be merged, however few snapshots the policy keeps."""
    lineage = Lineage(reader, states)
    for commit_id in meeting_points(lineage, {state.head_commit_id for state in states}):
        needed.add_pins(lineage.snapshot(commit_id).tables.values())


def _add_log(
    needed: Needed, reader: ManifestReader, state: BranchState, seen_segments: set[str]
) -> None:
    """The commit log is small and stays whole, however few snapshots do."""
    _add_commits(needed, reader, state.commits)
    for segment, page in reader.history.with_children(state.history):
        needed.objects.add(history_object(segment.segment_id))
        if page is not None and segment.segment_id not in seen_segments:
            _add_commits(needed, reader, page.commits)
        seen_segments.add(segment.segment_id)


def _add_commits(needed: Needed, reader: ManifestReader, commits: Iterable[StoredCommit]) -> None:
    for stored in commits:
        merged = stored.commit.merged_history
        if merged is not None and history_object(merged) not in needed.objects:
            # What a merge brought in, and the state of its other parent: the next merge of the
            # two lines starts from there, whatever became of the branch.
            needed.objects.add(history_object(merged))
            page = reader.history.page(merged)
            needed.add_pins(page.tables)
            _add_commits(needed, reader, page.commits)
        needed.objects.add(schema_object(stored.commit.schema_id))
        needed.objects.update(change_list_object(f) for f in stored.commit.listed_files)


@dataclass(frozen=True, slots=True)
class _Kept:
    """Commits whose snapshot stays, and how far back the oldest of them lies."""

    commit_ids: frozenset[str]
    oldest: int


def _kept_commits(
    reader: ManifestReader, states: Iterable[BranchState], retention: Retention, now: int
) -> _Kept:
    """Kept on one branch is kept on all: whoever asks for a commit need not know whose it was."""
    found: dict[str, int] = {}
    for state in states:
        superseded_at = None
        for position, (stored, _) in enumerate(_snapshots(reader, state)):
            if not retention.keeps(position, superseded_at, now):
                break
            superseded_at = stored.commit.created_at
            found[stored.commit_id] = superseded_at
    return _Kept(frozenset(found), min(found.values(), default=now))


def _kept_snapshots(
    reader: ManifestReader, state: BranchState, kept: _Kept
) -> Iterator[tuple[TablePin, ...]]:
    for stored, pins in _snapshots(reader, state):
        if stored.commit.created_at < kept.oldest:
            return
        if stored.commit_id in kept.commit_ids:
            yield pins


def _snapshots(
    reader: ManifestReader, state: BranchState
) -> Iterator[tuple[StoredCommit, tuple[TablePin, ...]]]:
    """Every commit of a branch with the pins after it, newest first."""
    window = CommitPage(state.commits, tuple(state.tables.values()))
    for page in chain((window,), reader.history.pages(state.history)):
        pins = page.tables
        for stored in reversed(page.commits):
            yield stored, pins
            pins = tuple(undo_commits(pins, (stored,)).values())


def _add_intent(needed: Needed, intent: Intent) -> None:
    publication = intent.publication
    if publication is None:
        return
    pins = [pin for move in publication.moves for pin in (move.expected, move.after)]
    pins += publication.created
    needed.add_pins(pins)
    needed.busy |= {MANIFEST, *(pin.location for pin in pins)}
    if publication.schema_id is not None:
        needed.objects.add(schema_object(publication.schema_id))
    if publication.commit is not None and publication.commit.merged_history is not None:
        needed.objects.add(history_object(publication.commit.merged_history))
    draft = publication.commit
    for changes in (*draft.changes, *(draft.differs_from_merged or ())) if draft else ():
        if changes.file is not None:
            needed.objects.add(change_list_object(changes.file))
