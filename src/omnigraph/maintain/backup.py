"""Copy a whole graph, branches and history included, while writers go on; and put it back.

The heads of all branches are read first; then every file they reach is copied, and of every dataset
only the versions up to what those heads show. A hold on `gc` keeps cleanup away meanwhile. What is
written later is not in the copy, and no writer in flight is: the copy is a graph at rest.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from omnigraph.commit.arming import IntentHold, hold_intent
from omnigraph.commit.intents import IntentBoard
from omnigraph.errors import AlreadyExists, InvalidArgument, NotFound
from omnigraph.lance_store.dataset_files import LineageFiles, lineages, needed_content
from omnigraph.lance_store.objects.base_paths import branch_manifest, copy_files, relocated
from omnigraph.lance_store.objects.control_files import StoredFile
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.manifest.layout import (
    HISTORY,
    MANIFEST,
    RECOVERY_AUDIT,
    SCHEMAS,
    TABLE_FOLDERS,
    TAG_REFS,
    branch_ref,
    dataset_folder,
)
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import MAIN_REF
from omnigraph.settings.models import WriteSettings
from omnigraph.values.clock import Clock

LABEL = "_backup.json"
_FORMAT = 1

Heads = dict[tuple[str, str | None], int]
"""Dataset and lineage -> the newest version that belongs to the copy."""


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What was copied where."""

    source: str
    target: str
    branches: tuple[str, ...]
    files: int
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Backup:
    """Copies one graph."""

    reader: ManifestReader
    board: IntentBoard
    settings: WriteSettings
    clock: Clock

    def run(self, target: Store, actor_id: str | None) -> BackupReport:
        store = self.reader.store
        _refuse_nested(store.location.uri, target.location.uri)
        _refuse_occupied(target)
        intent = hold_intent(MAIN_REF, actor_id, self.clock.new_ulid(), self.settings)
        with IntentHold(self.board, intent) as hold:
            # Tags before branches before files: each may only name what comes after it.
            tags = [f.path for f in store.files.walk(TAG_REFS)]
            heads, names = self._heads()
            refs = [branch_ref(name) for name in names if name != MAIN_REF.name]
            files = [f for f in store.files.walk("") if _belongs(f.path)]
            manifests = _manifest_files(store, files, heads)
            chosen = [*manifests, *refs, *tags, *_chosen(files, heads)]
            copied = copy_files(store.location, target.location, chosen)
            hold.check()
        label = {"format": _FORMAT, "source": store.location.uri, "branches": names}
        target.files.put(LABEL, json.dumps(label).encode())
        target.flush_to_disk()
        return BackupReport(
            store.location.uri, target.location.uri, tuple(names), len(chosen), copied
        )

    def _heads(self) -> tuple[Heads, list[str]]:
        heads: Heads = {}
        names = []
        for ref, state in self.reader.live_branches():
            names.append(ref.name)
            heads[MANIFEST, ref.physical_branch] = state.version
            for pin in state.tables.values():
                if pin.owner == ref.incarnation:
                    heads[pin.location, pin.branch] = pin.version
        return heads, names


def restore(source: Store, target: Store) -> BackupReport:
    """Put a backup back, at its old address or at any other."""
    data = source.files.get(LABEL)
    if data is None:
        raise NotFound(
            f"there is no finished backup at {source.location.uri}", uri=source.location.uri
        )
    label = json.loads(data)
    _refuse_occupied(target)
    files = [f.path for f in source.files.walk("") if f.path != LABEL]
    last = [path for path in files if path.startswith(f"{MANIFEST}/")]
    first = [path for path in files if not path.startswith(f"{MANIFEST}/")]
    # Branches name the files they share by full address: here they get the new one.
    change = (
        lambda path: branch_manifest(path) is not None,
        lambda data, path: relocated(data, target.location, path),
    )
    copied = copy_files(source.location, target.location, [*first, *last], change)
    target.flush_to_disk()
    return BackupReport(
        source.location.uri, target.location.uri, tuple(label["branches"]), len(files), copied
    )


def _refuse_occupied(target: Store) -> None:
    if target.files.walk(""):
        raise AlreadyExists(
            f"{target.location.uri} is not empty: name a new place", uri=target.location.uri
        )


def _refuse_nested(graph: str, target: str) -> None:
    for outer, inner in ((graph, target), (target, graph)):
        if f"{inner}/".startswith(f"{outer}/"):
            raise InvalidArgument(
                f"{target} and the graph lie in each other: name a place beside it", uri=target
            )


def _belongs(path: str) -> bool:
    """Everything but refs, which are chosen by name, and what only running processes need."""
    kept = (MANIFEST, HISTORY, SCHEMAS, RECOVERY_AUDIT)
    return path.split("/")[0] in kept or path.startswith(TABLE_FOLDERS)


def _manifest_files(store: Store, files: Iterable[StoredFile], heads: Heads) -> list[str]:
    """The head version of every branch alone, and first: writers trim old ones as they go."""
    lines = lineages(MANIFEST, [f for f in files if dataset_folder(f.path) == MANIFEST])
    needed: set[str] = set()
    chosen = [f.path for f in lines[None].others if "/_refs/" in f.path]
    for branch, line in lines.items():
        newest = heads.get((MANIFEST, branch))
        if newest is not None:
            needed |= needed_content(store, DatasetVersion(MANIFEST, branch, newest))
            chosen.append(line.versions[newest].path)
    return chosen + [
        file.path
        for line in lines.values()
        for name, group in line.content.items()
        if name in needed
        for file in group
    ]


def _chosen(files: Iterable[StoredFile], heads: Heads) -> list[str]:
    folders: dict[str, list[StoredFile]] = defaultdict(list)
    for file in files:
        folders[dataset_folder(file.path)].append(file)
    chosen = []
    for place, inside in folders.items():
        if place == MANIFEST:
            continue
        if place in (HISTORY, SCHEMAS):
            chosen += [file.path for file in inside]
            continue
        for branch, line in lineages(place, inside).items():
            chosen += _of_lineage(line, heads.get((place, branch)))
    return chosen


def _of_lineage(line: LineageFiles, newest: int | None) -> list[str]:
    """All of it, or as far as `newest`: what lies above was published, or staged, later."""
    paths = [f.path for version, f in line.versions.items() if newest is None or version <= newest]
    # A name with a dot first is a file still being written: it gets its own when it is whole.
    paths += [f.path for group in line.content.values() for f in group if "/." not in f.path]
    paths += [file.path for _, file in line.transactions]
    # Lance's hint may name a version that is not in the copy; it is only a hint.
    paths += [f.path for f in line.others if not f.path.endswith("latest_version_hint.json")]
    return paths
