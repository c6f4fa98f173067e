"""What a graph still needs: the roots from which cleanup keeps files.

Branches need their heads, the snapshots the caller's policy keeps, those that merges of two of them
are made against, and their whole commit log; tags need their snapshot; writers in flight need what
their intents name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from omnigraph.commit.intents import Intent
from omnigraph.errors import NotFound, StorageFailure
from omnigraph.lance_store.store import DatasetVersion
from omnigraph.manifest.ancestry import meeting_points
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.commit_graph import CommitGraph
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
from omnigraph.manifest.records import BranchRef, TablePin


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
    heads = reader.live_branches()
    states = [state for _, state in heads]
    wanted = _kept_commits(reader, states, retention, now)
    # Branches that live can be merged, however few snapshots the policy keeps.
    wanted |= meeting_points(Lineage(reader, states), {state.head_commit_id for state in states})
    log = _Log(needed, reader, wanted)
    for ref, state in heads:
        _add_head(needed, ref, state)
        log.add(state)
    for incarnation in deleted_lately:
        ref = BranchRef(incarnation, incarnation, None, 0)
        try:
            state = reader.state(ref)
        except (NotFound, StorageFailure):
            continue  # its creation was cut short: nobody reads it
        _add_head(needed, ref, state)
        log.add(state)
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


class _Log:
    """The commit log is small and stays whole, however few snapshots do.

    The same commit stands in the logs of all branches forked after it and in what merges brought
    in. Tables may have been compacted between those writings, so its snapshot has other versions
    here than there; readers come by any of these ways, and what is wanted is kept on all of them.
    """

    def __init__(self, needed: Needed, reader: ManifestReader, wanted: set[str]) -> None:
        self._needed = needed
        self._history = reader.history
        self._wanted = wanted
        self._seen: set[str] = set()

    def add(self, state: BranchState) -> None:
        pages = [CommitPage(state.commits, tuple(state.tables.values()))]
        for segment, page in self._history.with_children(state.history):
            self._needed.objects.add(history_object(segment.segment_id))
            if page is not None and segment.segment_id not in self._seen:
                pages.append(page)
            self._seen.add(segment.segment_id)
        while pages:  # merges brought in merges, thousands deep
            pages += self._merged_into(pages.pop())

    def _merged_into(self, page: CommitPage) -> list[CommitPage]:
        """Take a page in; what its merges brought is next."""
        for pins in _snapshots_of(page, self._wanted):
            self._needed.add_pins(pins)
        objects, merged = self._needed.objects, []
        for stored in page.commits:
            named = stored.references
            objects.add(schema_object(named.schema_id))
            objects.update(change_list_object(f) for f in named.listed_files)
            if named.merged_history is not None and named.merged_history not in self._seen:
                self._seen.add(named.merged_history)
                objects.add(history_object(named.merged_history))
                merged.append(self._history.page(named.merged_history))
        return merged


def _snapshots_of(page: CommitPage, wanted: set[str]) -> Iterator[tuple[TablePin, ...]]:
    """The pins of each wanted commit of a page; commits older than the last one stay unread."""
    left = sum(stored.commit_id in wanted for stored in page.commits)
    pins = page.tables
    for stored in reversed(page.commits):
        if not left:
            return
        if stored.commit_id in wanted:
            left -= 1
            yield pins
        pins = tuple(undo_commits(pins, (stored,)).values())


def _kept_commits(
    reader: ManifestReader, states: Iterable[BranchState], retention: Retention, now: int
) -> set[str]:
    """Kept on one branch is kept on all: whoever asks for a commit need not know whose it was."""
    found: set[str] = set()
    for state in states:
        superseded_at = None
        for position, stored in enumerate(CommitGraph(reader).walk(state)):
            if not retention.keeps(position, superseded_at, now):
                break
            superseded_at = stored.commit.created_at
            found.add(stored.commit_id)
    return found


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
