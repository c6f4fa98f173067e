"""`not { … }` and `optional { … }`: a sub-pattern, joined back to the rows it belongs to.

What a pattern finds depends only on the entities it shares with the rows around it. So it is
matched once per combination of those, and the rows meet its matches by their identity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import functions as F

from omnigraph.ir import reads
from omnigraph.ir.expressions import Variable, VariableKind
from omnigraph.spark.query.rows import Frame, SparkColumn, SparkRows

Run = Callable[[Any, SparkRows], SparkRows]


def anti_join(op: reads.AntiJoin, rows: SparkRows, run: Run) -> SparkRows:
    """Rows for which the pattern has no match."""
    shared = _identity(_shared(op.pattern), rows)
    found = run(op.pattern, _start(op.pattern, rows))
    matches, condition = _beside(found.frame, shared, ())
    frame = rows.frame.join(matches.distinct(), condition, "left_anti")
    return rows.on(frame, rows.at_most)


def optional(op: reads.Optional, rows: SparkRows, run: Run) -> SparkRows:
    """Each row with every match, or once with nothing bound."""
    shared = _identity(_shared(op.pattern), rows)
    found = run(op.pattern, _start(op.pattern, rows))
    bindings = {v.id: found.bindings[v.id] for v in op.variables if v.kind is not VariableKind.PATH}
    paths = {v.id: found.paths[v.id] for v in op.variables if v.kind is VariableKind.PATH}
    new = [*(c for bound in bindings.values() for c in bound.columns), *paths.values()]
    matches, condition = _beside(found.frame, shared, new)
    frame = rows.frame.join(matches, condition, "left").drop(*(_beside_name(n) for n in shared))
    return replace(
        rows,
        frame=frame,
        bindings={**rows.bindings, **bindings},
        paths={**rows.paths, **paths},
        at_most=None,
        is_unit=False,
    )


def _shared(pattern: Any) -> tuple[Variable, ...]:
    while not isinstance(pattern, reads.Rows):
        pattern = pattern.input
    return pattern.variables


def _start(pattern: Any, rows: SparkRows) -> SparkRows:
    """The rows a pattern begins with: what it shares, each combination once."""
    shared = _shared(pattern)
    bindings = {v.id: rows.bindings[v.id] for v in shared if v.id in rows.bindings}
    paths = {v.id: rows.paths[v.id] for v in shared if v.id in rows.paths}
    columns = [*(c for bound in bindings.values() for c in bound.columns), *paths.values()]
    frame, identity = rows.frame.select(*columns), _identity(shared, rows)
    # With nothing shared there is one combination, if there is a row; Connect wants to hear it so.
    frame = frame.dropDuplicates(identity) if identity else frame.limit(1)
    return SparkRows(frame, bindings, paths, at_most=rows.at_most)


def _identity(shared: Sequence[Variable], rows: SparkRows) -> list[str]:
    found: list[str] = []
    for variable in shared:
        path = rows.paths.get(variable.id)
        found += [path] if path is not None else rows.bindings[variable.id].identity
    return found


def _beside(frame: Frame, shared: Sequence[str], new: Sequence[str]) -> tuple[Frame, SparkColumn]:
    """Matches under names of their own, and the condition that they belong to a row."""
    renamed = frame.select(*(F.col(name).alias(_beside_name(name)) for name in shared), *new)
    conditions = [F.col(name).eqNullSafe(F.col(_beside_name(name))) for name in shared]
    return renamed, reduce(lambda a, b: a & b, conditions, F.lit(True))


def _beside_name(name: str) -> str:
    return f"{name}_beside"
