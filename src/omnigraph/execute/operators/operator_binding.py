"""Operators bound to one snapshot: what they need of it is looked up once, not per run."""

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


@dataclass(slots=True)
class OperatorMeasure:
    """What one operator did, its inputs not counted."""

    rows: int = 0
    milliseconds: float = 0.0


@dataclass(slots=True)
class QueryRun:
    """What one run of a plan has of its own."""

    evaluator: Evaluator
    limits: QueryLimits


Operator = Callable[[QueryRun, Frame], Frame]
"""An operator of a plan bound to a snapshot; a sub-pattern begins with the rows it is given."""


@dataclass(frozen=True, slots=True)
class Binder:
    """Makes a function of every operator of a plan, inputs first."""

    operators: ClassVar[Mapping[type, Callable[[Binder, Any], Operator]]] = {}

    views: SnapshotViews
    provider: EmbeddingProvider
    space: SpillSpace
    steps: dict[int, OperatorMeasure] | None = None
    """Filled per operator when somebody wants a profile."""

    def bind(self, op: PhysicalOp) -> Operator:
        make = self.operators.get(type(op))
        if make is None:
            raise InvalidArgument(f"{type(op).__name__} cannot run on the local executor yet")
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
        """How to go on when the rows of `op` do not fit; the error itself when there is no way."""
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
        inner = sum(s.milliseconds for s in steps.values())
        began = time.perf_counter()
        frame = operate(run, start)
        spent = (time.perf_counter() - began) * 1000
        step.rows += frame.length
        step.milliseconds += spent - (sum(s.milliseconds for s in steps.values()) - inner)
        return frame

    return measured
