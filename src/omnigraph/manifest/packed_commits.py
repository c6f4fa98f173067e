"""Commits as compressed text, for the head of a branch and for the pages of its history.

The text has one line of JSON with what belongs to the commits, then a line for each commit: its id,
its parents with commas between them, and its JSON. Neighbouring commits are much alike, so that the
compressed text has about a tenth of the bytes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from omnigraph.manifest.records import StoredCommit

_ZSTD = pa.Codec("zstd", compression_level=1)

Json = dict[str, Any]


def pack_commits(about: Json, commits: Iterable[StoredCommit]) -> str:
    """The length of the text in bytes, a space, and the compressed text in base64."""
    first = json.dumps(about, ensure_ascii=False, separators=(",", ":"))
    # JSON escapes line breaks, and ids are ULIDs, so no part contains the separator after it.
    lines = [f"{c.commit_id} {','.join(c.parents)} {c.text}" for c in commits]
    text = "\n".join((first, *lines)).encode()
    return f"{len(text)} {base64.b64encode(_ZSTD.compress(text)).decode()}"


def unpack_commits(packed: str | bytes) -> tuple[Json, tuple[StoredCommit, ...]]:
    """Raises ValueError when the text was not made by `pack_commits`."""
    text = packed.encode() if isinstance(packed, str) else packed
    size, _, compressed = text.partition(b" ")
    try:
        data = _ZSTD.decompress(base64.b64decode(compressed, validate=True), int(size))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"the compressed commits are damaged: {error}") from error
    first, *lines = data.to_pybytes().decode().split("\n")
    return json.loads(first), tuple(_commit_of(line) for line in lines)


def _commit_of(line: str) -> StoredCommit:
    commit_id, parents, text = line.split(" ", 2)
    return StoredCommit(commit_id, tuple(parents.split(",")) if parents else (), text)
