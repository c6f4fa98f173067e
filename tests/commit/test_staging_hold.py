"""A hold is off the board when its owner is through with it, however that came."""

from __future__ import annotations

import pytest
from intents_for_tests import intent

from omnigraph.commit.arming import IntentHold
from omnigraph.commit.intents import IntentBoard
from omnigraph_testing.fakes import FakeClock, FakeFiles


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("step", ["start", "join"])
def test_an_interrupt_on_the_way_in_or_out_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    files = FakeFiles()
    hold = IntentHold(IntentBoard(files, FakeClock()), intent(5))
    monkeypatch.setattr(hold._renewer, step, interrupted)
    with pytest.raises(KeyboardInterrupt), hold:
        assert (step, len(files.objects)) == ("join", 1)
    assert files.objects == {}
    assert hold._stop.is_set()
