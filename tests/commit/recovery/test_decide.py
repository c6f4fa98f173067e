"""The whole decision table."""

from __future__ import annotations

import itertools

import pytest

from omnigraph.commit.intents import IntentKind
from omnigraph.commit.recovery.classify import TableState
from omnigraph.commit.recovery.decide import Decision, IntentFindings, decide

PAST, NONE = TableState.ROLLED_PAST_EXPECTED, TableState.NO_MOVEMENT
P1, MULTI = TableState.UNEXPECTED_AT_P1, TableState.UNEXPECTED_MULTISTEP
BEHIND = TableState.INVARIANT_VIOLATION


def found(
    kind: IntentKind = IntentKind.WRITE, *states: TableState, **flags: bool
) -> IntentFindings:
    names = ("published", "cancelled", "branch_gone", "head_marked_deleted", "branch_untouched")
    known = dict.fromkeys(names, False)
    return IntentFindings(kind=kind, states=states, **{**known, **flags})


@pytest.mark.parametrize(
    ("states", "decision"),
    [
        ((PAST,), Decision.ROLL_FORWARD),
        ((PAST, PAST), Decision.ROLL_FORWARD),
        ((NONE,), Decision.ROLL_BACK),
        ((PAST, NONE), Decision.ROLL_BACK),
        ((PAST, P1), Decision.ROLL_BACK),
        ((P1,), Decision.ROLL_BACK),
        ((MULTI, PAST), Decision.ROLL_BACK),
        ((BEHIND,), Decision.REFUSE),
        ((PAST, BEHIND), Decision.REFUSE),
        ((NONE, BEHIND, P1), Decision.REFUSE),
    ],
)
def test_a_dead_write(states: tuple[TableState, ...], decision: Decision) -> None:
    assert decide(found(IntentKind.WRITE, *states)) is decision


@pytest.mark.parametrize("states", [(PAST,), (PAST, PAST), (NONE,), (P1, MULTI)])
def test_maintenance_always_goes_back(states: tuple[TableState, ...]) -> None:
    assert decide(found(IntentKind.MAINTENANCE, *states)) is Decision.ROLL_BACK


def test_a_cancelled_write_is_never_rolled_forward() -> None:
    assert decide(found(IntentKind.WRITE, PAST, cancelled=True)) is Decision.ROLL_BACK


def test_branch_deletes() -> None:
    assert decide(found(IntentKind.BRANCH_DELETE)) is Decision.DISCARD
    marked = found(IntentKind.BRANCH_DELETE, head_marked_deleted=True)
    assert decide(marked) is Decision.FINISH_DELETE
    assert decide(found(IntentKind.BRANCH_DELETE, branch_gone=True)) is Decision.DISCARD


def test_fresh_branches() -> None:
    fresh = IntentKind.FRESH_BRANCH
    assert decide(found(fresh, branch_untouched=True)) is Decision.DELETE_BRANCH
    again = found(fresh, branch_untouched=True, head_marked_deleted=True)
    assert decide(again) is Decision.DELETE_BRANCH
    assert decide(found(fresh)) is Decision.DISCARD
    assert decide(found(fresh, branch_gone=True)) is Decision.DISCARD


def test_everything_else_by_rule() -> None:
    """All combinations against rules stated one at a time, most urgent first."""
    state_sets = [
        states for size in (0, 1, 2) for states in itertools.product(TableState, repeat=size)
    ]
    for kind, states in itertools.product(IntentKind, state_sets):
        for flags in itertools.product([False, True], repeat=5):
            published, cancelled, gone, deleted, _ = flags
            findings = IntentFindings(kind, states, *flags)
            decision = decide(findings)
            if published:
                assert decision is Decision.FINISHED
            elif kind is IntentKind.BRANCH_DELETE:
                assert decision in (Decision.FINISH_DELETE, Decision.DISCARD)
            elif kind is IntentKind.FRESH_BRANCH:
                assert decision in (Decision.DELETE_BRANCH, Decision.DISCARD)
            elif gone or deleted or kind is IntentKind.HOLD:
                assert decision is Decision.DISCARD
            elif BEHIND in states:
                assert decision is Decision.REFUSE
            elif decision is Decision.ROLL_FORWARD:
                assert kind is IntentKind.WRITE
                assert not cancelled
                assert set(states) <= {PAST}
            else:
                assert decision is Decision.ROLL_BACK
