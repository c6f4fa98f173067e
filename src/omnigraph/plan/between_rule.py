"""Rule: nodes between two others are counted, and no rows are made of them.

`$p knows $f  $p worksAt $c  $f worksAt $c` with only a count above: each `$f` is between `$p` and
`$c`. The executor counts the nodes that two sorted lists have in common, the friends of `$p` and
the staff of `$c`. Without this rule it would make a row for each friend of each person.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from omnigraph.ir import reads
from omnigraph.ir.walk import variables_in
from omnigraph.plan.aggregate_rules import count_rows, counts_only
from omnigraph.plan.analysis import is_between_its_ends
from omnigraph.plan.estimates import Statistics, rows_reached
from omnigraph.plan.physical import WeighBetween, with_input


def count_between(op: Any, statistics: Statistics) -> Any:
    match op:
        case reads.Rows():
            return op
        case reads.Aggregate(reads.Expand() as closing, keys, aggregates) if counts_only(
            aggregates
        ):
            used = variables_in(c.value for c in (*keys, *map(count_rows, aggregates)))
            found = _closed(closing, used, statistics)
            return op if found is None else replace(op, input=found)
        case _:
            return with_input(op, count_between(op.input, statistics))


def _closed(closing: reads.Expand, used: frozenset[int], statistics: Statistics) -> Any | None:
    """The block that `closing` ends, with one of its two nodes counted; None when neither can be.

    The hop that binds this node is taken out. The other hops do not need it, so they stay.
    """
    if not closing.target_bound or not _is_plain(closing, statistics):
        return None
    hops: list[reads.Expand] = []
    below: Any = closing.input
    while isinstance(below, reads.Expand) and not below.target_bound:
        hops.append(below)
        below = below.input
    found = []
    for turned in (closing, _turned(closing)):
        between, end = turned.source, turned.target
        first = next((hop for hop in hops if hop.target.id == between.id), None)
        needed = used | {end.id} | {hop.source.id for hop in hops}
        if first is not None and between.id not in needed and _is_plain(first, statistics):
            found.append((first, turned))
    if not found:
        return None
    # Of two nodes the one with more rows is counted.
    first, second = max(found, key=lambda pair: rows_reached(pair[0], statistics))
    rows = below
    for hop in reversed(hops):
        rows = rows if hop is first else with_input(hop, rows)
    return WeighBetween(rows, first, second)


def _is_plain(op: reads.Expand, statistics: Statistics) -> bool:
    return (
        op.mode is reads.ExpandMode.EDGE
        and op.edge is None
        and op.path is None
        and len(op.steps) == 1
        and op.steps[0].direction is not reads.Direction.BOTH
        and is_between_its_ends(op, statistics.catalog)
    )


def _turned(op: reads.Expand) -> reads.Expand:
    steps = tuple(replace(s, direction=s.direction.reversed) for s in op.steps)
    return replace(op, source=op.target, target=op.source, steps=steps)
