"""Create, rename and delete branches, and create tags, each under an intent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from omnigraph import failpoints
from omnigraph.commit.arming import Arming, IntentHold
from omnigraph.commit.intents import (
    GC,
    Intent,
    IntentKind,
    Resources,
    branch_resource,
    guard_intent,
)
from omnigraph.errors import (
    AlreadyExists,
    CommitRejected,
    InvalidArgument,
    InvalidName,
    NotFound,
    OmnigraphError,
)
from omnigraph.lance_store.dataset_branches import create_branch, physical_name
from omnigraph.lance_store.store import Store
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.commit_graph import CommitGraph, CommitName
from omnigraph.manifest.publication import Publication
from omnigraph.manifest.publisher import Publisher
from omnigraph.manifest.reader import ManifestReader, manifest_version
from omnigraph.manifest.records import MAIN_REF, BranchRef
from omnigraph.manifest.refs import Tag
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.settings.models import WriteSettings
from omnigraph.values.clock import Clock
from omnigraph.values.identifiers import HEAD, MAIN, check_ref_name

_KEEPS_CLEANUP_AWAY = Resources(shared=frozenset({GC}))


class BranchLifecycle:
    """Branches and tags of one graph.

    A new branch costs the same for one type and for five hundred, because a table is forked only
    when the branch first writes it.
    """

    def __init__(
        self,
        reader: ManifestReader,
        publisher: Publisher,
        arming: Arming,
        settings: WriteSettings,
        clock: Clock,
    ) -> None:
        self._reader = reader
        self._store: Store = reader.store
        self._publisher = publisher
        self._arming = arming
        self._settings = settings
        self._clock = clock
        self._commits = CommitGraph(reader)

    def create(self, name: str, source: str, actor_id: str | None) -> BranchRef:
        """Branch off the head of `source`."""
        source_ref, ref = self._new_ref(name, source, actor_id)
        self._fork(source_ref, ref, actor_id)
        return ref

    @contextmanager
    def fresh(self, name: str, source: str, actor_id: str | None) -> Iterator[BranchRef]:
        """A branch for one write: it is deleted when the write fails or its process dies.

        The intent is posted before the branch is created. When the process dies, recovery deletes
        the branch unless something was committed to it.
        """
        source_ref, ref = self._new_ref(name, source, actor_id)
        intent = self._intent(IntentKind.FRESH_BRANCH, ref, _KEEPS_CLEANUP_AWAY, actor_id)
        with IntentHold(self._arming.board, intent):
            forked_at = self._fork(source_ref, ref, actor_id)
            try:
                yield ref
            except BaseException:
                # A branch that others committed to, renamed or deleted is left alone.
                with suppress(CommitRejected, NotFound):
                    self._delete(ref, actor_id, forked_at)
                raise

    def _new_ref(self, name: str, source: str, actor_id: str | None) -> tuple[BranchRef, BranchRef]:
        """(the source branch, the new branch)."""
        checked = _new_name(name)
        self._refuse_taken(checked, actor_id)
        source_ref = self._source(source)
        incarnation = physical_name(checked, self._clock.new_ulid())
        ref = BranchRef(checked, incarnation, source_ref.name, self._clock.now_micros())
        return source_ref, ref

    def _source(self, name: str) -> BranchRef:
        try:
            return self._reader.branch(name)[0]
        except (NotFound, InvalidName):
            if not self._is_older_state(name):
                raise
        raise InvalidArgument(
            f"{name!r} is not a branch, and a branch starts at the head of another one: read an "
            "older state with `at`, undo commits with `revert`",
            source=name,
        )

    def _is_older_state(self, name: str) -> bool:
        try:
            self._commits.snapshot_at(name)
        except (NotFound, InvalidArgument):
            return False
        return True

    def _fork(self, source_ref: BranchRef, ref: BranchRef, actor_id: str | None) -> str:
        """Make the branch; the commit it starts from."""
        with self._holding(IntentKind.HOLD, MAIN_REF, _KEEPS_CLEANUP_AWAY, actor_id):
            state = self._reader.state(source_ref)
            if state.deleted:
                name = source_ref.name
                raise NotFound(f"branch {name!r} was deleted", branch=name)
            at = manifest_version(source_ref, state.version)
            create_branch(self._store, at, ref.incarnation)
            failpoints.hit("branch.create_after_physical")
            if state.name is not None:
                # The head was copied from the source and still holds the source's new name.
                self._publisher.publish(ref, self._naming(ref.name, state))
            if not self._reader.branch_refs.create(ref):
                raise AlreadyExists(f"branch {ref.name!r} exists already", branch=ref.name)
            self._store.flush_to_disk()
            failpoints.hit("branch.create_after_ref")
        return state.head_commit_id

    def rename(self, name: str, new_name: str, actor_id: str | None) -> BranchRef:
        """Give a branch another name. Its commits, tables and cursors do not change.

        The new name is written into the head, so that handles with the old name notice. It becomes
        valid when its ref is created. A rename that is interrupted before that has no effect; one
        that is interrupted after it leaves an invalid old ref, which the next cleanup removes.
        """
        if name == MAIN:
            raise InvalidName("main cannot be renamed", name=name)
        checked = _new_name(new_name)
        ref, _ = self._reader.branch(name)
        if ref.name == checked:
            return ref
        renamed = replace(ref, name=checked)
        if self._reader.branch_refs.find(checked) != renamed:
            self._refuse_taken(checked, actor_id)
        resources = Resources(frozenset({branch_resource(ref)}), frozenset({GC}))
        with self._holding(IntentKind.HOLD, ref, resources, actor_id):
            state = self._state_by_this_name(ref)
            try:
                self._publisher.publish(ref, self._naming(checked, state))
                failpoints.hit("branch.rename_after_mark")
                self._take_name(renamed)
            except BaseException:
                with suppress(OmnigraphError):  # the old name stays valid without this, too
                    self._publisher.publish(ref, self._naming(ref.name, state))
                raise
            failpoints.hit("branch.rename_after_ref")
            self._reader.branch_refs.remove(ref)
            self._store.flush_to_disk()
        return renamed

    def _take_name(self, ref: BranchRef) -> None:
        """Create the ref, unless an interrupted rename has left exactly this one."""
        refs = self._reader.branch_refs
        if refs.find(ref.name) != ref and not refs.create(ref):
            raise AlreadyExists(f"branch {ref.name!r} exists already", branch=ref.name)

    def _state_by_this_name(self, ref: BranchRef) -> BranchState:
        """The head; raises when another process renamed the branch while this one waited."""
        state = self._reader.state(ref)
        if not state.deleted and self._reader.goes_by_another_name(ref, state):
            raise NotFound(f"branch {ref.name!r} was renamed to {state.name!r}", branch=ref.name)
        return state

    def _naming(self, name: str, state: BranchState) -> Publication:
        return Publication(self._clock.new_ulid(), state.version, renames_to=name)

    def delete(self, name: str, actor_id: str | None, only_at: str | None = None) -> None:
        """Mark the head deleted, then remove the name. Branches forked from it live on.

        With `only_at` a branch whose head is another commit is left alone.
        """
        if name == MAIN:
            raise InvalidName("main cannot be deleted", name=name)
        self._delete(self._reader.branch(name)[0], actor_id, only_at)

    def _delete(self, ref: BranchRef, actor_id: str | None, only_at: str | None) -> None:
        resources = Resources(frozenset({branch_resource(ref)}))
        with self._holding(IntentKind.BRANCH_DELETE, ref, resources, actor_id):
            state = self._state_by_this_name(ref)
            marked = Publication(
                self._clock.new_ulid(), state.version, marks_deleted=True, if_commit=only_at
            )
            if not state.deleted:
                self._publisher.publish(ref, marked)
            failpoints.hit("branch.delete_after_mark")
            self._reader.branch_refs.remove(ref)
            failpoints.hit("branch.delete_after_unref")
        self._reader.forget(ref)

    def create_tag(self, name: str, target: CommitName, actor_id: str | None) -> Tag:
        """Give a commit, which has any other name, a permanent one."""
        checked = _new_name(name, "tag")
        with self._holding(IntentKind.HOLD, MAIN_REF, _KEEPS_CLEANUP_AWAY, actor_id):
            place = self._commits.place(target)
            snapshot = self._commits.snapshot_of(place)
            if not place.is_head:
                self._refuse_reclaimed(snapshot)
            commit = self._commits.find(snapshot.graph_commit_id, snapshot.graph_branch)
            tag = Tag(
                name=checked,
                graph_commit_id=snapshot.graph_commit_id,
                graph_branch=snapshot.graph_branch,
                graph_manifest_version=snapshot.graph_manifest_version,
                commit_created_at=commit.created_at,
                schema_id=snapshot.schema_id,
                tables=tuple(snapshot.tables.values()),
                created_at=self._clock.now_micros(),
            )
            if not self._reader.tag_refs.create(tag):
                raise AlreadyExists(f"tag {checked!r} exists already", tag=checked)
        return tag

    def _refuse_reclaimed(self, snapshot: Snapshot) -> None:
        """Raise when cleanup has removed files of the snapshot.

        Opened anew, because a handle that this process keeps may outlive its files.
        """
        for pin in snapshot.tables.values():
            self._store.open_private(pin.at)

    def _refuse_taken(self, name: str, actor_id: str | None) -> None:
        existing = self._reader.branch_refs.find(name)
        if existing is None:
            return
        try:
            self._reader.branch(name)
        except NotFound:
            # A delete or a rename runs now, or was killed before it removed this ref. With the
            # branch taken exclusively no other process is about to remove it.
            resources = Resources(frozenset({branch_resource(existing)}))
            with self._holding(IntentKind.HOLD, existing, resources, actor_id):
                self._reader.branch_refs.remove(existing)
        else:
            raise AlreadyExists(f"branch {name!r} exists already", branch=name)

    @contextmanager
    def _holding(
        self,
        kind: IntentKind,
        ref: BranchRef,
        resources: Resources,
        actor_id: str | None,
    ) -> Iterator[None]:
        posted = self._arming.arm(self._intent(kind, ref, resources, actor_id))
        try:
            yield
        finally:
            self._arming.withdraw(posted)

    def _intent(
        self, kind: IntentKind, ref: BranchRef, resources: Resources, actor_id: str | None
    ) -> Intent:
        return guard_intent(
            kind,
            ref,
            resources,
            intent_id=self._clock.new_ulid(),
            lease_seconds=self._settings.lease_seconds,
            actor_id=actor_id,
        )


def _new_name(name: str, what: str = "branch") -> str:
    if name == MAIN:
        raise InvalidName("every graph has a branch main: choose another name", name=name)
    if name == HEAD:
        raise InvalidName(
            f"{HEAD} means the newest commit of a branch: choose another name", name=name
        )
    return check_ref_name(name, what)
