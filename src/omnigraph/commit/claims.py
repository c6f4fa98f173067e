"""What a writer takes exclusively and holds shared, and when two of them collide."""

from __future__ import annotations

from typing import Protocol


class Claim(Protocol):
    """Names of tables, branches and schemas; see `intents` for how they are spelled."""

    @property
    def exclusive(self) -> frozenset[str]: ...

    @property
    def shared(self) -> frozenset[str]: ...


def overlap(a: Claim, b: Claim) -> bool:
    """Shared claims live side by side; an exclusive one stands alone."""
    return not (
        a.exclusive.isdisjoint(b.exclusive)
        and a.exclusive.isdisjoint(b.shared)
        and a.shared.isdisjoint(b.exclusive)
    )
