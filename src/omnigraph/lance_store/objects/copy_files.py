"""Copy objects from one address to another, a piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import obstore
from obstore.store import LocalStore, S3Store

from omnigraph.lance_store.objects.control_files import object_store
from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.objects.storage_location import StorageLocation
from omnigraph.progress import tell

_PIECE_BYTES = 8 * 1024 * 1024


Change = Callable[[bytes, str], bytes]
"""Content and path -> the content to write instead."""


def copy_files(
    source: StorageLocation,
    target: StorageLocation,
    paths: Sequence[str],
    change: tuple[Callable[[str], bool], Change] | None = None,
) -> int:
    """Copy objects in this order; how many bytes. A file that is gone is an error.

    Files that the first part of `change` chooses are small, and written as the second makes them.
    """
    origin, destination = open_any(source), open_any(target)
    copied = 0
    for number, path in enumerate(paths):
        tell("copying", number, len(paths), "files")
        with storage_errors(f"copying {path}"):
            if change is not None and change[0](path):
                data = change[1](bytes(obstore.get(origin, path).bytes()), path)
                obstore.put(destination, path, data)
                copied += len(data)
                continue
            reader = obstore.open_reader(origin, path)
            with obstore.open_writer(destination, path) as writer:
                while piece := bytes(reader.read(_PIECE_BYTES)):
                    writer.write(piece)
                    copied += len(piece)
    return copied


def open_any(location: StorageLocation) -> LocalStore | S3Store:
    if location.path is not None:
        return LocalStore(location.path, mkdir=True)
    return object_store(location)
