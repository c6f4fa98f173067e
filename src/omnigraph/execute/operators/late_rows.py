"""A large answer before its columns are read: positions, and what to make of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.views.frame import Frame
from omnigraph.ir.reads import Project
from omnigraph.plan.analysis import may_fail

# Below this many rows making the columns at once is cheaper than making them in parts.
_LARGE = 64 * 1024


@dataclass(frozen=True, slots=True)
class UnprojectedRows:
    """Rows of a frame whose returned columns are evaluated a few rows at a time."""

    frame: Frame
    project: Project
    evaluator: Evaluator
    limits: QueryLimits

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.project.columns]

    @property
    def length(self) -> int:
        return self.frame.length

    def values(self, start: int, end: int) -> pa.RecordBatch:
        self.limits.check_cancelled()
        whole = start == 0 and end == self.frame.length
        part = self.frame if whole else self.frame.take(np.arange(start, end), ordered=True)
        arrays = [self.evaluator.array(c.value, part) for c in self.project.columns]
        return pa.RecordBatch.from_arrays(arrays, self.names)


def worth_waiting(project: Project, frame: Frame) -> bool:
    """Many rows, and no column that may still turn out to be an error."""
    return frame.length > _LARGE and not any(may_fail(c.value) for c in project.columns)
