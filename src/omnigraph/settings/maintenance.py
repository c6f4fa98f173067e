"""When upkeep happens by itself, and what cleanup never touches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MaintenanceSettings:
    """Cleanup's caution and the reconciler's thresholds."""

    minimum_age_seconds: float = 3600.0
    """What was current, or was written, less long ago is never removed: longer than any read."""

    orphan_tag_days: float = 7.0
    """How long an unpublished version pushed aside by recovery stays for whoever investigates."""
