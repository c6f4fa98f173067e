"""Read the current state of a branch by its name. Reading never writes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import NoReturn, TypeVar

from omnigraph.catalog.model import Catalog
from omnigraph.errors import FormatUnknown, NotFound, SnapshotReclaimed, StorageFailure
from omnigraph.lance_store.reads.scan import read_table
from omnigraph.lance_store.store import (
    Dataset,
    DatasetVersion,
    FolderMark,
    Store,
    VersionFolder,
    head_version,
)
from omnigraph.manifest.branch_state import BranchState, check_readable, read_stamp, read_state
from omnigraph.manifest.history import HistoryReader
from omnigraph.manifest.layout import MANIFEST
from omnigraph.manifest.records import BranchRef, Commit
from omnigraph.manifest.refs import BranchRefs, TagRefs
from omnigraph.manifest.schemas import SchemaStore
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.bounded_cache import BoundedCache
from omnigraph.values.identifiers import check_ref_name
from omnigraph.values.known_names import did_you_mean

# A manifest version of format 3 may be removed between open and read; the next attempt opens a
# newer one.
_READ_ATTEMPTS = 10
# The number of pages of history, of some dozens of commits each, that `recent_commit` searches.
_RECENT_PAGES = 32
_RECENT_BRANCHES = 8
_BRANCHES = 512

_T = TypeVar("_T")


def manifest_version(ref: BranchRef, version: int) -> DatasetVersion:
    return DatasetVersion(MANIFEST, ref.physical_branch, version)


@dataclass(frozen=True, slots=True)
class _Marked:
    """A head, with the mark of its folder from before it was read."""

    folder: VersionFolder
    mark: FolderMark
    state: BranchState


class ManifestReader:
    """The states of all branches. A state is read again only when its manifest has moved."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.branch_refs = BranchRefs(store.files)
        self.tag_refs = TagRefs(store.files)
        self.schemas = SchemaStore(store.files)
        self.history = HistoryReader(store.files)
        self._lock = threading.Lock()
        # By incarnation. Bounded, because a process may see any number of branches come and go.
        self._states: BoundedCache[str, tuple[Dataset, BranchState]] = BoundedCache(_BRANCHES)
        self._folders: BoundedCache[str, VersionFolder] = BoundedCache(_BRANCHES)
        self._marks: BoundedCache[str, _Marked] = BoundedCache(_BRANCHES)
        self._refs: BoundedCache[str, BranchRef] = BoundedCache(_BRANCHES)
        self._snapshots: BoundedCache[str, tuple[BranchState, Snapshot]] = BoundedCache(_BRANCHES)
        self._stamp: int | None = None

    @property
    def format_version(self) -> int:
        """The format stamp in the manifest that was read last."""
        if self._stamp is None:
            self._stamp = read_stamp(self.store.open_head(MANIFEST, None).schema)
        return self._stamp

    def branch(self, name: str) -> tuple[BranchRef, BranchState]:
        """An existing branch and its current head."""
        checked = check_ref_name(name)
        ref = self._refs.get(checked)
        if ref is not None:
            try:
                state = self.state(ref)
            except NotFound:
                self.forget(ref)  # deleted and cleaned up; a new branch may have the name
            else:
                if not state.deleted and state.name in (None, checked):
                    return ref, state
                if state.deleted:
                    self.forget(ref)
        ref = self.branch_refs.find(checked)
        if ref is None:
            self._refs.pop(checked)
            self._refuse_unknown(checked)
        state = self.state(ref)
        if state.deleted or self.goes_by_another_name(ref, state):
            self._refs.pop(checked)
            self._refuse_unknown(checked)
        self._refs.put(checked, ref)
        return ref, state

    def forget(self, ref: BranchRef) -> None:
        """Drop what is cached of a deleted branch."""
        if self._refs.get(ref.name) == ref:
            self._refs.pop(ref.name)
        self._states.pop(ref.incarnation)
        self._marks.pop(ref.incarnation)
        self._folders.pop(ref.incarnation)
        self._snapshots.pop(ref.incarnation)

    def release(self) -> None:
        """Let go of all cached states and their handles."""
        for cache in (self._states, self._folders, self._marks, self._refs, self._snapshots):
            cache.clear()
        self.store.release()

    def goes_by_another_name(self, ref: BranchRef, state: BranchState) -> bool:
        """Whether the branch was renamed, and `ref` is its old ref.

        The name in a head is valid only when a ref of that name leads to the branch. It has no such
        ref when it was copied from the source branch at a fork, or when a rename was interrupted.
        """
        if state.name in (None, ref.name):
            return False
        named = self.branch_refs.find(state.name)
        return named is not None and named.incarnation == ref.incarnation

    def live_branches(self) -> list[tuple[BranchRef, BranchState]]:
        """Every branch with its head, without branches that are deleted during the call."""
        found = []
        for name in self.branch_refs.names():
            ref = self.branch_refs.find(name)
            state = self.state(ref) if ref is not None else None
            if ref is not None and state is not None and not state.deleted:
                found.append((ref, state))
        return found

    def ref(self, name: str) -> BranchRef:
        """The ref of a branch. When it is cached, the head is not read."""
        return self._refs.get(check_ref_name(name)) or self.branch(name)[0]

    def last_known(self, ref: BranchRef) -> BranchState | None:
        """The newest state that this process has seen. It may be outdated.

        Good for a writer, because a swap on an outdated state fails.
        """
        cached = self._states.get(ref.incarnation)
        return cached[1] if cached is not None else None

    def by_known_schema(
        self, branch: str, make: Callable[[Catalog], _T], misfits: tuple[type[Exception], ...]
    ) -> tuple[Catalog, _T]:
        """Call `make` with the schema that this process saw last; the schema, and the result.

        When that raises one of `misfits`, call it with the current schema. Writers use this to save
        a read of the head: the transaction compares the schema anyway.
        """
        known = self.last_known(self.ref(branch))
        if known is not None:
            catalog = self.schemas.read(known.schema_id).catalog
            try:
                return catalog, make(catalog)
            except misfits:
                pass
        catalog = self.snapshot(*self.branch(branch)).catalog
        return catalog, make(catalog)

    def recent_commit(self, commit_id: str, incarnation: str) -> Commit | None:
        """A commit of a branch that this process has seen, if it is in the newest pages.

        It is searched on the branch of this incarnation, then on the branches used last.
        """
        first = self._states.get(incarnation)
        others = self._states.newest(_RECENT_BRANCHES)
        for _, state in others if first is None else (first, *others):
            pages = islice(self.history.pages(state.history), _RECENT_PAGES)
            for commits in chain((state.commits,), (page.commits for page in pages)):
                for stored in reversed(commits):
                    if stored.commit_id == commit_id:
                        return stored.commit
                if commits and commits[0].commit_id < commit_id:
                    break  # ids ascend with time, so this branch does not have it
        return None

    def state(self, ref: BranchRef) -> BranchState:
        """The current head of one incarnation, also of a deleted one."""
        marked = self._marks.get(ref.incarnation)
        if marked is not None and marked.folder.is_still(marked.mark):
            return marked.state
        folder = self._folder(ref)
        mark = folder.mark() if folder is not None else None
        state = self._current(ref)
        if folder is not None and mark is not None:
            self._marks.put(ref.incarnation, _Marked(folder, mark, state))
        return state

    def _current(self, ref: BranchRef) -> BranchState:
        cached = self._states.get(ref.incarnation)
        if cached is not None and head_version(cached[0]) == cached[1].version:
            return cached[1]
        handle, state = self._read(ref)
        self._keep(ref, handle, state)
        return state

    def newest_version(self, ref: BranchRef) -> int:
        """The newest version of the manifest, which may be newer than any state that was read."""
        cached = self._states.get(ref.incarnation)
        handle = (
            self.store.open_head(MANIFEST, ref.physical_branch) if cached is None else cached[0]
        )
        return head_version(handle)

    def _folder(self, ref: BranchRef) -> VersionFolder | None:
        """None on an object store, which has no folders."""
        folder = self._folders.get(ref.incarnation)
        root = self.store.location.path
        if folder is None and root is not None:
            folder = VersionFolder(root, MANIFEST, ref.physical_branch)
            self._folders.put(ref.incarnation, folder)
        return folder

    def remember(self, ref: BranchRef, state: BranchState) -> None:
        """Cache a state that this process has published."""
        cached = self._states.get(ref.incarnation)
        if cached is not None:
            self._keep(ref, cached[0], state)

    def _keep(self, ref: BranchRef, handle: Dataset, state: BranchState) -> None:
        """Cache a state with a handle of any version, which tells the number of the newest one."""
        with self._lock:
            cached = self._states.get(ref.incarnation)
            if cached is None or cached[1].version < state.version:
                self._states.put(ref.incarnation, (handle, state))

    def graph_id(self, state: BranchState) -> str:
        """The first commit: every branch has it, no other graph does."""
        return self.history.oldest(state.history) or state.commits[0].commit_id

    def snapshot(self, ref: BranchRef, state: BranchState) -> Snapshot:
        """The snapshot of a state. The same state gives the same object."""
        latest = self._snapshots.get(ref.incarnation)
        if latest is not None and latest[0] is state and latest[1].graph_branch == ref.name:
            return latest[1]
        found = Snapshot(
            graph_branch=ref.name,
            graph_commit_id=state.head_commit_id,
            graph_manifest_version=state.version,
            schema_id=state.schema_id,
            catalog=self.schemas.read(state.schema_id).catalog,
            tables=state.tables,
            internal_schema_version=self.format_version,
        )
        self._snapshots.put(ref.incarnation, (state, found))
        return found

    def _read(self, ref: BranchRef) -> tuple[Dataset, BranchState]:
        for attempt in range(1, _READ_ATTEMPTS + 1):
            handle = self.store.open_head(MANIFEST, ref.physical_branch)
            schema = handle.schema
            self._stamp = read_stamp(schema)
            check_readable(self._stamp)
            try:
                return handle, read_state(int(handle.version), schema, partial(read_table, handle))
            except (StorageFailure, SnapshotReclaimed):
                if attempt == _READ_ATTEMPTS:
                    raise
            except (KeyError, TypeError, ValueError) as error:
                raise FormatUnknown(f"the manifest cannot be read: {error!r}") from error
        raise AssertionError("unreachable")

    def _refuse_unknown(self, name: str) -> NoReturn:
        others = (other for other in self.branch_refs.names() if other != name)
        hint = did_you_mean(name, others)
        raise NotFound(f"no branch {name!r}" + (f"; {hint}" if hint else ""), branch=name)
