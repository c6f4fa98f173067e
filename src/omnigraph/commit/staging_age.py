"""How long staged files may wait for their commit before cleanup could take them for nobody's."""

from __future__ import annotations

from omnigraph.settings.models import Settings
from omnigraph.values.clock import Clock


def outstayed(began_at: int, clock: Clock, settings: Settings) -> bool:
    """Ask once the intent is on the board: from then on cleanup sees that somebody is at it.

    A process that was stopped for longer than this stages again. Half the minimum age, so that
    clocks and file times need not agree well.
    """
    age = (clock.now_micros() - began_at) / 1_000_000
    return age > max(settings.maintenance.minimum_age_seconds / 2, settings.write.lease_seconds)
