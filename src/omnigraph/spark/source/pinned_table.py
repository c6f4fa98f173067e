"""One type at one commit: everything a worker needs to read rows, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.catalog.model import EntityType
from omnigraph.lance_store.reads.scan import ReadTarget


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """One type at one commit, with its fragments cut into groups. Pickles."""

    graph_commit_id: str
    entity: EntityType
    columns: tuple[str, ...]
    row_filter: str | None
    target: ReadTarget
    groups: tuple[tuple[int, ...], ...]
    pushdown: bool
