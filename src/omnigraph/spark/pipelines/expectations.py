"""Expectations: conditions on the rows of a step, counted in the pass that writes the targets.

A measured frame counts its rows, and those that fail, while Spark computes it for a target. So
counting needs no extra pass. If Spark did not report the counts, for example because it
proved a frame empty without computing it, they are computed.

Counting costs a few percent of a job that does little else. So rows that are counted anyway, by the
load or by the footers of Parquet files, are not counted again (`known_rows`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from operator import or_
from typing import Any

from omnigraph.errors import ExpectationFailed
from omnigraph.spark.pipelines.model import Expectation, OnFail
from omnigraph.spark.pipelines.results import ExpectationResult
from omnigraph.values.plurals import counted

Frame = Any
"""A `pyspark.sql.DataFrame`, classic or Connect."""

_PATIENCE_SECONDS = 1.5
_SHORT_PATIENCE_SECONDS = 0.1
"""For a run that failed: Spark may never report what it counted until then."""
RULES, STEP, ORIGIN, ROW = "rules", "step", "origin", "row"
"""The columns of quarantined rows."""


@dataclass
class MeasuredFrame:
    """A frame that is counted while a target computes it."""

    name: str
    frame: Frame
    """Before rows were taken out."""
    expect: Sequence[Expectation] = ()
    observation: Any = None
    known_rows: Callable[[], int | None] | None = None
    """Rows that something else counts; None while it is not known."""
    _counts: dict[str, int] | None = field(default=None, init=False)

    def counts(self, *, wait: bool = True) -> dict[str, int] | None:
        """`rows`, and `c0`, `c1` …: the rows that fail each check. None if they are not known."""
        if self._counts is None and self.known_rows is not None:
            rows = self.known_rows()
            if rows is None and not wait:
                return None
            if rows is not None:
                self._counts = {"rows": rows}
        if self._counts is None:
            patience = _PATIENCE_SECONDS if wait else _SHORT_PATIENCE_SECONDS
            found = _observed(self.observation, patience) if self.observation else None
            if found is None and wait:
                failed = [_fails(each) for each in self.expect]
                found = self.frame.agg(*_measures(self.expect, failed)).collect()[0].asDict()
            self._counts = None if found is None else {k: int(v or 0) for k, v in found.items()}
        return self._counts

    @property
    def quarantines(self) -> list[Expectation]:
        return [each for each in self.expect if each.on_fail is OnFail.QUARANTINE]

    def results(self, counts: dict[str, int]) -> list[ExpectationResult]:
        """What became of every check."""
        return [
            ExpectationResult(
                step=self.name,
                check=each.check,
                failed=counts[f"c{number}"],
                action=_action(each, counts[f"c{number}"], counts["rows"]),
                rows=counts["rows"],
            )
            for number, each in enumerate(self.expect)
        ]

    def passed(self, counts: dict[str, int]) -> int:
        """The rows that go on; exact if at most one check puts rows into quarantine."""
        if "kept" in counts:
            return counts["kept"]
        return counts["rows"]

    def bad_rows(self, sources: str) -> Frame:
        """The rows for the quarantine: the checks that they fail, their origin, and the row."""
        f = import_module("pyspark.sql.functions")
        failed = [
            f.when(_fails(each), f.lit(each.check)).otherwise(f.lit(None))
            for each in self.quarantines
        ]
        bad = self.frame.where(_any([_fails(each) for each in self.quarantines]))

        def with_origin(origin: Any) -> Any:
            rules = f.array_compact(f.array(*failed)).alias(RULES)
            step, row = f.lit(self.name).alias(STEP), f.struct("*").alias(ROW)
            return bad.select(rules, step, origin.alias(ORIGIN), row)

        file = f.coalesce(f.nullif(f.input_file_name(), f.lit("")), f.lit(sources))
        try:
            named = with_origin(file)
            named.schema  # noqa: B018 - makes Spark Connect look at the plan now
        except import_module("pyspark.errors").AnalysisException:
            # A join reads several files at once, so its rows come from no single file.
            return with_origin(f.lit(sources))
        return named


def measured(
    name: str, frame: Frame, expect: Sequence[Expectation], run_id: str
) -> tuple[MeasuredFrame, Frame]:
    """The counted frame, and the rows that go on.

    Each check is a column, so that it is evaluated once: for the counts and for the filter.
    """
    f = import_module("pyspark.sql.functions")
    observation = import_module("pyspark.sql").Observation(f"{run_id}-{name}")
    found = MeasuredFrame(name, frame, expect, observation)
    names = [f"__{run_id}_{number}" for number in range(len(expect))]
    failed = [f.col(each) for each in names]
    marks = [_fails(each).alias(mark) for each, mark in zip(expect, names, strict=True)]
    marked = frame.select("*", *marks) if marks else frame
    observed = marked.observe(observation, *_measures(expect, failed))
    if found.quarantines:
        observed = observed.where(~_any(_quarantining(expect, failed)))
    return found, observed.drop(*names) if names else observed


def counted_elsewhere(
    name: str, frame: Frame, known_rows: Callable[[], int | None]
) -> tuple[MeasuredFrame, Frame]:
    """A frame without checks whose rows something else counts."""
    return MeasuredFrame(name, frame, known_rows=known_rows), frame


def refuse_failed(pipeline: str, step: MeasuredFrame, counts: dict[str, int]) -> None:
    """Raise for the first check with `fail` that too many rows do not pass."""
    for number, each in enumerate(step.expect):
        failed, rows = counts[f"c{number}"], counts["rows"]
        if _action(each, failed, rows) == OnFail.FAIL.value:
            allowed = f", and {each.tolerate:.2%} may" if each.tolerate else ""
            raise ExpectationFailed(
                f"step {step.name}: {counted(failed, 'row')} of {rows:,} fail "
                f"`{each.check}`{allowed}",
                pipeline=pipeline,
                step=step.name,
                check=each.check,
                failed=failed,
                rows=rows,
            )


def _action(each: Expectation, failed: int, rows: int) -> str:
    if failed == 0:
        return "none"
    if each.on_fail is OnFail.FAIL and failed <= each.tolerate * rows:
        return "none"
    return each.on_fail.value


def _fails(each: Expectation) -> Any:
    """True for rows that do not meet the condition; NULL counts as not met."""
    f = import_module("pyspark.sql.functions")
    return ~f.coalesce(f.expr(each.check).cast("boolean"), f.lit(False))


def _quarantining(expect: Sequence[Expectation], failed: Sequence[Any]) -> list[Any]:
    """Of the columns that mark failed checks, those of checks that put rows into quarantine."""
    return [
        mark for each, mark in zip(expect, failed, strict=True) if each.on_fail is OnFail.QUARANTINE
    ]


def _any(conditions: Sequence[Any]) -> Any:
    return reduce(or_, conditions)


def _measures(expect: Sequence[Expectation], failed: Sequence[Any]) -> list[Any]:
    """The counts; `failed` says for each check whether a row fails it."""
    f = import_module("pyspark.sql.functions")
    found = [f.count(f.lit(1)).alias("rows")]
    found += [f.count_if(mark).alias(f"c{number}") for number, mark in enumerate(failed)]
    bad = _quarantining(expect, failed)
    if bad:
        found.append(f.count_if(~_any(bad)).alias("kept"))
    return found


def _observed(observation: Any, patience: float) -> dict[str, Any] | None:
    """What Spark counted; None if it did not count. Asking may wait, so a thread asks."""
    answers: list[dict[str, Any]] = []

    def ask() -> None:
        try:
            answers.append(dict(observation.get))
        except Exception:  # noqa: BLE001 - the counts are computed then
            return

    thread = threading.Thread(target=ask, name="observed-counts", daemon=True)
    thread.start()
    thread.join(patience)
    return answers[0] if answers and answers[0] else None
