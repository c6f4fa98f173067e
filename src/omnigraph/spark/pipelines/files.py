"""The files of a source: found on the driver, local or in a bucket, with size and time."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omnigraph.errors import NotFound, PipelineFailed
from omnigraph.lance_store.objects.object_inputs import ObjectInput, find_objects
from omnigraph.manifest.processed_files import Digest, file_digest
from omnigraph.spark.pipelines.model import PipelineSource


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One file of a source. `object` is set for an object of a bucket."""

    path: str
    size: int
    modified_micros: int
    object: ObjectInput | None = None

    @property
    def digest(self) -> Digest:
        return file_digest(self.path, self.size, self.modified_micros)


def find_files(pipeline: str, source: PipelineSource) -> list[FoundFile]:
    """All files of a source, sorted by path. Names that begin with `_` or `.` are left out.

    A pattern may match nothing, because increments may come later; a path without one must exist.
    """
    found: dict[str, FoundFile] = {}
    for pattern in source.files:
        files = _in_bucket(pattern) if pattern.startswith("s3://") else _local(pattern)
        try:
            found.update({file.path: file for file in files})
        except NotFound as error:
            raise PipelineFailed(
                f"source {source.name}: {error.message}",
                pipeline=pipeline,
                source=source.name,
                file=pattern,
                cause=error.to_dict(),
            ) from error
    return [found[path] for path in sorted(found)]


def _in_bucket(pattern: str) -> Iterator[FoundFile]:
    try:
        objects = find_objects(pattern, os.environ)
    except NotFound:
        if glob.has_magic(pattern):
            return
        raise
    for each in objects:
        if not each.name.startswith(("_", ".")):
            yield FoundFile(str(each), each.size, each.modified_micros, each)


def _local(pattern: str) -> Iterator[FoundFile]:
    text = pattern.removeprefix("file://")
    path = Path(text)
    if path.is_dir():
        yield from _below(path)
        return
    if path.exists():
        yield _file(path)
        return
    if not glob.has_magic(text):
        raise NotFound(f"{text}: no such file or folder", file=text)
    for match in glob.iglob(text, recursive=True):  # noqa: PTH207 - absolute patterns
        each = Path(match)
        if each.name.startswith(("_", ".")):
            continue
        if each.is_dir():
            if "**" not in text:
                yield from _below(each)
        else:
            yield _file(each)


def _below(folder: Path) -> Iterator[FoundFile]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
        for name in sorted(names):
            if not name.startswith(("_", ".")):
                yield _file(Path(root) / name)


def _file(path: Path) -> FoundFile:
    state = path.stat()
    return FoundFile(str(path), state.st_size, state.st_mtime_ns // 1000)
