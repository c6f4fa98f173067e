"""Compare the tables of a dead writer with what its intent planned; pure."""

from __future__ import annotations

from enum import StrEnum

from omnigraph.manifest.publication import TableMove
from omnigraph.manifest.records import TablePin


class TableState(StrEnum):
    """The HEAD of one table, compared with its pin and with the move that the intent planned."""

    ROLLED_PAST_EXPECTED = "RolledPastExpected"
    NO_MOVEMENT = "NoMovement"
    UNEXPECTED_AT_P1 = "UnexpectedAtP1"
    UNEXPECTED_MULTISTEP = "UnexpectedMultistep"
    INVARIANT_VIOLATION = "InvariantViolation"


def classify(
    move: TableMove, pin: TablePin, head: int, transaction_at_result: str | None
) -> TableState:
    """Compare HEAD with the current pin.

    The pin may differ from `move.expected`, because the owner may have undone a part before it
    died. `transaction_at_result` is the uuid found at the version that the intent planned.
    """
    if head < pin.version:
        return TableState.INVARIANT_VIOLATION
    if head == pin.version:
        return TableState.NO_MOVEMENT
    ours = move.transaction_uuid is not None and move.transaction_uuid == transaction_at_result
    if ours and pin == move.expected and head == move.after.version:
        return TableState.ROLLED_PAST_EXPECTED
    one_step = head == pin.version + 1
    return TableState.UNEXPECTED_AT_P1 if one_step else TableState.UNEXPECTED_MULTISTEP
