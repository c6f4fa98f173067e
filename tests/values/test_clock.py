from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.values.clock import SystemClock
from omnigraph.values.temporal import write_micros


def test_ids_of_one_process_increase() -> None:
    clock = SystemClock()
    ids = [clock.new_ulid() for _ in range(5000)]
    assert ids == sorted(set(ids))
    assert {len(i) for i in ids} == {26}


def test_threads_never_share_an_id() -> None:
    clock = SystemClock()
    with ThreadPoolExecutor(8) as pool:
        parts = pool.map(lambda _: [clock.new_ulid() for _ in range(500)], range(8))
    ids = [i for part in parts for i in part]
    assert len(set(ids)) == len(ids)


def test_time_moves_forward() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    clock.sleep(0.001)
    assert clock.monotonic() >= before + 0.001


@given(st.integers(-(2**50), 2**53))
def test_rfc3339_keeps_every_microsecond(micros: int) -> None:
    text = write_micros(micros)
    assert text.endswith("Z")
    moment = dt.datetime.fromisoformat(text)
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert (moment - epoch) // dt.timedelta(microseconds=1) == micros
