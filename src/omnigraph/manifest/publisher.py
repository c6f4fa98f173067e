"""Publish by compare-and-swap: the only writer of `__manifest` after the graph was created."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass

from omnigraph import failpoints
from omnigraph.errors import OmnigraphError, StorageFailure
from omnigraph.lance_store.dataset_files import OldVersions
from omnigraph.lance_store.schema_versions import SchemaVersions
from omnigraph.lance_store.store import Store
from omnigraph.manifest.branch_state import CURRENT_FORMAT, BranchState, state_to_schema
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.history import pack
from omnigraph.manifest.layout import MANIFEST
from omnigraph.manifest.publication import (
    CommitDraft,
    Publication,
    apply_group,
    apply_publication,
    has_effect,
    unmet_requirement,
)
from omnigraph.manifest.reader import ManifestReader, manifest_version
from omnigraph.manifest.records import BranchRef, Commit
from omnigraph.settings.models import HistorySettings
from omnigraph.values.bounded_cache import BoundedCache
from omnigraph.values.clock import Clock

_MOST_BRANCHES = 1024
_SWAP_ATTEMPTS = 1000
_DAY_MICROS = 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class Published:
    """The state after the swap. `by_us` is False when the commit was published before."""

    state: BranchState
    commit: Commit | None
    by_us: bool = True
    group: tuple[Commit, ...] = ()
    """The commits of a group, in order. `commit` is the last of them."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """The idempotency key or the batch was committed before, by `commit`.

    None: a later batch of the stream was committed since, so the commit is not known any more.
    """

    commit: Commit | None


class Publisher:
    """Swaps branch states. After a lost swap it tries again while all requirements hold."""

    def __init__(
        self, reader: ManifestReader, graph: CommitGraph, settings: HistorySettings, clock: Clock
    ) -> None:
        self._reader = reader
        self._store: Store = reader.store
        self._graph = graph
        self._settings = settings
        self._clock = clock
        # Threads of one process take turns, so that they do not lose swaps to each other.
        self._turns: BoundedCache[str, threading.Lock] = BoundedCache(_MOST_BRANCHES)
        self._trimmed: BoundedCache[str, int] = BoundedCache(_MOST_BRANCHES)
        self._versions: BoundedCache[str, SchemaVersions] = BoundedCache(_MOST_BRANCHES)
        self._old_versions = OldVersions(self._store)

    def publish(self, ref: BranchRef, publication: Publication) -> Published | Repeated:
        """Swap the head of a branch; raises the error of an unmet requirement."""
        with self._turns.get_or_put(ref.incarnation, threading.Lock()):
            # The remembered state saves a read. It may be outdated: then the next try reads it.
            state = self._reader.last_known(ref)
            for _ in range(_SWAP_ATTEMPTS):
                fresh = state is None
                state = state or self._reader.state(ref)
                earlier = self.published_before(state, publication)
                if earlier is not None:
                    return earlier
                unmet = unmet_requirement(state, publication, ref.name)
                if unmet is not None and fresh:
                    raise unmet.error
                if unmet is None:
                    published = self._swap(ref, state, publication)
                    if published is not None:
                        return published
                state = None
        raise StorageFailure(
            f"branch {ref.name!r}: other processes won {_SWAP_ATTEMPTS} swaps of the manifest"
        )

    def published_before(
        self, state: BranchState, publication: Publication
    ) -> Published | Repeated | None:
        """This publication's own commit, or the first commit with its key or batch; else None.

        Its own commit exists when an answer was lost or recovery finished the write.
        """
        if publication.group:
            return self._group_before(state, publication)
        draft = publication.commit
        if draft is None:
            return None
        known = self.find_commit(state, draft.commit_id, publication.based_on)
        if known is not None:
            return Published(state, known, by_us=False)
        return self._same_key(state, draft) or self._earlier_batch(state, draft)

    def _group_before(
        self, state: BranchState, publication: Publication
    ) -> Published | Repeated | None:
        """One swap publishes all commits of a group, so the first stands for the others."""
        drafts = [grouped.draft for grouped in publication.group]
        if self.find_commit(state, drafts[0].commit_id, publication.based_on) is not None:
            found = [self.find_commit(state, d.commit_id, publication.based_on) for d in drafts]
            commits = tuple(commit for commit in found if commit is not None)
            return Published(state, commits[-1], by_us=False, group=commits)
        repeated = (self._same_key(state, draft) for draft in drafts)
        return next((r for r in repeated if r is not None), None)

    def _same_key(self, state: BranchState, draft: CommitDraft) -> Repeated | None:
        if draft.idempotency_key is None:
            return None
        not_before = self._clock.now_micros() - self._settings.idempotency_days * _DAY_MICROS
        first = self._graph.find_by_key(
            state, draft.idempotency_key, not_before, draft.actor_id, draft.operation
        )
        return None if first is None else Repeated(first)

    def _earlier_batch(self, state: BranchState, draft: CommitDraft) -> Repeated | None:
        given = draft.stream_batch
        mark = state.streams.get(given.stream) if given is not None else None
        if given is None or mark is None or given.batch > mark.batch:
            return None
        same = given.batch == mark.batch
        return Repeated(self._graph.find_in(state, mark.commit_id) if same else None)

    def find_commit(self, state: BranchState, commit_id: str, based_on: int) -> Commit | None:
        """Find a commit that cannot be older than manifest version `based_on`."""
        for stored in self._graph.walk(state):
            if stored.commit_id == commit_id:
                return stored.commit
            # A swap may publish many commits, so their number says nothing about versions. The
            # versions never increase from here on.
            if stored.commit.graph_manifest_version <= based_on:
                return None
        return None

    def _swap(
        self, ref: BranchRef, state: BranchState, publication: Publication
    ) -> Published | None:
        now = self._clock.now_micros()
        group: tuple[Commit, ...] = ()
        if publication.group:
            next_state, group = apply_group(state, publication, ref, now)
            commit: Commit | None = group[-1]
        else:
            next_state, commit = apply_publication(state, publication, ref, now)
        packed = pack(next_state, self._settings, self._clock)
        for key, data in packed.objects:
            self._store.files.put(key, data)
        failpoints.hit("publish.after_history")
        self._store.flush_to_disk()
        failpoints.hit("publish.after_stage")
        if not self._put(ref, state, packed.state):
            return None
        failpoints.hit("publish.after_swap")
        newest = self._reader.newest_version(ref)
        if newest != packed.state.version and not self._is_shown(ref, publication):
            return None
        self._reader.remember(ref, packed.state)
        return Published(packed.state, commit, group=group)

    def _put(self, ref: BranchRef, state: BranchState, following: BranchState) -> bool:
        """Make the version after `state`; False when another process made one with its number."""
        versions = self._versions.get(ref.incarnation)
        if versions is None:
            versions = SchemaVersions.like(self._store, manifest_version(ref, state.version))
            if versions is None:
                return False  # removed, so many versions are newer
            self._versions.put(ref.incarnation, versions)
        at = manifest_version(ref, following.version)
        schema = state_to_schema(following, CURRENT_FORMAT)
        return versions.put(self._store, at, schema.metadata)

    def _is_shown(self, ref: BranchRef, publication: Publication) -> bool:
        """Whether the head, which is newer than this swap, was made from it.

        The number of a trimmed version is free again. So the swap of a writer that was stopped
        while others published many versions succeeds, but its version is below the head, where no
        reader sees it.
        """
        state = self._reader.state(ref)
        if publication.commit_ids:
            own = publication.commit_ids[0]
            return self.find_commit(state, own, publication.based_on) is not None
        return has_effect(state, publication)

    def trim(self, ref: BranchRef, version: int) -> None:
        """Remove manifest versions that no head needs. A failure is left for the next time.

        This is not part of `publish`, because a writer must not spend its lease on it.
        """
        kept = self._settings.kept_manifest_versions
        due = version // kept
        known = self._trimmed.get(ref.incarnation)
        if known is None:
            known = due - (version % kept == 0)
        self._trimmed.put(ref.incarnation, due)
        if due == known:
            return
        with suppress(OmnigraphError):
            self._old_versions.remove_below(MANIFEST, ref.physical_branch, version - kept)
