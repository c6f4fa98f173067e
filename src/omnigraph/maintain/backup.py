"""Back up a whole graph with branches and history while writers go on, and restore it.

A backup reads the heads of all branches first. Then it copies the files that they reach, and of
every dataset only the versions up to these heads. A hold on `gc` keeps cleanup from running in
between. Later commits and writers in flight are not in the copy.
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
from omnigraph.lance_store.objects.control_files import StoredFile
from omnigraph.lance_store.objects.relocation import copy_files
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
"""(dataset, lineage) -> the newest version that belongs to the copy."""


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
            # Tags are listed first, then branches, then files, because tags name commits of
            # branches and branches name files: what a listed name needs is in a later list.
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
    """Copy a backup to an empty place: the old address of the graph, or any other."""
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
    # Branches name shared files by full address, so the copy gets the new address.
    copied = copy_files(source.location, target.location, [*first, *last], relocating=True)
    target.flush_to_disk()
    return BackupReport(
        source.location.uri, target.location.uri, tuple(label["branches"]), len(files), copied
    )


def _refuse_occupied(target: Store) -> None:
    if target.files.walk(""):
        raise AlreadyExists(
            f"{target.location.uri} is not empty: name an empty place", uri=target.location.uri
        )


def _refuse_nested(graph: str, target: str) -> None:
    for outer, inner in ((graph, target), (target, graph)):
        if f"{inner}/".startswith(f"{outer}/"):
            raise InvalidArgument(
                f"{target} and the graph lie inside each other: name a place beside the graph",
                uri=target,
            )


def _belongs(path: str) -> bool:
    """All but refs, which are chosen by name, and files that only running processes need."""
    kept = (MANIFEST, HISTORY, SCHEMAS, RECOVERY_AUDIT)
    return path.split("/")[0] in kept or path.startswith(TABLE_FOLDERS)


def _manifest_files(store: Store, files: Iterable[StoredFile], heads: Heads) -> list[str]:
    """Only the head version of every branch; copied first, because writers remove old versions."""
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
    """The files of a lineage up to version `newest`; None is all of them.

    Versions above `newest` were published or staged after the backup began.
    """
    paths = [f.path for version, f in line.versions.items() if newest is None or version <= newest]
    paths += [f.path for group in line.content.values() for f in group]
    paths += [file.path for _, file in line.transactions]
    # Lance's hint is left out, because it may name a version that is not in the copy.
    paths += [f.path for f in line.others if not f.path.endswith("latest_version_hint.json")]
    # A file whose name begins with a dot is still being written; it is renamed when complete.
    return [path for path in paths if "/." not in path]
