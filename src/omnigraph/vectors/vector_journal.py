"""Vectors that were paid for and not committed yet: a run that dies goes on where it stopped."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from omnigraph.embed.provider import Vector

_LOOKUP = 500


class VectorJournal:
    """Text -> vector of one model for one graph, in one file. Safe between threads."""

    def __init__(self, directory: Path, graph_uri: str, model: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(f"{graph_uri}\0{model}".encode()).hexdigest()[:32]
        self._path = directory / f"{name}.sqlite"
        self._lock = threading.Lock()
        self._file = sqlite3.connect(self._path, check_same_thread=False, timeout=60)
        self._file.execute("CREATE TABLE IF NOT EXISTS vector (text BLOB PRIMARY KEY, value BLOB)")

    def __enter__(self) -> VectorJournal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        if kind is None:
            self._path.unlink(missing_ok=True)

    def known(self, texts: Sequence[str]) -> dict[str, Vector]:
        """Vectors of those texts that an earlier run made."""
        digests = {_digest(text): text for text in texts}
        keys = list(digests)
        found: dict[str, Vector] = {}
        for start in range(0, len(keys), _LOOKUP):
            part = keys[start : start + _LOOKUP]
            marks = ",".join("?" * len(part))
            with self._lock:
                rows = self._file.execute(
                    f"SELECT text, value FROM vector WHERE text IN ({marks})", part
                ).fetchall()
            found |= {digests[key]: np.frombuffer(value, "<f8").tolist() for key, value in rows}
        return found

    def add(self, vectors: Mapping[str, Vector]) -> None:
        rows = [(_digest(t), np.asarray(v, "<f8").tobytes()) for t, v in vectors.items()]
        with self._lock, self._file:
            self._file.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?)", rows)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
