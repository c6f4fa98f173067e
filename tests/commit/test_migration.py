from __future__ import annotations

import pytest

from omnigraph.commit import migration
from omnigraph.commit.migration import migrate
from omnigraph.errors import FormatUnknown
from omnigraph.manifest.branch_state import CURRENT_FORMAT


def test_steps_run_in_order_until_current(monkeypatch: pytest.MonkeyPatch) -> None:
    at, ran = [CURRENT_FORMAT - 3], []

    def step(number: int):
        def run(store: object) -> None:
            ran.append((number, store))
            at[0] = number + 1

        return run

    steps = {n: step(n) for n in range(CURRENT_FORMAT - 3, CURRENT_FORMAT)}
    monkeypatch.setattr(migration, "MIGRATIONS", steps)
    migrate("the store", lambda: at[0])  # type: ignore[arg-type]
    assert ran == [(n, "the store") for n in range(CURRENT_FORMAT - 3, CURRENT_FORMAT)]
    migrate("the store", lambda: at[0])  # type: ignore[arg-type]
    assert len(ran) == 3, "a current graph needs nothing"


def test_no_step_and_no_progress_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FormatUnknown, match="cannot migrate"):
        migrate(None, lambda: 0)  # type: ignore[arg-type]
    monkeypatch.setattr(migration, "MIGRATIONS", {0: lambda store: None})
    with pytest.raises(FormatUnknown, match="did not write its stamp"):
        migrate(None, lambda: 0)  # type: ignore[arg-type]
