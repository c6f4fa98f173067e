from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.spark.load.load_tasks import decode_lines, encode_lines


@given(st.sets(st.integers(1, 10**12)) | st.sets(st.integers(1, 40)))
def test_lines_survive(numbers: set[int]) -> None:
    lines = np.array(sorted(numbers), np.int64)
    assert decode_lines(encode_lines(lines)).tolist() == lines.tolist()


def test_a_million_lines_in_a_row_are_a_few_bytes() -> None:
    assert len(encode_lines(np.arange(7, 1_000_007))) < 50
