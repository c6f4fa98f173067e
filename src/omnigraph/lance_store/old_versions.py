"""Remove old versions of a dataset that is only ever overwritten, in a handful of requests.

Lance's own cleanup looks at every version and deletes file by file: on an object store that is five
requests per version. Every version of an overwritten dataset has files of its own, and whoever made
it still holds the handle that names them.
"""

from __future__ import annotations

import json
import re

from omnigraph.errors import NotFound
from omnigraph.lance_store.dataset_files import lineage_folder, version_file, version_of
from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.store import DatasetVersion, Store

_PREPARED_ON = re.compile(r"(\d+)-.*\.txn")


class OldVersions:
    """Removes them; remembers which versions branches were forked from: that never changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._referred: dict[str, tuple[str | None, int]] = {}

    def remove_below(self, location: str, branch: str | None, version: int) -> None:
        """All versions below this one, except those that a branch or a tag is on."""
        folder = lineage_folder(location, branch)
        spared = self._referred_to(location, branch)
        listed = (version_of(name) for name in self._store.files.list(f"{folder}/_versions"))
        doomed = {v for v in listed if v is not None and v < version and v not in spared}
        if not doomed:
            return
        versions = [DatasetVersion(location, branch, v) for v in sorted(doomed)]
        contents = [file for at in versions for file in self._own_files(at)]
        for name in self._store.files.list(f"{folder}/_transactions"):
            match = _PREPARED_ON.fullmatch(name)
            if match and int(match[1]) + 1 in doomed:
                contents.append(f"{folder}/_transactions/{name}")
        # What makes a version findable goes before what it needs.
        self._store.files.delete_many([version_file(at) for at in versions])
        self._store.files.delete_many(contents)
        for at in versions:
            self._store.forget(at)

    def _own_files(self, at: DatasetVersion) -> list[str]:
        """Data files that lie in the version's own lineage."""
        try:
            dataset = self._store.open(at)
        except NotFound:
            return []  # somebody else was faster
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
            if "/_refs/branches/" in file.path:  # tags may be put on another version
                self._referred[file.path] = known
            if known[0] == branch:
                found.add(known[1])
        return found

    def _read(self, path: str) -> tuple[str | None, int] | None:
        data = self._store.files.get(path)
        if data is None:
            return None  # deleted while we looked
        body = json.loads(data)
        if "parentVersion" in body:
            return body["parentBranch"], int(body["parentVersion"])
        return body.get("branch"), int(body["version"])
