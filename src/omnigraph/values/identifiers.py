"""Names of tables, branches and tags: small frozen types, checked once where they come in."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from omnigraph.errors import InvalidName

MAIN = "main"
HEAD = "HEAD"
"""Where a commit is named: the newest commit of the branch in question."""
RESERVED_PROPERTIES = frozenset(
    {
        "id",
        "src",
        "dst",
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
    }
)

GRAPH_ID = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9-]{0,63}")
"""Ids of graphs on servers and in clusters."""
RESERVED_GRAPH_IDS = frozenset(
    {"policies", "healthz", "openapi", "graphs", "readyz", "metrics", "cluster", "admin", "mcp"}
)
"""Ids that no graph may have, because routes of a server have these names."""

_SEGMENT = re.compile(r"[\w.\-]+")
_MAX_NAME_BYTES = 180  # an encoded name plus suffix must stay below 255 bytes of a file name
_NAME_RULE = (
    "segments of letters, digits and . - _ joined by '/', no empty, '.' or '..' segment, "
    "no leading '__', at most 180 bytes"
)


class EntityKind(StrEnum):
    """The two halves of a property graph."""

    NODE = "node"
    EDGE = "edge"


@dataclass(frozen=True, slots=True, order=True)
class TableKey:
    """Which table of a graph: `node:Person` or `edge:Knows`."""

    kind: EntityKind
    type_name: str

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.type_name}"

    @staticmethod
    def parse(text: str) -> TableKey:
        kind, _, name = text.partition(":")
        return TableKey(EntityKind(kind), name)


def node_table(type_name: str) -> TableKey:
    return TableKey(EntityKind.NODE, type_name)


def edge_table(type_name: str) -> TableKey:
    return TableKey(EntityKind.EDGE, type_name)


def check_ref_name(name: str, what: str = "branch") -> str:
    """Return the NFC form of a branch or tag name, or raise `InvalidName` with the rule."""
    if not isinstance(name, str):
        raise InvalidName(f"a {what} name is a string, got {name!r}")
    return _checked_ref_name(name, what)


@lru_cache(maxsize=1024)
def _checked_ref_name(name: str, what: str) -> str:
    """Cached, because every read of a branch checks its name."""
    normal = unicodedata.normalize("NFC", name)
    segments = normal.split("/")
    well_formed = (
        all(_SEGMENT.fullmatch(s) and s not in (".", "..") for s in segments)
        and not normal.startswith("__")
        and len(normal.encode()) <= _MAX_NAME_BYTES
    )
    if not well_formed:
        raise InvalidName(f"{what} name {name!r} is not allowed: {_NAME_RULE}", name=name)
    return normal


def encode_ref_name(name: str) -> str:
    """The file name of a ref. '/' cannot occur in a file name, and '~' cannot occur in a ref."""
    return name.replace("/", "~")


def decode_ref_name(file_stem: str) -> str:
    return file_stem.replace("~", "/")


def fnv1a64_hex(text: str) -> str:
    """The 64-bit FNV-1a hash that names a type's directory."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"
