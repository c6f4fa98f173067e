"""Timestamps of other tools -> the milliseconds that a `DateTime` holds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.values.temporal import FIRST_MILLI, LAST_MILLI


def cut_to_millis(column: pa.Array) -> pa.Array:
    """Timestamps of any unit and zone as those of a `DateTime`: UTC, later digits cut off.

    What is beyond the calendar stays there, so that a row rule finds it.
    """
    stored = column.cast(pa.timestamp(column.type.unit)).view(pa.int64())
    numbers = pc.fill_null(stored, 0).to_numpy(zero_copy_only=False)
    if column.type.unit == "s":
        # In milliseconds they might not fit 64 bits.
        numbers = np.clip(numbers, FIRST_MILLI // 1000 - 1, LAST_MILLI // 1000 + 1) * 1000
    per_milli = {"us": 1_000, "ns": 1_000_000}.get(column.type.unit, 1)
    cut = pa.array(np.floor_divide(numbers, per_milli))
    return pc.if_else(stored.is_valid(), cut, None).view(pa.timestamp("ms"))
