"""Where a dead writer's tables stand; pure."""

from __future__ import annotations

from enum import StrEnum

from omnigraph.manifest.publication import TableMove


class TableState(StrEnum):
    """One table's HEAD against what the intent meant to do with it."""

    ROLLED_PAST_EXPECTED = "RolledPastExpected"
    NO_MOVEMENT = "NoMovement"
    UNEXPECTED_AT_P1 = "UnexpectedAtP1"
    UNEXPECTED_MULTISTEP = "UnexpectedMultistep"
    INVARIANT_VIOLATION = "InvariantViolation"


def classify(move: TableMove, head: int, transaction_at_result: str | None) -> TableState:
    """`transaction_at_result` is the uuid found at the version the intent wanted to reach."""
    expected, result = move.expected.version, move.after.version
    if head < expected:
        return TableState.INVARIANT_VIOLATION
    if head == expected:
        return TableState.NO_MOVEMENT
    ours = move.transaction_uuid is not None and move.transaction_uuid == transaction_at_result
    if head == result and ours:
        return TableState.ROLLED_PAST_EXPECTED
    return TableState.UNEXPECTED_AT_P1 if head == expected + 1 else TableState.UNEXPECTED_MULTISTEP
