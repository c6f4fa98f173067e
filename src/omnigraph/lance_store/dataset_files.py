"""The files of one dataset: which lineage they belong to, and which of them a version needs.

Lance keeps the files of the main line in the folders `data`, `_deletions`, `_indices`,
`_transactions` and `_versions`, and those of a branch in the same folders below `tree/<branch>`. A
branch refers to inherited files by the lineage that holds them.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import NotFound
from omnigraph.lance_store.objects.control_files import StoredFile
from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store, lineage_folder
from omnigraph.values.bounded_cache import BoundedCache

_VERSION = re.compile(r"_versions/(\d{20})\.manifest")
_TRANSACTION = re.compile(r"_transactions/(\d+)-.*\.txn")
_DETACHED = re.compile(r"_versions/d\d+\.manifest")
_OWN = re.compile(r"(?:data|_deletions|_indices)/.+")
_BRANCH = re.compile(r"tree/([^/]+)/(.+)")
# Lance names manifests so that the newest sorts first.
_NEWEST_NAME = 2**64 - 1
_DELETION_SUFFIXES = {"array": "arrow", "bitmap": "bin"}
_MOST_BRANCHES = 16_384


@dataclass(frozen=True, slots=True)
class LineageFiles:
    """The files of the main line (`branch` None) or of one physical branch of a dataset."""

    location: str
    branch: str | None
    versions: Mapping[int, StoredFile]
    content: Mapping[str, tuple[StoredFile, ...]]
    """Files that versions refer to, by the names that `needed_content` gives."""
    transactions: tuple[tuple[int, StoredFile], ...]
    """(the version that a transaction was prepared on, its file)."""
    detached: tuple[StoredFile, ...]
    others: tuple[StoredFile, ...]

    @property
    def head(self) -> int | None:
        return max(self.versions, default=None)

    @property
    def files(self) -> Iterator[StoredFile]:
        yield from self.versions.values()
        for group in self.content.values():
            yield from group
        yield from (file for _, file in self.transactions)
        yield from self.detached
        yield from self.others

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def newest_change(self) -> int:
        return max((file.modified for file in self.files), default=0)


def lineages(location: str, files: Iterable[StoredFile]) -> dict[str | None, LineageFiles]:
    """The listing of one dataset by lineage. The main line is there even without files."""
    parts: dict[str | None, list[tuple[str, StoredFile]]] = defaultdict(list)
    for file in files:
        inside = file.path.removeprefix(f"{location}/")
        match = _BRANCH.fullmatch(inside)
        branch, inside = (match[1], match[2]) if match else (None, inside)
        parts[branch].append((inside, file))
    parts.setdefault(None, [])
    return {branch: _lineage(location, branch, found) for branch, found in parts.items()}


def needed_content(store: Store, at: DatasetVersion) -> frozenset[str]:
    """Names of all content that one version reads, inherited content included."""
    with storage_errors(f"looking at the files of {at}"):
        dataset = store.open_private(at)
        bases = _bases(dataset, at)
        found = set()
        for fragment in dataset.get_fragments():
            body = fragment.metadata.to_json()
            for file in _data_files(body):
                found.add(_content_name(f"{bases[file['base_id']]}/data/{file['path']}"))
            deletion = body["deletion_file"]
            if deletion is not None:
                suffix = _DELETION_SUFFIXES[deletion["file_type"]]
                name = f"{body['id']}-{deletion['read_version']}-{deletion['id']}.{suffix}"
                found.add(f"{bases[deletion['base_id']]}/_deletions/{name}")
        for index in dataset.describe_indices():
            found |= {f"{bases[s.base_id]}/_indices/{s.uuid}" for s in index.segments}
    return frozenset(found)


def fork_points(root: Dataset) -> dict[str, tuple[str | None, int]]:
    """Every branch of a dataset with the lineage and version it was forked from."""
    with storage_errors("listing branches"):
        return {
            name: (found["parent_branch"], int(found["parent_version"]))
            for name, found in root.branches.list().items()
        }


def tagged_versions(root: Dataset) -> dict[str, tuple[str | None, int]]:
    with storage_errors("listing tags"):
        return {
            name: (found["branch"], int(found["version"]))
            for name, found in root.tags.list().items()
        }


def version_of(name: str) -> int | None:
    """The version of a manifest with this name; None for other files of the folder."""
    match = _VERSION.fullmatch(f"_versions/{name}")
    return _NEWEST_NAME - int(match[1]) if match else None


def version_file(at: DatasetVersion) -> str:
    folder = lineage_folder(at.location, at.branch)
    return f"{folder}/_versions/{_NEWEST_NAME - at.version:020}.manifest"


class OldVersions:
    """Removes old versions of a dataset that is only ever overwritten, in a few requests.

    Lance's own cleanup looks at every version and deletes file by file, which takes five requests
    for each version of an object store. Every version of an overwritten dataset has files of its
    own.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # The version that a branch was forked from never changes.
        self._referred: BoundedCache[str, tuple[str | None, int]] = BoundedCache(_MOST_BRANCHES)

    def remove_below(self, location: str, branch: str | None, version: int) -> None:
        """All versions below this one, except those that a branch or a tag refers to."""
        folder = lineage_folder(location, branch)
        spared = self._referred_to(location, branch)
        listed = (version_of(name) for name in self._store.files.list(f"{folder}/_versions"))
        doomed = {v for v in listed if v is not None and v < version and v not in spared}
        if not doomed:
            return
        versions = [DatasetVersion(location, branch, v) for v in sorted(doomed)]
        # A dataset that is only schema metadata has no data files, and no version is opened.
        with_data = bool(self._store.files.list(f"{folder}/data"))
        contents = [file for at in versions for file in self._own_files(at)] if with_data else []
        for name in self._store.files.list(f"{folder}/_transactions"):
            match = _TRANSACTION.fullmatch(f"_transactions/{name}")
            if match and int(match[1]) + 1 in doomed:
                contents.append(f"{folder}/_transactions/{name}")
        # Manifests go first, so that no reader finds a version whose files are gone.
        self._store.files.delete_many([version_file(at) for at in versions])
        self._store.files.delete_many(contents)
        for at in versions:
            self._store.forget(at)

    def _own_files(self, at: DatasetVersion) -> list[str]:
        """Data files in the lineage of the version itself."""
        try:
            dataset = self._store.open(at)
        except NotFound:
            return []  # another process removed it
        folder = lineage_folder(at.location, at.branch)
        with storage_errors(f"looking at the files of {at}"):
            files = [file for fragment in dataset.get_fragments() for file in fragment.data_files()]
        return [f"{folder}/data/{file.path}" for file in files if file.base_id is None]

    def _referred_to(self, location: str, branch: str | None) -> set[int]:
        """Versions of one lineage that a branch was forked from or a tag names."""
        found = set()
        for file in self._store.files.walk(f"{location}/_refs"):
            known = self._referred.get(file.path) or self._read(file.path)
            if known is None:
                continue
            if "/_refs/branches/" in file.path:  # a tag can be moved
                self._referred.put(file.path, known)
            if known[0] == branch:
                found.add(known[1])
        return found

    def _read(self, path: str) -> tuple[str | None, int] | None:
        data = self._store.files.get(path)
        if data is None:
            return None  # deleted since the listing
        body = json.loads(data)
        if "parentVersion" in body:
            return body["parentBranch"], int(body["parentVersion"])
        return body.get("branch"), int(body["version"])


def _lineage(
    location: str, branch: str | None, found: Iterable[tuple[str, StoredFile]]
) -> LineageFiles:
    versions = {}
    content: dict[str, list[StoredFile]] = defaultdict(list)
    transactions, detached, others = [], [], []
    for inside, file in found:
        if match := _VERSION.fullmatch(inside):
            versions[_NEWEST_NAME - int(match[1])] = file
        elif match := _TRANSACTION.fullmatch(inside):
            transactions.append((int(match[1]), file))
        elif _DETACHED.fullmatch(inside):
            detached.append(file)
        elif _OWN.fullmatch(inside):
            content[_content_name(file.path)].append(file)
        else:
            others.append(file)
    return LineageFiles(
        location=location,
        branch=branch,
        versions=versions,
        content={name: tuple(group) for name, group in content.items()},
        transactions=tuple(transactions),
        detached=tuple(detached),
        others=tuple(others),
    )


def _content_name(path: str) -> str:
    """One name for the files that are deleted together: a data file and its blobs, an index."""
    for folder in ("/data/", "/_indices/"):
        before, found, inside = path.rpartition(folder)
        if found:
            return f"{before}{folder}{inside.split('/')[0].removesuffix('.lance')}"
    return path


def _bases(dataset: Dataset, at: DatasetVersion) -> dict[int | None, str]:
    """Folders of lineages, relative to the graph, by the number that this version gives them."""
    own: dict[int | None, str] = {None: lineage_folder(at.location, at.branch)}
    for number, base in dataset.base_paths().items():
        path = str(base.path)
        own[number] = path[path.rindex(at.location) :].rstrip("/")
    return own


def _data_files(body: Any) -> Iterator[dict[str, Any]]:
    """Data files of a fragment, overlays included."""
    if isinstance(body, list):
        for part in body:
            yield from _data_files(part)
    elif isinstance(body, dict):
        if "path" in body and "base_id" in body:
            yield body
        for part in body.values():
            if isinstance(part, dict | list):
                yield from _data_files(part)
