"""Run a read plan on one machine: a table from operator to function, bound to a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pyarrow as pa

from omnigraph.execute.operators.answer_operators import ANSWER_OPERATORS
from omnigraph.execute.operators.late_rows import UnprojectedRows, worth_waiting
from omnigraph.execute.operators.operator_binding import Binder, Run
from omnigraph.execute.operators.pattern_operators import PATTERN_OPERATORS
from omnigraph.execute.views.frame import ONE_ROW
from omnigraph.ir import reads
from omnigraph.plan.physical import PhysicalOp


class LocalExecutor(Binder):
    """Every operator of the language and of the planner."""

    __slots__ = ()
    operators: ClassVar = {**PATTERN_OPERATORS, **ANSWER_OPERATORS}

    def table(self, plan: PhysicalOp, run: Run) -> pa.Table:
        columns = self.bind(plan)(run, ONE_ROW).columns
        return pa.Table.from_arrays(list(columns.values()), list(columns))

    def answer(self, plan: PhysicalOp) -> Callable[[Run], pa.RecordBatch | UnprojectedRows]:
        """The rows of a run; very many of them with their columns left to be read in parts."""
        if not isinstance(plan, reads.Project):
            operate = self.bind(plan)

            def whole(run: Run) -> pa.RecordBatch:
                columns = operate(run, ONE_ROW).columns
                return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

            return whole
        below = self.bind(plan.input)
        names, values = [c.name for c in plan.columns], [c.value for c in plan.columns]

        def projected(run: Run) -> pa.RecordBatch | UnprojectedRows:
            frame = below(run, ONE_ROW)
            if worth_waiting(plan, frame):
                return UnprojectedRows(frame, plan, run.evaluator, run.limits)
            array = run.evaluator.array
            return pa.RecordBatch.from_arrays([array(value, frame) for value in values], names)

        return projected
