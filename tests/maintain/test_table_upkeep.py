from __future__ import annotations

import pytest

from omnigraph.lance_store.reads.scan import TableShape
from omnigraph.maintain.table_upkeep import Layout, is_due
from omnigraph.settings.models import MaintenanceSettings

LIMITS = MaintenanceSettings(fragments=10, deleted_share=0.5, unindexed_rows=100)


@pytest.mark.parametrize(
    ("small", "deleted", "stored", "unindexed", "due"),
    [
        (0, 0, 0, 0, False),
        (9, 0, 100, 99, False),
        (10, 0, 100, 0, True),
        (1, 0, 100, 100, True),
        (1, 900, 1000, 0, False),  # so few are not worth a pass, whatever their share
        (1, 1001, 1500, 0, True),
        (1, 1001, 3000, 0, False),
    ],
)
def test_when_upkeep_is_due(
    small: int, deleted: int, stored: int, unindexed: int, due: bool
) -> None:
    shape = TableShape(small, small, deleted, stored, stored * 10)
    assert is_due(Layout(shape, 1, unindexed), LIMITS) is due
