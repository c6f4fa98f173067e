"""When upkeep happens by itself, and what cleanup never touches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MaintenanceSettings:
    """Cleanup's caution and the reconciler's thresholds."""

    minimum_age_seconds: float = 3600.0
    """What was current, or was written, less long ago is never removed: longer than any read."""

    automatic: bool = True
    """Tables this process writes are compacted and indexed in the background."""

    look_every_commits: int = 8
    """Commits to a table between two looks at its layout."""

    fragments: int = 32
    """Fragments smaller than `compacted_rows` that a table may gather before it is compacted.

    `python -m bench maintenance`: CPU of a commit, upkeep included, is 1.5 times as much with 8,
    1.2 with 16 and the same with 32 to 128; that of a read between commits rises from 32 on.
    """

    compacted_rows: int = 65_536
    """Fragments of this size are left alone: a background pass never rewrites more than it must."""

    deleted_share: float = 0.2
    """Share of stored rows that may be deleted before they are dropped from storage."""

    unindexed_rows: int = 20_000
    """Rows an index may not know before it is extended; they are found, only slower."""

    keep_commits: int | None = None
    """Clean up in the background too, keeping this many commits readable on every branch."""

    cleanup_every_commits: int = 1000
    """Commits of this process between two background cleanups."""

    orphan_tag_days: float = 7.0
    """How long an unpublished version pushed aside by recovery stays for whoever investigates."""
