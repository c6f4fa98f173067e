"""Which files a pipeline has processed: a set of digests that stays small in every commit.

A file is known by the digest of its path, size and time. A commit holds the newest digests itself
and names lists for the others, which are objects of `__history`. A list is written when the newest
digests become many; it takes in smaller lists then. So 100,000 files need a few names in a commit,
and a run writes little, however many files there are.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.errors import FormatUnknown
from omnigraph.lance_store.objects.control_files import ControlFiles
from omnigraph.manifest.layout import change_list_object
from omnigraph.values.clock import Clock

_DIGEST_BYTES = 12
_MOST_INLINE = 64
_SCHEMA = pa.schema([("digest", pa.binary(_DIGEST_BYTES))])

Digest = bytes


def file_digest(path: str, size: int, modified_micros: int) -> Digest:
    """The digest of one state of a file."""
    text = f"{path}\0{size}\0{modified_micros}".encode()
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()


@dataclass(frozen=True, slots=True)
class DigestList:
    """A list of digests in an object of `__history`."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class ProcessedFiles:
    """The digests of all processed files of one source."""

    lists: tuple[DigestList, ...] = ()
    newest: tuple[Digest, ...] = ()

    @property
    def count(self) -> int:
        return sum(each.count for each in self.lists) + len(self.newest)

    def digests(self, files: ControlFiles) -> set[Digest]:
        """All of them, in memory."""
        found = set(self.newest)
        for each in self.lists:
            found.update(_read(files, each.name))
        return found

    def with_files(
        self, added: Iterable[Digest], files: ControlFiles, clock: Clock
    ) -> ProcessedFiles:
        """The set with more files. A list that it writes is visible when a commit names it."""
        newest = [*self.newest, *added]
        if len(newest) <= _MOST_INLINE:
            return ProcessedFiles(self.lists, tuple(newest))
        lists = list(self.lists)
        while lists and lists[-1].count <= 2 * len(newest):
            newest += _read(files, lists.pop().name)
        name = clock.new_ulid()
        files.put(change_list_object(name), _encode(sorted(set(newest))))
        return ProcessedFiles((*lists, DigestList(name, len(set(newest)))))

    def to_json(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "lists": [[each.name, each.count] for each in self.lists],
            "newest": base64.b64encode(b"".join(self.newest)).decode(),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ProcessedFiles:
        packed = base64.b64decode(data["newest"])
        newest = [packed[n : n + _DIGEST_BYTES] for n in range(0, len(packed), _DIGEST_BYTES)]
        return ProcessedFiles(tuple(DigestList(*each) for each in data["lists"]), tuple(newest))


def _encode(digests: list[Digest]) -> bytes:
    table = pa.table({"digest": pa.array(digests, _SCHEMA.field(0).type)}, schema=_SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _SCHEMA) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _read(files: ControlFiles, name: str) -> list[Digest]:
    data = files.get(change_list_object(name))
    if data is None:
        # Only cleanup removes objects, and it keeps those that a commit of a branch names.
        raise FormatUnknown(
            f"{change_list_object(name)}, a list of processed files, is missing; run `verify`",
            object=change_list_object(name),
        )
    with pa.ipc.open_file(pa.BufferReader(data)) as reader:
        found: list[Digest] = reader.read_all().column("digest").to_pylist()
    return found
