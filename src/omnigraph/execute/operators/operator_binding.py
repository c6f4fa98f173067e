"""Operators bound to one snapshot: views and neighbours are looked up once, not in every run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.errors import InvalidArgument, ResourceLimit
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.operators.beyond_memory import InParts, SpillSpace, frames_in_parts, steps_of
from omnigraph.execute.views.frame import Frame
from omnigraph.execute.views.snapshot_views import SnapshotViews
from omnigraph.plan.physical import PhysicalOp
from omnigraph.plan.plan_text import OperatorMeasure


@dataclass(slots=True)
class QueryRun:
    """What belongs to one run of a plan."""

    evaluator: Evaluator
    limits: QueryLimits


Operator = Callable[[QueryRun, Frame], Frame]
"""A bound operator. A sub-pattern begins with the rows of the given frame."""


@dataclass(frozen=True, slots=True)
class Binder:
    """Turns each operator of a plan into a function, inputs first."""

    operators: ClassVar[Mapping[type, Callable[[Binder, Any], Operator]]] = {}

    views: SnapshotViews
    provider: EmbeddingProvider
    space: SpillSpace
    steps: dict[int, OperatorMeasure] | None = None
    """For a profile: the measure of each operator, by its identity."""

    def bind(self, op: PhysicalOp) -> Operator:
        make = self.operators.get(type(op))
        if make is None:
            raise InvalidArgument(f"the local executor has no operator {type(op).__name__}")
        operate = make(self, op)
        if self.steps is not None:
            operate = _measured(
                operate, self.steps.setdefault(id(op), OperatorMeasure()), self.steps
            )

        def checked(run: QueryRun, start: Frame) -> Frame:
            run.limits.check()
            return operate(run, start)

        return checked

    def in_parts(self, op: Any, run: QueryRun, start: Frame, error: ResourceLimit) -> InParts:
        """For rows of `op` that do not fit in memory. Raises `error` when it cannot be divided."""
        steps = steps_of(op) if error.limit == "memory" else None
        if steps is None:
            raise error
        bound = [partial(self.bind(step), run) for step in steps]
        frames = partial(frames_in_parts, bound, start)
        return InParts(frames, run.evaluator, run.limits, self.space)


def _measured(
    operate: Operator, step: OperatorMeasure, steps: dict[int, OperatorMeasure]
) -> Operator:
    def measured(run: QueryRun, start: Frame) -> Frame:
        inner = sum(s.seconds for s in steps.values())
        began = time.perf_counter()
        frame = operate(run, start)
        spent = time.perf_counter() - began
        step.rows += frame.length
        step.seconds += spent - (sum(s.seconds for s in steps.values()) - inner)
        return frame

    return measured
