from __future__ import annotations

import pytest

from omnigraph.vectors.vector_requests import RateLimit
from omnigraph_testing.fakes import FakeClock


def test_requests_are_spread_over_the_minute() -> None:
    clock = FakeClock()
    limit = RateLimit(30, clock)
    start = clock.monotonic()
    for _ in range(4):
        limit.wait()
    assert clock.monotonic() - start == pytest.approx(6)
