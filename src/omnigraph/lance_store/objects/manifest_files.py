"""The file of one version of a dataset, which Lance calls a manifest.

It has sections (the indexes, the transaction), then a protobuf message with its length, then a
footer: the position of the message, two numbers and a magic word. The message gives the positions
of the sections, so they keep them when the message is replaced.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from omnigraph.errors import StorageFailure

_MAGIC = b"LANC"
_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """The parts of a manifest."""

    sections: bytes
    message: bytes
    footer: bytes

    def with_message(self, message: bytes) -> bytes:
        """The bytes of the file with another message."""
        return b"".join((self.sections, _LENGTH.pack(len(message)), message, self.footer))

    def with_only(self, message: bytes) -> bytes:
        """The bytes of a file without sections, which the message must not name."""
        _, *rest = _FOOTER.unpack(self.footer)
        return b"".join((_LENGTH.pack(len(message)), message, _FOOTER.pack(0, *rest)))


def read_manifest(data: bytes, path: str) -> ManifestFile:
    """The parts of the manifest that is stored at `path`."""
    footer = data[-_FOOTER.size :]
    position, _, _, magic = _FOOTER.unpack(footer)
    (length,) = _LENGTH.unpack_from(data, position)
    begin = position + _LENGTH.size
    if magic != _MAGIC or begin + length != len(data) - _FOOTER.size:
        raise StorageFailure(f"{path} is no manifest that this release can read", file=path)
    return ManifestFile(data[:position], data[begin : begin + length], footer)
