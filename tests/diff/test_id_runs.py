from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.diff.id_runs import IdRuns, Scratch

IDS = st.lists(st.lists(st.text(max_size=3), max_size=8), max_size=6)


@given(IDS, st.integers(1, 5), st.integers(1, 4), st.none() | st.text(max_size=2))
def test_chunks_are_the_sorted_distinct_ids(
    batches: list[list[str]], run_ids: int, size: int, after: str | None
) -> None:
    wanted = sorted({i for batch in batches for i in batch if after is None or i > after})
    with Scratch() as scratch:
        runs = IdRuns(scratch, run_ids)
        for batch in batches:
            runs.add(pa.array(batch, pa.string()))
        chunks = [chunk.to_pylist() for chunk in runs.chunks(after, lambda: size)]
    assert [i for chunk in chunks for i in chunk] == wanted
