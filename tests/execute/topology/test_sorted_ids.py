from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.execute.topology.sorted_ids import SortedIds

ids = st.lists(st.text(max_size=6), unique=True, max_size=20)


@given(
    ids, st.text(max_size=6), st.integers(0, 3), st.sampled_from([pa.string(), pa.large_string()])
)
def test_rank_is_the_rank_among_sorted_texts(
    texts: list[str], wanted: str, skipped: int, kind: pa.DataType
) -> None:
    array = pa.array(sorted(texts), kind).slice(skipped)
    kept = sorted(texts)[skipped:]
    for text in [*kept, wanted]:
        smaller = sum(other < text for other in kept)
        assert SortedIds(array).rank(text) == (smaller, text in kept)


@pytest.mark.parametrize("wanted", ["\ud800", "a\udfff"])
def test_a_lone_surrogate_is_not_among_them(wanted: str) -> None:
    assert SortedIds(pa.array(["a", "b"])).rank(wanted)[1] is False
