"""What the change feed hands out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnigraph.diff.change import Change
from omnigraph.manifest.records import Commit


@dataclass(frozen=True, slots=True)
class FeedBlock:
    """The changes of one commit, or a part of them; a baseline block holds whole entities."""

    commit: Commit
    changes: tuple[Change, ...]
    complete: bool
    """False: the next page goes on with the same commit."""
    baseline: bool = False

    @property
    def schema_version(self) -> str:
        """The accepted schema that the images follow."""
        return self.commit.schema_id

    def to_dict(self) -> dict[str, Any]:
        return {
            "commit": self.commit.to_dict(),
            "schema_version": self.schema_version,
            "baseline": self.baseline,
            "complete": self.complete,
            "changes": [change.to_dict() for change in self.changes],
        }


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Some blocks and the cursor behind them; `has_more`: ask again at once."""

    branch: str
    blocks: tuple[FeedBlock, ...]
    cursor: str
    has_more: bool

    def to_dict(self) -> dict[str, Any]:
        return {
            "branch": self.branch,
            "blocks": [block.to_dict() for block in self.blocks],
            "cursor": self.cursor,
            "has_more": self.has_more,
        }
