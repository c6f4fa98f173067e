"""Graphs that were copied or moved: their branches name shared files by full address.

Field 18 of the message in a manifest, `base_paths`, lists the lineages whose files this version
uses, each with its address in field 4. All other paths are relative, so a moved dataset is readable
again as soon as these addresses are rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import obstore
from obstore.store import LocalStore, S3Store

from omnigraph.errors import GraphMoved, StorageFailure
from omnigraph.lance_store.objects.control_files import object_store
from omnigraph.lance_store.objects.manifest_files import read_manifest
from omnigraph.lance_store.objects.protobuf import fields, length_delimited
from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.objects.storage_location import StorageLocation
from omnigraph.progress import tell

_PIECE_BYTES = 8 * 1024 * 1024
_BASE_PATHS = 18
_PATH = 4
_BRANCH_MANIFEST = re.compile(r"(.+)/tree/[^/]+/_versions/\d{20}\.manifest")


def check_base(location: StorageLocation, dataset: str, address: str) -> None:
    """Refuse a lineage outside of this graph: its files are gone, or belong to another graph."""
    wanted = _address_here(location, dataset, address)
    if address == wanted or _is_same_folder(address, wanted):
        return
    old = address[: _inside(address, dataset)]
    raise GraphMoved(
        f"this graph was moved here from {old}, and its branches still name shared files by that "
        f"address: `omnigraph repair {location.uri} --confirm` corrects them",
        uri=location.uri,
        moved_from=old,
    )


def lineages_elsewhere(location: StorageLocation, paths: Iterable[str]) -> dict[str, str]:
    """Folders of manifests whose newest one names another graph -> the address of that graph.

    `relocate` rewrites the newest manifest last, so when it is right, the others are right too.
    """
    store = open_any(location)
    found = {}
    for folder, newest in _newest(paths).items():
        try:
            with storage_errors(f"reading {newest}"):
                data = bytes(obstore.get(store, newest).bytes())
            for address in _addresses(data, newest):
                check_base(location, branch_manifest(newest) or "", address)
        except GraphMoved as moved:
            found[folder] = str(moved.moved_from)
    return found


def relocate(location: StorageLocation, paths: Iterable[str]) -> int:
    """Rewrite manifests in place, the newest last, and return how many. It can be repeated."""
    store = open_any(location)
    wanted = sorted((path for path in paths if branch_manifest(path)), reverse=True)
    for path in wanted:
        with storage_errors(f"rewriting {path}"):
            data = bytes(obstore.get(store, path).bytes())
            obstore.put(store, path, relocated(data, location, path))
    return len(wanted)


def copy_files(
    source: StorageLocation,
    target: StorageLocation,
    paths: Sequence[str],
    *,
    relocating: bool = False,
) -> int:
    """Copy objects in this order and return how many bytes; a missing file is an error.

    With `relocating` the manifests of branches get the addresses of `target`.
    """
    origin, destination = open_any(source), open_any(target)
    copied = 0
    for number, path in enumerate(paths):
        tell("copying", number, len(paths), "files")
        with storage_errors(f"copying {path}"):
            if relocating and branch_manifest(path) is not None:
                data = relocated(bytes(obstore.get(origin, path).bytes()), target, path)
                obstore.put(destination, path, data)
                copied += len(data)
                continue
            reader = obstore.open_reader(origin, path)
            with obstore.open_writer(destination, path) as writer:
                while piece := bytes(reader.read(_PIECE_BYTES)):
                    writer.write(piece)
                    copied += len(piece)
    return copied


def relocated(data: bytes, location: StorageLocation, path: str) -> bytes:
    """The manifest at `path` of a graph, with the base paths that it has at `location`."""
    dataset = branch_manifest(path)
    if dataset is None:
        return data
    manifest = read_manifest(data, path)
    parts = []
    for number, raw, body in fields(manifest.message):
        if number == _BASE_PATHS and body is not None:
            raw = length_delimited(number, _base_path_here(body, location, dataset))
        parts.append(raw)
    return manifest.with_message(b"".join(parts))


def open_any(location: StorageLocation) -> LocalStore | S3Store:
    if location.path is not None:
        return LocalStore(location.path, mkdir=True)
    return object_store(location)


def branch_manifest(path: str) -> str | None:
    """The dataset of a manifest of one of its branches; None for every other file of a graph."""
    match = _BRANCH_MANIFEST.fullmatch(path)
    return match[1] if match else None


def _newest(paths: Iterable[str]) -> dict[str, str]:
    """Folder -> its newest manifest, which sorts first by its name."""
    found: dict[str, str] = {}
    for path in sorted(paths):
        if branch_manifest(path):
            found.setdefault(path.rpartition("/")[0], path)
    return found


def _addresses(data: bytes, path: str) -> Iterator[str]:
    for number, _, body in fields(read_manifest(data, path).message):
        if number == _BASE_PATHS and body is not None:
            yield from (b.decode() for n, _, b in fields(body) if n == _PATH and b is not None)


def _base_path_here(body: bytes, location: StorageLocation, dataset: str) -> bytes:
    parts = []
    for number, raw, inner in fields(body):
        if number == _PATH and inner is not None:
            address = _address_here(location, dataset, inner.decode())
            raw = length_delimited(number, address.encode())
        parts.append(raw)
    return b"".join(parts)


def _address_here(location: StorageLocation, dataset: str, address: str) -> str:
    """The same lineage below this graph. A dataset's path inside a graph never changes."""
    return location.uri + address[_inside(address, dataset) :]


def _inside(address: str, dataset: str) -> int:
    """The position in the address of a lineage where the part inside its graph begins."""
    match = re.search(rf"/{re.escape(dataset)}(/tree/[^/]+)?/?$", address)
    if match is None:
        raise StorageFailure(f"{address} is no lineage of {dataset}", file=address)
    return match.start()


def _is_same_folder(address: str, wanted: str) -> bool:
    """Whether two addresses name one local folder, through a link or a mount."""
    if "://" in address or "://" in wanted:
        return False
    try:
        return Path(address).samefile(wanted)
    except OSError:
        return False
