"""What this engine does not do, as data; it is told before anything runs."""

from __future__ import annotations

from omnigraph.errors import EngineCannot
from omnigraph.ir import reads
from omnigraph.ir.walk import walk

GAPS: dict[str, str] = {
    "nearest": "vectors are ranked by the indexes of one machine",
    "bm25": "text is ranked by the indexes of one machine",
    "rrf": "it fuses rankings, which one machine makes",
}


def refuse_gaps(plan: reads.ReadOp) -> None:
    """`EngineCannot` for the first thing in the plan that only the local engine does."""
    for op in walk(plan):
        match op:
            case reads.Search(function=name):
                raise EngineCannot.of("spark", f"{name}()", GAPS[name])
            case reads.Fuse():
                raise EngineCannot.of("spark", "rrf()", GAPS["rrf"])
            case _:
                continue
