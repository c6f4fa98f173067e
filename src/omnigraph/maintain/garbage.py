"""Which files of a graph nobody needs any more; found without changing anything."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from omnigraph.errors import NotFound, SnapshotReclaimed
from omnigraph.lance_store.dataset_files import (
    LineageFiles,
    fork_points,
    lineage_folder,
    lineages,
    needed_content,
    tagged_versions,
)
from omnigraph.lance_store.objects.control_files import StoredFile
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.maintain.needed import Needed
from omnigraph.manifest.layout import (
    HISTORY,
    LOCKS,
    MANIFEST,
    RECOVERY_AUDIT,
    SCHEMAS,
    TABLE_FOLDERS,
    dataset_folder,
    reclaimed_marker,
)
from omnigraph.values.clock import ulid_micros

_ORPHAN_TAG = "orphan-"
_UNFINISHED = ".unfinished-put"


@dataclass(frozen=True, slots=True)
class Removal:
    """Files that go together. They are removed in this order: what names files before the files."""

    kind: str
    """`versions`, `orphans`, `branch`, `table`, `tag` or `objects`."""
    place: str
    versions: tuple[int, ...]
    files: tuple[str, ...]
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        found = asdict(self)
        return {**found, "files": len(self.files)}


@dataclass(frozen=True, slots=True)
class Cutoffs:
    """Moments before which things are old enough to go."""

    files: int
    tags: int


def find_garbage(
    store: Store, files: Iterable[StoredFile], needed: Needed, cutoffs: Cutoffs
) -> list[Removal]:
    """Everything below a graph's address that no root reaches and that is old enough."""
    folders: dict[str, list[StoredFile]] = defaultdict(list)
    for file in files:
        folders[dataset_folder(file.path)].append(file)
    versions: dict[str, set[DatasetVersion]] = defaultdict(set)
    for at in needed.versions:
        versions[at.location].add(at)
    found: list[Removal] = []
    for place, inside in folders.items():
        inside = [file for file in inside if file.path != reclaimed_marker(place)]
        if not inside:
            continue
        if place in (HISTORY, SCHEMAS, LOCKS):
            found += _unused_objects(place, inside, needed, cutoffs.files)
        elif place in (MANIFEST, RECOVERY_AUDIT) or place.startswith(TABLE_FOLDERS):
            dataset = _Dataset(store, place, inside, versions[place], place in needed.busy, cutoffs)
            found += dataset.garbage()
    found += _unfinished_puts(folders, cutoffs.files)
    return [removal for removal in found if removal.files]


def _unused_objects(
    place: str, files: Sequence[StoredFile], needed: Needed, cutoff: int
) -> Iterator[Removal]:
    def is_used(path: str) -> bool:
        if place != LOCKS:
            return path in needed.objects
        return path.removeprefix(f"{LOCKS}/").removesuffix(".lock") in needed.incarnations

    unused = [f for f in files if f.modified <= cutoff and not is_used(f.path)]
    yield _removal("objects", place, unused)


def _unfinished_puts(folders: Mapping[str, Sequence[StoredFile]], cutoff: int) -> Iterator[Removal]:
    for place, files in folders.items():
        left = [f for f in files if f.path.endswith(_UNFINISHED) and f.modified <= cutoff]
        if place not in (HISTORY, SCHEMAS, LOCKS):
            yield _removal("objects", place, left)


class _Dataset:
    """One dataset against the versions of it that are needed."""

    def __init__(
        self,
        store: Store,
        location: str,
        files: Sequence[StoredFile],
        needed: set[DatasetVersion],
        busy: bool,
        cutoffs: Cutoffs,
    ) -> None:
        self._store = store
        self._location = location
        self._files = files
        self._lineages = lineages(location, files)
        self._busy = busy
        self._cutoffs = cutoffs
        self._needed: dict[str | None, set[int]] = defaultdict(set)
        for at in needed:
            self._needed[at.branch].add(at.version)
        self._forks: dict[str, tuple[str | None, int]] = {}
        self._tags: dict[str, tuple[str | None, int]] = {}

    def garbage(self) -> Iterator[Removal]:
        if self._is_unused():
            yield _removal("table", self._location, _manifests_first(self._lineages.values()))
            return
        try:
            root = self._store.open_head(self._location, None)
        except NotFound:
            return  # being created, or damaged: nothing here is ours to judge
        self._forks = fork_points(root)
        self._tags = tagged_versions(root)
        yield from self._old_tags()
        retained = self._retained_lineages()
        readable = {branch: self._readable_versions(branch) for branch in retained}
        marked = self._marked(readable)
        for branch, line in self._lineages.items():
            if branch in retained:
                kept = readable[branch] | self._forked_from(branch, retained)
                # HEAD marks a branch deleted, and no number must be given twice.
                kept |= set() if line.head is None else {line.head}
                yield from self._old_versions(line, kept, marked)
            else:
                yield self._dead_branch(line)

    def _is_unused(self) -> bool:
        """No root names the dataset: dropped long ago, or its creation never finished."""
        own = self._location in (MANIFEST, RECOVERY_AUDIT)
        newest = max(file.modified for file in self._files)
        return not (own or self._needed or self._busy) and newest <= self._cutoffs.files

    def _retained_lineages(self) -> set[str | None]:
        """Lineages that are needed or young, and those they were forked from."""
        retained: set[str | None] = {None}
        for branch, line in self._lineages.items():
            if branch in self._needed or line.newest_change > self._cutoffs.files:
                retained.add(branch)
        retained |= {branch for branch, _ in self._tags.values()}
        for branch in list(retained):
            while branch is not None and branch in self._forks:
                branch = self._forks[branch][0]
                retained.add(branch)
        return retained

    def _forked_from(self, branch: str | None, retained: set[str | None]) -> set[int]:
        """Lance expects their manifests; their files stay only as far as a branch reads them."""
        return {v for child, (b, v) in self._forks.items() if b == branch and child in retained}

    def _readable_versions(self, branch: str | None) -> set[int]:
        line = self._lineages.get(branch)
        if line is None or not line.versions:
            return set()
        kept = set(self._needed.get(branch, ()))
        kept |= {v for b, v in self._tags.values() if b == branch}
        ordered = sorted(line.versions)
        is_young = line.newest_change > self._cutoffs.files
        if branch is None or kept or is_young:
            kept.add(ordered[-1])
        # A version may have readers for as long after it was superseded as a read may take.
        kept |= {
            version
            for version, successor in pairwise(ordered)
            if line.versions[successor].modified > self._cutoffs.files
        }
        return kept

    def _marked(self, kept: Mapping[str | None, set[int]]) -> set[str]:
        marked: set[str] = set()
        for branch, versions in kept.items():
            for version in versions:
                at = DatasetVersion(self._location, branch, version)
                # An earlier cleanup kept less, or a writer in flight has not made it yet.
                with suppress(SnapshotReclaimed):
                    marked |= needed_content(self._store, at)
        return marked

    def _old_versions(
        self, line: LineageFiles, kept: set[int], marked: set[str]
    ) -> Iterator[Removal]:
        old = sorted(line.versions.keys() - kept)
        place = lineage_folder(line.location, line.branch)
        yield _removal("versions", place, [line.versions[v] for v in old], tuple(old))
        if self._busy:
            return  # a writer in flight may have staged what looks like nobody's
        orphans = [f for name, group in line.content.items() if name not in marked for f in group]
        # A commit moves its table by one version, a compaction by two.
        orphans += [f for r, f in line.transactions if not {r + 1, r + 2} & kept]
        orphans += line.detached
        yield _removal("orphans", place, [f for f in orphans if f.modified <= self._cutoffs.files])

    def _dead_branch(self, line: LineageFiles) -> Removal:
        name = f"{line.location}/_refs/branches/{line.branch}.json"
        refs = [f for f in self._lineages[None].others if f.path == name]
        place = lineage_folder(line.location, line.branch)
        return _removal("branch", place, [*refs, *_manifests_first([line])])

    def _old_tags(self) -> Iterator[Removal]:
        """Versions that recovery pushed aside stay for a while, not for ever."""
        for name in list(self._tags):
            made_at = ulid_micros(name.removeprefix(_ORPHAN_TAG))
            if made_at is not None and made_at <= self._cutoffs.tags:
                del self._tags[name]
                path = f"{self._location}/_refs/tags/{name}.json"
                refs = [f for f in self._lineages[None].others if f.path == path]
                yield _removal("tag", self._location, refs)


def _manifests_first(lines: Iterable[LineageFiles]) -> list[StoredFile]:
    ordered = list(lines)
    manifests = [file for line in ordered for file in line.versions.values()]
    known = set(manifests)
    return manifests + [file for line in ordered for file in line.files if file not in known]


def _removal(
    kind: str, place: str, files: Sequence[StoredFile], versions: tuple[int, ...] = ()
) -> Removal:
    paths = tuple(file.path for file in files)
    return Removal(kind, place, versions, paths, sum(file.size for file in files))
