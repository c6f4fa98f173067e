"""Several files of one load in one body: a tar archive whose first member lists the others."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from omnigraph.errors import InvalidArgument
from omnigraph.load.sources import Source, copied_file

INDEX = "sources.json"
_LARGEST_INDEX = 4 * 1024 * 1024
_COPY_BYTES = 1024 * 1024


class ArchivedFile(Struct, forbid_unknown_fields=True):
    """One member of the list: a file of the archive, and how errors call it."""

    file: str
    type: str | None = None
    name: str | None = None


@contextmanager
def unpacked_archive(body: IO[bytes], directory: str | None) -> Iterator[list[Source]]:
    """The sources of an archive; their files lie on local disk until the end."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-load-", dir=directory) as folder:
        try:
            with tarfile.open(fileobj=body, mode="r|") as archive:
                sources = _unpacked(archive, Path(folder))
        except tarfile.TarError as error:
            raise InvalidArgument(f"the body is not a whole tar archive: {error}") from error
        yield sources


def _unpacked(archive: tarfile.TarFile, folder: Path) -> list[Source]:
    listed: list[ArchivedFile] | None = None
    paths: dict[str, Path] = {}
    for member in archive:
        content = archive.extractfile(member) if member.isfile() else None
        if content is None:
            raise InvalidArgument(f"{member.name}: an archive of a load holds only files")
        if listed is None:
            listed = _index(member, content)
            continue
        # The folder of a member is a number, so equal names of files do not meet.
        place = folder / str(len(paths)) / Path(member.name).name
        place.parent.mkdir()
        with place.open("wb") as kept:
            shutil.copyfileobj(content, kept, _COPY_BYTES)
        paths[member.name] = place
    missing = [each.file for each in listed or () if each.file not in paths]
    if not listed or missing:
        told = f"it has no {missing[0]!r}" if missing else f"its first member is {INDEX}"
        raise InvalidArgument(f"the archive is not complete: {told}")
    return [copied_file(paths[each.file], each.type, each.name or each.file) for each in listed]


def _index(member: tarfile.TarInfo, content: IO[bytes]) -> list[ArchivedFile]:
    if member.name != INDEX or member.size > _LARGEST_INDEX:
        raise InvalidArgument(f"the first member of the archive is {INDEX}, not {member.name}")
    try:
        return msgspec.json.decode(content.read(), type=list[ArchivedFile])
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise InvalidArgument(f"{INDEX} does not fit: {error}") from None
