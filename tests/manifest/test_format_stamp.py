from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.errors import FormatTooNew, FormatUnknown
from omnigraph.manifest import format_stamp
from omnigraph.manifest.format_stamp import CURRENT, check_readable, migrate, read_stamp


def schema(stamp: str | None) -> pa.Schema:
    metadata = {} if stamp is None else {"omnigraph:format": stamp}
    return pa.schema([pa.field("x", pa.int64())], metadata=metadata)


def test_the_stamp_is_read() -> None:
    assert read_stamp(schema("12")) == 12


@pytest.mark.parametrize("stamp", [None, "", "x", "-1", "1.5", " 1"])
def test_anything_else_is_unknown(stamp: str | None) -> None:
    with pytest.raises(FormatUnknown, match="export"):
        read_stamp(schema(stamp))


def test_newer_is_refused_and_older_readable() -> None:
    check_readable(CURRENT)
    check_readable(CURRENT - 1)
    with pytest.raises(FormatTooNew, match="upgrade omnigraph first"):
        check_readable(CURRENT + 1)


def test_steps_run_in_order_until_current(monkeypatch: pytest.MonkeyPatch) -> None:
    at, ran = [CURRENT - 3], []

    def step(number: int):
        def run(store: object) -> None:
            ran.append((number, store))
            at[0] = number + 1

        return run

    steps = {n: step(n) for n in range(CURRENT - 3, CURRENT)}
    monkeypatch.setattr(format_stamp, "MIGRATIONS", steps)
    migrate("the store", lambda: at[0])  # type: ignore[arg-type]
    assert ran == [(n, "the store") for n in range(CURRENT - 3, CURRENT)]
    migrate("the store", lambda: at[0])  # type: ignore[arg-type]
    assert len(ran) == 3, "a current graph needs nothing"


def test_no_step_and_no_progress_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FormatUnknown, match="cannot migrate"):
        migrate(None, lambda: CURRENT - 1)  # type: ignore[arg-type]
    monkeypatch.setattr(format_stamp, "MIGRATIONS", {CURRENT - 1: lambda store: None})
    with pytest.raises(FormatUnknown, match="did not write its stamp"):
        migrate(None, lambda: CURRENT - 1)  # type: ignore[arg-type]
