from __future__ import annotations

import pytest

from omnigraph_testing.fakes import FakeClock, FakeFiles


@pytest.fixture
def files() -> FakeFiles:
    return FakeFiles()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
