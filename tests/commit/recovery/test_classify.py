from __future__ import annotations

import itertools

import pytest

from omnigraph.commit.recovery.classify import TableState, classify
from omnigraph.manifest.publication import TableMove
from omnigraph.manifest.records import TablePin
from omnigraph.values.identifiers import node_table

PIN = TablePin(node_table("A"), "nodes/A", None, 5, 1, "main", "e0")
MOVE = TableMove(PIN, PIN.changed_to(6, 2, "c1"), "mine")
COMPACTION = TableMove(PIN, PIN.moved_to(7), None)
RESTORED = PIN.moved_to(8)


@pytest.mark.parametrize(
    ("move", "pin", "head", "uuid", "state"),
    [
        (MOVE, PIN, 6, "mine", TableState.ROLLED_PAST_EXPECTED),
        (MOVE, PIN, 5, None, TableState.NO_MOVEMENT),
        (MOVE, PIN, 6, "foreign", TableState.UNEXPECTED_AT_P1),
        (MOVE, PIN, 6, None, TableState.UNEXPECTED_AT_P1),
        (MOVE, PIN, 7, "mine", TableState.UNEXPECTED_MULTISTEP),
        (MOVE, PIN, 7, "foreign", TableState.UNEXPECTED_MULTISTEP),
        (MOVE, PIN, 4, None, TableState.INVARIANT_VIOLATION),
        (MOVE, PIN, 0, None, TableState.INVARIANT_VIOLATION),
        # the owner, or an earlier recoverer, has put the pinned rows back on top and published it
        (MOVE, RESTORED, 8, "mine", TableState.NO_MOVEMENT),
        (MOVE, RESTORED, 9, "mine", TableState.UNEXPECTED_AT_P1),
        (MOVE, RESTORED, 6, "mine", TableState.INVARIANT_VIOLATION),
        # the same version with other rows: not what the writer built on
        (MOVE, PIN.changed_to(5, 1, "c9"), 6, "mine", TableState.UNEXPECTED_AT_P1),
        # a compaction has no uuid and is never taken for rolled past
        (COMPACTION, PIN, 7, None, TableState.UNEXPECTED_MULTISTEP),
        (COMPACTION, PIN, 6, None, TableState.UNEXPECTED_AT_P1),
        (COMPACTION, PIN, 5, None, TableState.NO_MOVEMENT),
    ],
)
def test_table(move: TableMove, pin: TablePin, head: int, uuid: str | None, state: str) -> None:
    assert classify(move, pin, head, uuid) is state


def test_rolled_past_needs_everything_to_fit() -> None:
    for head, uuid, pin in itertools.product(range(3, 10), ["mine", "x", None], [PIN, RESTORED]):
        rolled_past = classify(MOVE, pin, head, uuid) is TableState.ROLLED_PAST_EXPECTED
        assert rolled_past == (head == 6 and uuid == "mine" and pin == PIN)
