"""Mark and sweep: what a graph still needs (`needed_now`), and the files that it does not.

Branches need their heads, the snapshots that the retention keeps, the common ancestors of any two
of them (merges start there), and their whole commit log. Tags need their snapshot. Writers in
flight need what their intents name. `find_garbage` returns all other files that are old enough;
nothing is changed here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from omnigraph.commit.intents import Intent, IntentKind
from omnigraph.errors import InvalidArgument, NotFound, SnapshotReclaimed, StorageFailure
from omnigraph.lance_store.dataset_files import (
    LineageFiles,
    fork_points,
    lineages,
    needed_content,
    tagged_versions,
)
from omnigraph.lance_store.objects.control_files import StoredFile
from omnigraph.lance_store.store import DatasetVersion, Store, lineage_folder
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.history import CommitPage
from omnigraph.manifest.layout import (
    HISTORY,
    LOCKS,
    MANIFEST,
    RECOVERY_AUDIT,
    SCHEMAS,
    TABLE_FOLDERS,
    change_list_object,
    dataset_folder,
    history_object,
    reclaimed_marker,
    schema_object,
)
from omnigraph.manifest.lineage import Lineage, meeting_points
from omnigraph.manifest.publication import undo_commits
from omnigraph.manifest.reader import ManifestReader, manifest_version
from omnigraph.manifest.records import BranchRef, TablePin
from omnigraph.settings.models import MaintenanceSettings
from omnigraph.values.clock import ulid_micros
from omnigraph.values.temporal import duration_micros

_ORPHAN_TAG = "orphan-"
_UNFINISHED = ".unfinished-put"


@dataclass(frozen=True, slots=True)
class Retention:
    """Which snapshots stay readable on every branch; a commit stays when either rule keeps it."""

    keep: int | None
    """This many newest commits; None keeps all, unless `older_than_micros` is given."""
    older_than_micros: int | None
    """Commits that were the head less long ago than this."""

    @classmethod
    def of(cls, keep: object, older_than: object) -> Retention:
        """From the arguments of a caller; `older_than` is a timedelta or a text like `7d`."""
        if keep is not None and (type(keep) is not int or keep < 1):
            raise InvalidArgument(f"keep is a number of commits from 1 on, got {keep!r}")
        return cls(keep, None if older_than is None else duration_micros(older_than))

    @classmethod
    def of_rules(cls, rules: Mapping[str, float]) -> Retention:
        """From the rules of a cluster: `keep`, `older_than_seconds`."""
        keep, seconds = rules.get("keep"), rules.get("older_than_seconds")
        return cls(
            None if keep is None else int(keep),
            None if seconds is None else int(seconds * 1_000_000),
        )

    @classmethod
    def of_settings(cls, settings: MaintenanceSettings) -> Retention:
        """What the settings keep; without a rule all commits."""
        seconds = settings.keep_seconds
        return cls(settings.keep_commits, None if seconds is None else int(seconds * 1_000_000))

    @property
    def keeps_all(self) -> bool:
        return self.keep is None and self.older_than_micros is None

    def cuts(self, other: Retention) -> bool:
        """Whether some commit that `other` keeps would go."""
        if self.keeps_all or other.keeps_all:
            return not self.keeps_all
        fewer = (self.keep or 0) < (other.keep or 0)
        return fewer or (self.older_than_micros or 0) < (other.older_than_micros or 0)

    def keeps(self, position: int, superseded_at: int | None, now: int) -> bool:
        """`position` counts from 0, the head; `superseded_at` is the time of the next commit."""
        if superseded_at is None or self.keeps_all:
            return True
        if self.keep is not None and position < self.keep:
            return True
        return self.older_than_micros is not None and superseded_at > now - self.older_than_micros


def chosen_retention(
    asked: Retention, declared: Retention | None, settings: MaintenanceSettings
) -> Retention:
    """What a cleanup keeps: what its caller asks for, else what is declared, else the settings.

    `declared` is the rule of a cluster for this graph. Less than that is refused.
    """
    if asked.keeps_all:
        return Retention.of_settings(settings) if declared is None else declared
    if declared is not None and asked.cuts(declared):
        raise InvalidArgument(
            "the cluster of this graph declares what stays readable, and this cleanup would keep "
            "less: leave out `keep` and `older_than`, or change `retention` in cluster.yaml",
            option="keep",
        )
    return asked


@dataclass(frozen=True, slots=True)
class Cutoffs:
    """Times in microseconds: files and tags that are older may be removed."""

    files: int
    tags: int


@dataclass(frozen=True, slots=True)
class Removal:
    """Files that are removed together, in this order: files that name other files come first."""

    kind: str
    """`versions`, `orphans`, `branch`, `table`, `tag` or `objects`."""
    place: str
    versions: tuple[int, ...]
    files: tuple[str, ...]
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        found = asdict(self)
        return {**found, "files": len(self.files)}


@dataclass(slots=True)
class Needed:
    """The gathered roots; `busy` are datasets for which a writer may have staged files.

    `growing` are the tables of groups in flight, with the version before the group: the commits
    of the group will name versions above it.
    """

    versions: set[DatasetVersion] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)
    incarnations: set[str] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)
    growing: set[DatasetVersion] = field(default_factory=set)

    def add_pins(self, pins: Iterable[TablePin]) -> None:
        self.versions.update(pin.at for pin in pins)


def needed_now(
    reader: ManifestReader,
    retention: Retention,
    intents: Iterable[Intent],
    deleted_lately: Iterable[str],
    now: int,
) -> Needed:
    """`deleted_lately` are incarnations of deleted branches that readers may still use."""
    needed = Needed()
    heads = reader.live_branches()
    states = [state for _, state in heads]
    wanted = _kept_commits(reader, states, retention, now)
    # Any two live branches can be merged, even if the retention keeps few snapshots.
    wanted |= meeting_points(Lineage(reader, states), {state.head_commit_id for state in states})
    log = _CommitLog(needed, reader, wanted)
    for ref, state in heads:
        _add_head(needed, ref, state)
        log.add(state)
    for incarnation in deleted_lately:
        ref = BranchRef(incarnation, incarnation, None, 0)
        try:
            state = reader.state(ref)
        except (NotFound, StorageFailure):
            continue  # its creation never finished, so it has no readers
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


class _CommitLog:
    """Keeps the whole commit log, which is small, and the snapshots of the wanted commits.

    A commit is in the logs of all branches that were forked after it and in the pages that merges
    brought in. Its snapshot may name other table versions in each of them, because tables may have
    been compacted in between. Readers use any of these logs, so the snapshot is kept in all.
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
        while pages:  # a loop and no recursion: merges of merges can be thousands deep
            pages += self._merged_into(pages.pop())

    def _merged_into(self, page: CommitPage) -> list[CommitPage]:
        """Keep what a page names; returns the pages that its merges brought in."""
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
    """The pins of each wanted commit of a page; stops at the oldest wanted one."""
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
    """A commit that one branch keeps is kept on all, because readers ask by commit id alone."""
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
    if intent.kind is IntentKind.GROUP:
        needed.growing |= {move.expected.at for move in publication.moves}
    if publication.schema_id is not None:
        needed.objects.add(schema_object(publication.schema_id))
    if publication.commit is not None and publication.commit.merged_history is not None:
        needed.objects.add(history_object(publication.commit.merged_history))
    draft = publication.commit
    for changes in (*draft.changes, *(draft.differs_from_merged or ())) if draft else ():
        if changes.file is not None:
            needed.objects.add(change_list_object(changes.file))


def find_garbage(
    store: Store, files: Iterable[StoredFile], needed: Needed, cutoffs: Cutoffs
) -> list[Removal]:
    """Every file of the graph that no root reaches and that is old enough."""
    folders: dict[str, list[StoredFile]] = defaultdict(list)
    for file in files:
        folders[dataset_folder(file.path)].append(file)
    versions: dict[str, set[DatasetVersion]] = defaultdict(set)
    for at in needed.versions:
        versions[at.location].add(at)
    growing: dict[str, set[DatasetVersion]] = defaultdict(set)
    for at in needed.growing:
        growing[at.location].add(at)
    found: list[Removal] = []
    for place, inside in folders.items():
        inside = [file for file in inside if file.path != reclaimed_marker(place)]
        if not inside:
            continue
        if place in (HISTORY, SCHEMAS, LOCKS):
            found += _unused_objects(place, inside, needed, cutoffs.files)
        elif place in (MANIFEST, RECOVERY_AUDIT) or place.startswith(TABLE_FOLDERS):
            dataset = _DatasetGarbage(
                store,
                place,
                inside,
                versions[place],
                growing[place],
                busy=place in needed.busy,
                cutoffs=cutoffs,
            )
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


class _DatasetGarbage:
    """Finds the garbage of one dataset, given the versions that are needed."""

    def __init__(
        self,
        store: Store,
        location: str,
        files: Sequence[StoredFile],
        needed: set[DatasetVersion],
        growing: set[DatasetVersion],
        *,
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
        self._growing: dict[str | None, int] = {}
        for at in growing:
            known = self._growing.get(at.branch, at.version)
            self._growing[at.branch] = min(known, at.version)
        self._forks: dict[str, tuple[str | None, int]] = {}
        self._tags: dict[str, tuple[str | None, int]] = {}

    def garbage(self) -> Iterator[Removal]:
        if self._is_unused():
            yield _removal("table", self._location, _manifests_first(self._lineages.values()))
            return
        try:
            root = self._store.open_head(self._location, None)
        except NotFound:
            return  # being created, or damaged: cleanup leaves it alone
        self._forks = fork_points(root)
        self._tags = tagged_versions(root)
        yield from self._old_tags()
        retained = self._retained_lineages()
        readable = {branch: self._readable_versions(branch) for branch in retained}
        marked = self._marked(readable)
        for branch, line in self._lineages.items():
            if branch in retained:
                kept = readable[branch] | self._forked_from(branch, retained)
                # HEAD stays: it marks a deleted branch, and a version number is never used twice.
                kept |= set() if line.head is None else {line.head}
                yield from self._old_versions(line, kept, marked)
            else:
                yield self._dead_branch(line)

    def _is_unused(self) -> bool:
        """No root names the dataset: it was dropped long ago, or its creation never finished."""
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
        """Versions that branches were forked from: Lance needs their manifests, not their files."""
        return {v for child, (b, v) in self._forks.items() if b == branch and child in retained}

    def _readable_versions(self, branch: str | None) -> set[int]:
        line = self._lineages.get(branch)
        if line is None or not line.versions:
            return set()
        kept = set(self._needed.get(branch, ()))
        kept |= {v for b, v in self._tags.values() if b == branch}
        if branch in self._growing:
            kept |= {v for v in line.versions if v > self._growing[branch]}
        ordered = sorted(line.versions)
        is_young = line.newest_change > self._cutoffs.files
        if branch is None or kept or is_young:
            kept.add(ordered[-1])
        # A version may still have readers for a while after the next one replaced it.
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
                # An earlier cleanup removed it, or a writer in flight has not written it yet.
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
            return  # files without a reference may belong to a writer in flight
        orphans = [f for name, group in line.content.items() if name not in marked for f in group]
        # A commit advances its table by one version, a compaction by two.
        orphans += [f for r, f in line.transactions if not {r + 1, r + 2} & kept]
        orphans += line.detached
        yield _removal("orphans", place, [f for f in orphans if f.modified <= self._cutoffs.files])

    def _dead_branch(self, line: LineageFiles) -> Removal:
        name = f"{line.location}/_refs/branches/{line.branch}.json"
        refs = [f for f in self._lineages[None].others if f.path == name]
        place = lineage_folder(line.location, line.branch)
        return _removal("branch", place, [*refs, *_manifests_first([line])])

    def _old_tags(self) -> Iterator[Removal]:
        """Tags of versions that recovery pushed aside; they are kept for a limited time."""
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
