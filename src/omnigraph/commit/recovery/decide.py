"""Decide what to do with a dead intent; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.commit.intents import IntentKind
from omnigraph.commit.recovery.classify import TableState


class Decision(StrEnum):
    """The possible ends of a dead intent. The values stand in the audit as `recovery_kind`."""

    FINISHED = "finished"
    """Its publication is visible; only the intent object is left."""
    ROLL_FORWARD = "rolled_forward"
    ROLL_BACK = "rolled_back"
    DISCARD = "discarded"
    """It moves nothing, or its branch is gone."""
    FINISH_DELETE = "branch_delete_finished"
    DELETE_BRANCH = "fresh_branch_deleted"
    REFUSE = "refused"
    """A dataset is behind its pin: touch nothing."""


@dataclass(frozen=True, slots=True)
class IntentFindings:
    """The facts about a dead intent that decide its end."""

    kind: IntentKind
    states: tuple[TableState, ...]
    published: bool
    cancelled: bool
    branch_gone: bool
    head_marked_deleted: bool
    branch_untouched: bool
    """No write was committed to the branch since it was created."""


def decide(found: IntentFindings) -> Decision:
    if found.published:
        return Decision.FINISHED
    if found.kind is IntentKind.BRANCH_DELETE:
        return Decision.FINISH_DELETE if found.head_marked_deleted else Decision.DISCARD
    if found.kind is IntentKind.FRESH_BRANCH and not found.branch_gone:
        return Decision.DELETE_BRANCH if found.branch_untouched else Decision.DISCARD
    if found.branch_gone or found.head_marked_deleted or found.kind is IntentKind.HOLD:
        return Decision.DISCARD
    if TableState.INVARIANT_VIOLATION in found.states:
        return Decision.REFUSE
    may_roll_forward = found.kind is IntentKind.WRITE and not found.cancelled
    if may_roll_forward and _all_rolled_past(found.states):
        return Decision.ROLL_FORWARD
    return Decision.ROLL_BACK


def _all_rolled_past(states: Iterable[TableState]) -> bool:
    return all(state is TableState.ROLLED_PAST_EXPECTED for state in states)
