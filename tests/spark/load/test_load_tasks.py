from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.spark.load import load_tasks
from omnigraph.spark.load.load_tasks import decode_lines, encode_lines, gathered


@given(st.sets(st.integers(1, 10**12)) | st.sets(st.integers(1, 40)))
def test_lines_survive(numbers: set[int]) -> None:
    lines = np.array(sorted(numbers), np.int64)
    assert decode_lines(encode_lines(lines)).tolist() == lines.tolist()


def test_a_million_lines_in_a_row_are_a_few_bytes() -> None:
    assert len(encode_lines(np.arange(7, 1_000_007))) < 50


def numbered(*lengths: int) -> list[pa.RecordBatch]:
    starts = np.cumsum((0, *lengths))
    return [
        pa.record_batch({"n": np.arange(start, start + rows)})
        for start, rows in zip(starts, lengths, strict=False)
    ]


def test_small_batches_are_gathered_in_order() -> None:
    """Lance takes three times the CPU to write a million rows in batches of 10,000."""
    lengths = [10_000] * 20 + [0, 1]
    found = list(gathered(numbered(*lengths)))
    assert [batch.num_rows for batch in found] == [70_000, 70_000, 60_001]
    assert pa.Table.from_batches(found)["n"].to_pylist() == list(range(200_001))


def test_no_rows_and_large_batches_stay_as_they_are() -> None:
    assert list(gathered([])) == []
    assert [batch.num_rows for batch in gathered(numbered(0))] == [0]
    assert [batch.num_rows for batch in gathered(numbered(100_000, 3))] == [100_000, 3]


def test_rows_of_many_bytes_are_not_gathered() -> None:
    half = pa.record_batch({"data": pa.array([bytes(load_tasks._BYTES_PER_BATCH // 2)])})
    assert [batch.num_rows for batch in gathered([half] * 5)] == [2, 2, 1]
