"""The options of a load, and its receipt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Any

from omnigraph.commit.request import CommitTerms
from omnigraph.errors import InvalidArgument
from omnigraph.manifest.records import Commit, StreamBatch
from omnigraph.values.identifiers import EntityKind, TableKey


class LoadMode(StrEnum):
    """How the input changes the stored entities."""

    APPEND = "append"
    """Every entity is new; an id that exists is a `KeyConflict`."""
    MERGE = "merge"
    """Insert or replace by id. Of several lines with one id, the last wins."""
    OVERWRITE = "overwrite"
    """The types that occur in the input hold exactly the input afterwards."""

    @staticmethod
    def parse(text: str) -> LoadMode:
        try:
            return LoadMode(text)
        except ValueError:
            known = ", ".join(mode.value for mode in LoadMode)
            raise InvalidArgument(f"no load mode {text!r}; there is: {known}") from None


@dataclass(frozen=True, slots=True)
class LoadOptions(CommitTerms):
    """How to read the input, and how to commit it."""

    _: KW_ONLY
    mode: LoadMode = LoadMode.APPEND
    type_name: str | None = None
    columns: Mapping[str, str] | None = None
    """CSV and Parquet: name in the file -> property."""
    stream_batch: StreamBatch | None = None
    """The batch of a stream. A batch that was committed before changes nothing."""


@dataclass(frozen=True, slots=True)
class LoadReceipt:
    """What a load did. `commit` is None when nothing changed."""

    branch: str
    base_branch: str | None
    branch_created: bool
    mode: str
    engine: str
    counts: tuple[tuple[TableKey, int], ...]
    commit: Commit | None
    engine_reason: str = ""
    """Why this engine ran."""
    repeated: bool = False
    """The idempotency key or the batch had been committed before; nothing was written."""

    @property
    def nodes(self) -> list[dict[str, Any]]:
        return self._loaded(EntityKind.NODE)

    @property
    def edges(self) -> list[dict[str, Any]]:
        return self._loaded(EntityKind.EDGE)

    @property
    def total_entities(self) -> int:
        return sum(count for _, count in self.counts)

    def to_dict(self) -> dict[str, Any]:
        return {
            "branch": self.branch,
            "base_branch": self.base_branch,
            "branch_created": self.branch_created,
            "mode": self.mode,
            "engine": self.engine,
            "engine_reason": self.engine_reason,
            "nodes": self.nodes,
            "edges": self.edges,
            "total_entities": self.total_entities,
            "commit": self.commit.to_dict() if self.commit else None,
            "repeated": self.repeated,
        }

    def _loaded(self, kind: EntityKind) -> list[dict[str, Any]]:
        return [
            {"name": key.type_name, "entities_loaded": count}
            for key, count in self.counts
            if key.kind is kind
        ]
