"""Scores are sorted as the column of the same numbers would be, in which NULL stands for NaN."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.evaluation.ordering import sort_frame
from omnigraph.execute.views.frame import Frame
from omnigraph.ir import expressions as ex
from omnigraph.ir.reads import OrderBy, Rows, SortKey

SCORES = {
    "some missing": [2.0, np.nan, 0.5, 2.0, -1.0, np.nan, 0.0, 3.5] * 4,
    "none missing": [2.0, 0.5, 2.0, -1.0, 0.0, 3.5] * 4,
    "all missing": [np.nan] * 12,
}


@pytest.mark.parametrize("wanted", [None, 0, 1, 3, 40])
@pytest.mark.parametrize("nulls_last", [False, True])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("scores", SCORES.values(), ids=SCORES)
def test_scores_are_sorted_like_a_column(
    scores: list[float], descending: bool, nulls_last: bool, wanted: int | None
) -> None:
    numbers = np.array(scores)
    rows = pa.array(np.arange(len(numbers)))
    column = pa.array(numbers, mask=np.isnan(numbers))
    frame = Frame(len(numbers), scores={"s": numbers}, columns={"row": rows, "c": column})

    def order(value: ex.Expression) -> list[int]:
        keys = (SortKey(value, descending, nulls_last),)
        op = OrderBy(Rows(), keys, (ex.ColumnRef("row", ex.I64),))
        return sort_frame(op, frame, Evaluator({}, 0), wanted).columns["row"].to_pylist()

    assert order(ex.ScoreRef("s")) == order(ex.ColumnRef("c", ex.F64, nullable=True))
